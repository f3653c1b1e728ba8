//! Tokens to a syntax tree. Parsing always gives a tree, together with a list of faults (rules L1-L5, L10).

use std::borrow::Cow;

use smol_str::SmolStr;

use crate::ast::{
    Attribute, Defaults, DefaultsTarget, EdgeStatement, File, Identifier, NodeStatement, Statement, Subgraph,
};
use crate::diagnostic::Diagnostic;
use crate::syntax::lexer::{Kind, Lexer, Token, decode, is_identifier, is_key};
use crate::text::{Source, Span};
use crate::value::Value;

/// How large a pipeline may be (rule L10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest text, in bytes; 16 MiB unless set.
    pub bytes: usize,
    /// The deepest nesting of subgraphs; 256 unless set, and never more than 1,000.
    pub nesting: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes: 16 << 20,
            nesting: 256,
        }
    }
}

/// What parsing gives: the text, the tree and the faults.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The text that the spans refer to.
    pub source: Source,
    /// The tree of what was understood.
    pub file: File,
    /// The faults, in no particular order.
    pub faults: Vec<Diagnostic>,
}

const TARGETS: [(&str, DefaultsTarget); 3] = [
    ("graph", DefaultsTarget::Graph),
    ("node", DefaultsTarget::Node),
    ("edge", DefaultsTarget::Edge),
];
const MAX_FAULTS: usize = 1_000;
const MAX_NESTING: usize = 1_000;
const DOT_SUBSET: &str =
    "a pipeline is one `digraph NAME { .. }` whose edges are written `->` (Attractor 2.3)";

/// Parses a text.
///
/// ```
/// use orchestra_graph::{Limits, Source, parse};
/// let parsed = parse(&Source::new("a.dot", "digraph a { start -> exit }"), &Limits::default());
/// assert!(parsed.faults.is_empty());
/// assert_eq!(parsed.file.statements.len(), 1);
/// ```
pub fn parse(source: &Source, limits: &Limits) -> Parsed {
    let length = source.text().len();
    if length > limits.bytes.min(u32::MAX as usize - 1) {
        let fault = Diagnostic::error(
            "size_limit",
            format!("the file has {length} bytes; the limit is {}", limits.bytes),
            Span::default(),
        )
        .note("the limit keeps a damaged or hostile file from using up the machine")
        .help("split the pipeline into sub-pipelines, or raise the limit in code");
        return Parsed {
            source: source.clone(),
            file: File::default(),
            faults: vec![fault],
        };
    }
    let mut parser = Parser::new(source.text(), limits.nesting.min(MAX_NESTING));
    let mut file = parser.file();
    file.comments = std::mem::take(&mut parser.lexer.comments);
    let mut faults = parser.faults;
    // Behind a string that is never closed, or where its quote was lost, nothing is what it seems.
    if let Some(open) = parser
        .lexer
        .faults
        .iter()
        .find(|fault| fault.code == "unterminated_string")
    {
        let lost = open.related.first().map_or(open.span, |suspect| suspect.span);
        faults.retain(|fault| fault.span.start < lost.start);
    }
    faults.append(&mut parser.lexer.faults);
    Parsed {
        source: source.clone(),
        file,
        faults,
    }
}

/// Parses bytes that may not be text; faults say where they are not UTF-8.
///
/// ```
/// use orchestra_graph::{Limits, parse_bytes};
/// let parsed = parse_bytes("a.dot", b"digraph a { \xff }", &Limits::default());
/// assert_eq!(parsed.faults[0].code, "invalid_utf8");
/// ```
pub fn parse_bytes(name: &str, bytes: &[u8], limits: &Limits) -> Parsed {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(&Source::new(name, text), limits),
        Err(error) => {
            let at = error.valid_up_to();
            let source = Source::new(name, String::from_utf8_lossy(bytes));
            let fault = Diagnostic::error(
                "invalid_utf8",
                "the file is not valid UTF-8",
                Span::of(at, at + 3),
            )
            .label(format!("byte {at} does not belong to any character"))
            .help("save the file as UTF-8");
            Parsed {
                source,
                file: File::default(),
                faults: vec![fault],
            }
        }
    }
}

struct Parser<'s> {
    text: &'s str,
    lexer: Lexer<'s>,
    token: Token,
    ahead: Option<Token>,
    /// End of the token before, where something missing is reported.
    behind: u32,
    depth: usize,
    nesting: usize,
    undirected: bool,
    faults: Vec<Diagnostic>,
}

impl<'s> Parser<'s> {
    fn new(text: &'s str, nesting: usize) -> Parser<'s> {
        let mut lexer = Lexer::new(text);
        let token = lexer.next();
        let faults = Vec::new();
        Parser {
            text,
            lexer,
            token,
            ahead: None,
            behind: 0,
            depth: 0,
            nesting,
            undirected: false,
            faults,
        }
    }

    fn bump(&mut self) -> Token {
        let next = match self.ahead.take() {
            Some(token) => token,
            None => self.lexer.next(),
        };
        self.behind = self.token.span.end;
        std::mem::replace(&mut self.token, next)
    }

    fn peek(&mut self) -> Token {
        match self.ahead {
            Some(token) => token,
            None => *self.ahead.insert(self.lexer.next()),
        }
    }

    fn at(&self, kind: Kind) -> bool {
        self.token.kind == kind
    }

    fn eat(&mut self, kind: Kind) -> Option<Token> {
        self.at(kind).then(|| self.bump())
    }

    fn slice(&self, span: Span) -> &'s str {
        self.text
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default()
    }

    fn at_word(&self, word: &str) -> bool {
        self.at(Kind::Word) && self.slice(self.token.span).eq_ignore_ascii_case(word)
    }

    fn fault(&mut self, fault: Diagnostic) {
        match self.faults.len() {
            0..MAX_FAULTS => self.faults.push(fault),
            MAX_FAULTS => self.faults.push(Diagnostic::error(
                "syntax_error",
                format!("more than {MAX_FAULTS} faults; those behind this place are not listed"),
                fault.span,
            )),
            _ => {}
        }
    }

    /// Says that something was expected where the current token stands.
    fn expected(&mut self, what: &str, help: &str) {
        let token = self.token;
        let fault = match token.kind {
            Kind::End => Diagnostic::error(
                "syntax_error",
                format!("expected {what}, found the end of the file"),
                token.span,
            ),
            Kind::Html => self.html_label(token),
            Kind::Unknown => self.invalid_character(token),
            _ => {
                let found = shorten(self.slice(token.span));
                Diagnostic::error(
                    "syntax_error",
                    format!("expected {what}, found `{found}`"),
                    token.span,
                )
                .label(format!("expected {what}"))
            }
        };
        let fault = if fault.help.is_none() && !help.is_empty() {
            fault.help(help)
        } else {
            fault
        };
        self.fault(fault);
    }

    fn html_label(&self, token: Token) -> Diagnostic {
        Diagnostic::error(
            "html_label",
            "HTML labels are not part of the pipeline language",
            token.span,
        )
        .note("values are typed: text, numbers, booleans and durations (Attractor 2.3)")
        .help("write the label as text in double quotes")
    }

    fn invalid_character(&self, token: Token) -> Diagnostic {
        let text = self.slice(token.span);
        let character = text.chars().next().unwrap_or('\0');
        let shown = if character.is_control() {
            format!("U+{:04X}", character as u32)
        } else {
            format!("`{character}`")
        };
        Diagnostic::error(
            "invalid_character",
            format!("the character {shown} has no meaning here"),
            token.span,
        )
        .help("remove it, or put the text that holds it in double quotes")
    }

    fn file(&mut self) -> File {
        let mut file = File::default();
        if self.at_word("strict") {
            let span = self.bump().span;
            let fault = Diagnostic::error(
                "strict_graph",
                "`strict` graphs are not part of the pipeline language",
                span,
            )
            .note("a pipeline may well have two edges between the same nodes, with different conditions")
            .help("remove `strict`")
            .fix(Span::new(span.start, self.token.span.start), "");
            self.fault(fault);
        }
        if self.at_word("digraph") {
            file.keyword = self.bump().span;
        } else if self.at_word("graph") {
            let span = self.bump().span;
            file.keyword = span;
            self.undirected = true;
            let fault = Diagnostic::error("undirected_graph", "undirected graphs are not pipelines", span)
                .note(DOT_SUBSET)
                .help("write `digraph`")
                .fix(span, "digraph");
            self.fault(fault);
        } else {
            self.expected("`digraph`", DOT_SUBSET);
            self.skip_to_graph();
            if self.at(Kind::End) {
                return file;
            }
            file.keyword = Span::new(self.token.span.start, self.token.span.start);
            if self.at_word("digraph") {
                file.keyword = self.bump().span;
            }
        }
        if matches!(self.token.kind, Kind::Word | Kind::String) {
            file.name = Some(self.identifier());
        }
        let start = self.token.span;
        if self.eat(Kind::LeftBrace).is_none() {
            self.expected("`{`", DOT_SUBSET);
            return file;
        }
        file.statements = self.statements();
        file.body = self.close(start, "digraph");
        self.trailing();
        file
    }

    fn skip_to_graph(&mut self) {
        while !self.at(Kind::End) && !self.at_word("digraph") && !self.at(Kind::LeftBrace) {
            self.bump();
        }
    }

    fn trailing(&mut self) {
        if self.at(Kind::End) {
            return;
        }
        let span = self.token.span;
        if ["digraph", "graph", "strict"]
            .iter()
            .any(|word| self.at_word(word))
        {
            self.fault(
                Diagnostic::error(
                    "second_graph",
                    "a file holds one graph, but a second one begins here",
                    span,
                )
                .note(DOT_SUBSET)
                .help("move the second graph to a file of its own"),
            );
        } else if self.at(Kind::RightBrace) {
            self.expected(
                "the end of the file",
                "this `}` closes nothing; remove it or look for a missing `{`",
            );
        } else {
            self.expected(
                "the end of the file",
                "move statements inside the braces of the graph",
            );
        }
    }

    /// The closing brace of a block, or the fault that it is missing.
    fn close(&mut self, opening: Span, what: &str) -> Span {
        if let Some(token) = self.eat(Kind::RightBrace) {
            return opening.to(token.span);
        }
        // An unterminated string swallows the brace; saying it twice would not help.
        if !self
            .lexer
            .faults
            .iter()
            .any(|fault| fault.code.starts_with("unterminated"))
        {
            let fault = Diagnostic::error(
                "unterminated_block",
                format!("the `{{` of this {what} is never closed"),
                opening,
            )
            .label("opened here")
            .help("add a `}`");
            self.fault(fault);
        }
        opening.to(Span::new(opening.start, self.behind))
    }

    fn statements(&mut self) -> Vec<Statement> {
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

    /// Skips to where a statement may begin: behind a semicolon, at a brace, or at the first word of a line.
    fn recover(&mut self, before: u32) {
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

    /// Skips a balanced block, without recursion, so that depth costs nothing.
    fn skip_block(&mut self) {
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

    fn statement(&mut self) -> Option<Statement> {
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

    fn defaults(&mut self, target: DefaultsTarget) -> Option<Statement> {
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

    fn subgraph(&mut self, keyword: Option<Span>) -> Option<Statement> {
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
            let fault = Diagnostic::error(
                "nesting_limit",
                format!("subgraphs nest deeper than {}", self.nesting),
                opening,
            )
            .note("the limit keeps a damaged or hostile file from exhausting the stack")
            .help("flatten the subgraphs; they only scope defaults and give classes");
            self.fault(fault);
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

    fn edge_group(&mut self, span: Span) {
        self.fault(
            Diagnostic::error(
                "edge_group",
                "a group in braces cannot be the end of an edge",
                span,
            )
            .note("each edge carries its own condition, label and weight (Attractor 2.2)")
            .help("write one edge for each node of the group"),
        );
    }

    fn node_or_edge(&mut self) -> Option<Statement> {
        let id = self.node_id()?;
        let start = id.span;
        let mut nodes = vec![id];
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
        if let (true, Some(id)) = (nodes.len() == 1, nodes.first()) {
            let id = id.clone();
            return Some(Statement::Node(NodeStatement { id, attributes, span }));
        }
        Some(Statement::Edge(EdgeStatement {
            nodes,
            attributes,
            span,
        }))
    }

    fn undirected_edge(&mut self) {
        // In an undirected graph the keyword has been reported already.
        if !self.undirected {
            let span = self.token.span;
            let fault = Diagnostic::error(
                "undirected_edge",
                "edges are directed: `--` is not part of the pipeline language",
                span,
            )
            .note(DOT_SUBSET)
            .help("write `->`")
            .fix(span, "->");
            self.fault(fault);
        }
    }

    /// A node id, checked to be an identifier (rule L3), without a port.
    fn node_id(&mut self) -> Option<Identifier> {
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
        let mut fault = Diagnostic::error(
            "node_id_syntax",
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
            fault = fault.help(format!("rename it, for instance to `{suggestion}`; put text for people in a label: `{suggestion}{label}`"));
        } else {
            fault = fault.help("give it an id of letters and digits, and put text for people in its `label`");
        }
        self.fault(fault);
        // The node is kept under its odd name, so that edges to it are not reported as well.
        Some(id)
    }

    fn port(&mut self, span: Span) {
        self.fault(
            Diagnostic::error("port", "ports are not part of the pipeline language", span)
                .help("remove the port")
                .fix(span, ""),
        );
    }

    /// A word or string as a name; the caller has seen that it is one.
    fn identifier(&mut self) -> Identifier {
        let token = self.bump();
        let text = match token.kind {
            Kind::String => SmolStr::new(self.decode(token)),
            _ => SmolStr::new(self.slice(token.span)),
        };
        self.concatenation();
        Identifier {
            text,
            span: token.span,
        }
    }

    fn decode(&mut self, token: Token) -> Cow<'s, str> {
        let (text, unknown) = decode(self.slice(token.span), token.span.start);
        for span in unknown {
            let escape = shorten(self.slice(span));
            let fault = Diagnostic::warning("unknown_escape", format!("`{escape}` is not an escape"), span)
                .note("the escapes are `\\\"`, `\\n`, `\\t` and `\\\\`; anything else stands as written")
                .help("write `\\\\` where a backslash is meant");
            self.fault(fault);
        }
        text
    }

    fn concatenation(&mut self) {
        while self.at(Kind::Plus) {
            let start = self.bump().span;
            if matches!(self.token.kind, Kind::String | Kind::Word) {
                self.bump();
            }
            let span = Span::new(start.start, self.behind);
            self.fault(
                Diagnostic::error("string_concatenation", "`+` does not join strings here", span)
                    .note("strings may run over several lines as they are")
                    .help("write one string"),
            );
        }
    }

    fn attribute_lists(&mut self) -> Vec<Attribute> {
        let mut attributes = Vec::new();
        while self.at(Kind::LeftBracket) {
            self.attribute_list(&mut attributes);
        }
        attributes
    }

    fn attribute_list(&mut self, attributes: &mut Vec<Attribute>) {
        let opening = self.bump().span;
        let mut warned = false;
        loop {
            match self.token.kind {
                Kind::RightBracket => {
                    self.bump();
                    return;
                }
                Kind::Comma => {
                    self.expected("an attribute", "remove the comma");
                    self.bump();
                    continue;
                }
                Kind::Word | Kind::String => {}
                Kind::End | Kind::RightBrace | Kind::Arrow | Kind::LeftBracket => {
                    self.unclosed_list(opening);
                    return;
                }
                _ => {
                    self.expected(
                        "an attribute",
                        "attributes are written `[key = value, key = value]`",
                    );
                    self.skip_in_list();
                    continue;
                }
            }
            if self.token.first && matches!(self.peek().kind, Kind::Arrow | Kind::LeftBracket) {
                self.unclosed_list(opening);
                return;
            }
            match self.attribute(true) {
                Some(attribute) => attributes.push(attribute),
                None => self.skip_in_list(),
            }
            self.separator(&mut warned);
        }
    }

    /// Rule L2: `,` is canonical, `;` and white space are accepted with a warning for each list.
    fn separator(&mut self, warned: &mut bool) {
        let token = self.token;
        let (span, replacement, found) = match token.kind {
            Kind::Comma => {
                self.bump();
                return;
            }
            Kind::Semicolon => {
                self.bump();
                if self.at(Kind::RightBracket) {
                    return;
                }
                (token.span, ",", "`;`")
            }
            Kind::Word | Kind::String
                if !(token.first && matches!(self.peek().kind, Kind::Arrow | Kind::LeftBracket)) =>
            {
                (Span::new(self.behind, self.behind), ",", "white space")
            }
            _ => return,
        };
        if !std::mem::replace(warned, true) {
            let shown = if span.is_empty() { token.span } else { span };
            self.fault(
                Diagnostic::warning(
                    "attr_separator",
                    format!("attributes are separated by {found} instead of `,`"),
                    shown,
                )
                .label("expected `,` before this")
                .help("put a `,` between attributes; `orchestra fmt` does it for the whole file")
                .fix(span, replacement),
            );
        }
    }

    fn unclosed_list(&mut self, opening: Span) {
        if self
            .lexer
            .faults
            .iter()
            .any(|fault| fault.code == "unterminated_string")
        {
            return;
        }
        self.fault(
            Diagnostic::error(
                "unterminated_block",
                "the `[` of this attribute list is never closed",
                opening,
            )
            .label("opened here")
            .help("add a `]`"),
        );
    }

    /// Skips to the next place in a list where an attribute may begin.
    fn skip_in_list(&mut self) {
        loop {
            match self.token.kind {
                Kind::RightBracket | Kind::RightBrace | Kind::End => return,
                Kind::Comma | Kind::Semicolon => {
                    self.bump();
                    return;
                }
                Kind::Word if self.token.first => return,
                _ => {}
            }
            self.bump();
        }
    }

    fn attribute(&mut self, in_list: bool) -> Option<Attribute> {
        let key = self.identifier();
        if !is_key(&key.text) {
            let fault = Diagnostic::error("syntax_error", format!("`{}` is not an attribute key", shorten(&key.text)), key.span)
                .help("a key is made of letters, digits and `_`, in parts joined by dots, such as `human.default_choice`");
            self.fault(fault);
            if !self.at(Kind::Equals) {
                return None;
            }
        }
        if self.eat(Kind::Equals).is_none() {
            let name = shorten(&key.text);
            self.expected(
                &format!("`=` after `{name}`"),
                &format!("write `{name}=value`; a flag is written `{name}=true`"),
            );
            return None;
        }
        let token = self.token;
        let on_next_line = in_list && token.first && self.peek().kind == Kind::Equals;
        let value = match token.kind {
            Kind::Word if !on_next_line => {
                self.bump();
                let value = Value::of_word(self.slice(token.span));
                self.concatenation();
                value
            }
            Kind::String => {
                self.bump();
                let text = self.decode(token);
                self.concatenation();
                Value::String(text.into())
            }
            Kind::Html => {
                let fault = self.html_label(token);
                self.fault(fault);
                self.bump();
                Value::String("".into())
            }
            _ => {
                self.expected(
                    &format!("a value for `{}`", shorten(&key.text)),
                    "a value is a word, a number, a duration such as `15m`, or text in double quotes",
                );
                return None;
            }
        };
        let quoted = token.kind == Kind::String;
        Some(Attribute {
            key,
            value,
            value_span: token.span,
            quoted,
        })
    }
}

/// A text short enough for one line of a message.
pub(crate) fn shorten(text: &str) -> String {
    const MAX: usize = 60;
    let mut shown: String = text
        .chars()
        .take(MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(MAX).is_some() {
        shown.push_str("..");
    }
    shown
}

/// An identifier made from any text; empty where nothing of it can stay.
pub(crate) fn suggest_identifier(text: &str) -> String {
    let mut id = String::new();
    for character in text.chars().take(60) {
        if character.is_ascii_alphanumeric() || character == '_' {
            id.push(character);
        } else if !id.is_empty() && !id.ends_with('_') {
            id.push('_');
        }
    }
    let id = id.trim_end_matches('_');
    if id.starts_with(|c: char| c.is_ascii_digit()) {
        format!("n{id}")
    } else {
        id.to_owned()
    }
}
