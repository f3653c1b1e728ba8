//! The part of the parser for statements: nodes, edges, defaults, subgraphs (Attractor 2.2, rules L1, L3, L10).

use crate::ast::{Defaults, DefaultsTarget, EdgeStatement, Identifier, NodeStatement, Statement, Subgraph};
use crate::diagnostic::Diagnostic;
use crate::syntax::lexer::Kind;
use crate::syntax::parser::{DOT_SUBSET, Parser, suggest_identifier};
use crate::syntax::rules;
use crate::syntax::words::{is_identifier, shorten};
use crate::text::Span;

const TARGETS: [(&str, DefaultsTarget); 3] = [
    ("graph", DefaultsTarget::Graph),
    ("node", DefaultsTarget::Node),
    ("edge", DefaultsTarget::Edge),
];

impl Parser<'_> {
    pub(super) fn statements(&mut self) -> Vec<Statement> {
        let mut statements = Vec::new();
        loop {
            while self.eat(Kind::Semicolon).is_some() || self.eat(Kind::Comma).is_some() {}
            if matches!(self.token.kind, Kind::RightBrace | Kind::End) {
                return statements;
            }
            let before = self.token.span.start;
            match self.statement() {
                Some(statement) => statements.push(statement),
                None => self.recover(before),
            }
        }
    }

    /// Skips to a position where a statement may begin or end: a semicolon, a closing brace, or the first word of a
    /// line.
    pub(super) fn recover(&mut self, before: u32) {
        if self.token.span.start == before {
            self.bump();
        }
        let mut brackets = 0usize;
        loop {
            match self.token.kind {
                Kind::End | Kind::RightBrace => return,
                Kind::LeftBracket => brackets += 1,
                Kind::RightBracket => brackets = brackets.saturating_sub(1),
                Kind::Semicolon if brackets == 0 => return,
                Kind::Word | Kind::String if brackets == 0 && self.token.first => return,
                Kind::LeftBrace => {
                    self.skip_block();
                    continue;
                }
                _ => {}
            }
            self.bump();
        }
    }

    /// Skips a balanced block without recursion, so that deep nesting cannot exhaust the stack.
    pub(super) fn skip_block(&mut self) {
        let mut depth = 0usize;
        loop {
            match self.token.kind {
                Kind::LeftBrace => depth += 1,
                Kind::RightBrace => depth = depth.saturating_sub(1),
                Kind::End => return,
                _ => {}
            }
            self.bump();
            if depth == 0 {
                return;
            }
        }
    }

    pub(super) fn statement(&mut self) -> Option<Statement> {
        match self.token.kind {
            Kind::LeftBrace => return self.subgraph(None),
            Kind::Word | Kind::String => {}
            _ => {
                self.expected(
                    "a statement",
                    "a statement is a node, an edge, `key = value`, `graph`/`node`/`edge [..]` or a subgraph",
                );
                return None;
            }
        }
        if self.at(Kind::Word) {
            let word = self.slice(self.token.span);
            if word.eq_ignore_ascii_case("subgraph") {
                let keyword = self.bump().span;
                return self.subgraph(Some(keyword));
            }
            let target = TARGETS
                .iter()
                .find(|(keyword, _)| word.eq_ignore_ascii_case(keyword));
            if let Some((_, target)) = target {
                return self.defaults(*target);
            }
        }
        if self.peek().kind == Kind::Equals {
            return self.attribute(false).map(Statement::Assignment);
        }
        self.node_or_edge()
    }

    pub(super) fn defaults(&mut self, target: DefaultsTarget) -> Option<Statement> {
        let keyword = self.bump();
        if !self.at(Kind::LeftBracket) {
            let word = self.slice(keyword.span).to_owned();
            self.expected(
                &format!("`[` after `{word}`"),
                &format!("`{word}` is a keyword: `{word} [..]` sets defaults; a node needs another id"),
            );
            return None;
        }
        let attributes = self.attribute_lists();
        let span = Span::new(keyword.span.start, self.behind);
        Some(Statement::Defaults(Defaults {
            target,
            attributes,
            span,
        }))
    }

    pub(super) fn subgraph(&mut self, keyword: Option<Span>) -> Option<Statement> {
        let start = keyword.unwrap_or(self.token.span);
        let name = match self.token.kind {
            Kind::Word | Kind::String if keyword.is_some() => Some(self.identifier()),
            _ => None,
        };
        let opening = self.token.span;
        if !self.at(Kind::LeftBrace) {
            self.expected("`{`", "a subgraph is written `subgraph NAME { .. }`");
            return None;
        }
        if self.depth >= self.nesting {
            let diagnostic = Diagnostic::from_rule(
                &rules::NESTING_LIMIT,
                format!("subgraphs nest deeper than {}", self.nesting),
                opening,
            )
            .note("the limit keeps a damaged or hostile file from exhausting the stack")
            .help("flatten the subgraphs; they only scope defaults and give classes");
            self.diagnostic(diagnostic);
            self.skip_block();
            return None;
        }
        self.bump();
        self.depth += 1;
        let statements = self.statements();
        self.depth -= 1;
        let body = self.close(opening, "subgraph");
        if self.at(Kind::Arrow) {
            self.edge_group(start.to(body));
            return None;
        }
        Some(Statement::Subgraph(Subgraph {
            name,
            statements,
            span: start.to(body),
            body,
        }))
    }

    pub(super) fn edge_group(&mut self, span: Span) {
        self.diagnostic(
            Diagnostic::from_rule(
                &rules::EDGE_GROUP,
                "an edge cannot end in a group in braces",
                span,
            )
            .note("each edge carries its own condition, label and weight (Attractor 2.2)")
            .help("write one edge for each node of the group"),
        );
    }

    pub(super) fn node_or_edge(&mut self) -> Option<Statement> {
        let id = self.node_id()?;
        let start = id.span;
        let leads_on = matches!(self.token.kind, Kind::Arrow | Kind::DoubleDash);
        let mut nodes = Vec::with_capacity(if leads_on { 2 } else { 1 });
        nodes.push(id);
        loop {
            match self.token.kind {
                Kind::Arrow => {}
                Kind::DoubleDash => self.undirected_edge(),
                _ => break,
            }
            self.bump();
            if self.at(Kind::LeftBrace) || self.at_word("subgraph") {
                let start = self.token.span;
                while !self.at(Kind::LeftBrace) && !self.at(Kind::End) {
                    self.bump();
                }
                self.skip_block();
                self.edge_group(Span::new(start.start, self.behind));
                break;
            }
            if !matches!(self.token.kind, Kind::Word | Kind::String) {
                self.expected("the node that the edge leads to", "an edge is written `a -> b`");
                break;
            }
            nodes.push(self.node_id()?);
        }
        let attributes = self.attribute_lists();
        let span = Span::new(start.start, self.behind);
        if nodes.len() == 1
            && let Some(id) = nodes.pop()
        {
            return Some(Statement::Node(NodeStatement { id, attributes, span }));
        }
        Some(Statement::Edge(EdgeStatement {
            nodes,
            attributes,
            span,
        }))
    }

    pub(super) fn undirected_edge(&mut self) {
        // In an undirected graph the keyword has been reported already.
        if !self.undirected {
            let span = self.token.span;
            let diagnostic = Diagnostic::from_rule(
                &rules::UNDIRECTED_EDGE,
                "edges are directed: `--` is not part of the pipeline language",
                span,
            )
            .note(DOT_SUBSET)
            .help("write `->`")
            .fix(span, "->");
            self.diagnostic(diagnostic);
        }
    }

    /// Parses a node id, which must be an identifier (rule L3). A port is reported and dropped.
    pub(super) fn node_id(&mut self) -> Option<Identifier> {
        let id = self.identifier();
        if self.at(Kind::Colon) {
            let start = self.bump().span;
            while matches!(self.token.kind, Kind::Word | Kind::String | Kind::Colon) && !self.token.first {
                self.bump();
            }
            self.port(start.to(Span::new(start.start, self.behind)));
            return Some(id);
        }
        if is_identifier(&id.text) {
            return Some(id);
        }
        let quoted = self.slice(id.span).starts_with('"');
        if let (false, Some((node, _))) = (quoted, id.text.split_once(':'))
            && is_identifier(node)
        {
            self.port(Span::new(id.span.start + node.len() as u32, id.span.end));
            return Some(Identifier {
                text: node.into(),
                span: id.span,
            });
        }
        let suggestion = suggest_identifier(&id.text);
        let mut diagnostic = Diagnostic::from_rule(
            &rules::NODE_ID_SYNTAX,
            format!("`{}` is not a node id", shorten(&id.text)),
            id.span,
        )
        .note("a node id is a letter or `_`, then letters, digits and `_`; folders of a run are named by it")
        .node(shorten(&id.text));
        if !suggestion.is_empty() {
            let label = if quoted {
                format!(" [label={}]", self.slice(id.span))
            } else {
                String::new()
            };
            diagnostic = diagnostic.help(format!("rename it, for instance to `{suggestion}`; put text for people in a label: `{suggestion}{label}`"));
        } else {
            diagnostic = diagnostic
                .help("give it an id of letters and digits, and put text for people in its `label`");
        }
        self.diagnostic(diagnostic);
        // The node keeps its invalid id, so that edges to it are not reported as well.
        Some(id)
    }

    pub(super) fn port(&mut self, span: Span) {
        self.diagnostic(
            Diagnostic::from_rule(&rules::PORT, "ports are not part of the pipeline language", span)
                .help("remove the port")
                .fix(span, ""),
        );
    }
}
