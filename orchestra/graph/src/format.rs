//! The formatter, which writes a pipeline file in canonical form.

use crate::ast::{Attribute, Comment, DefaultsTarget, Identifier, Statement, Subgraph};
use crate::diagnostic::Diagnostic;
use crate::syntax::words::is_key;
use crate::syntax::{Parsed, is_identifier};
use crate::text::Span;

/// Maximum length in characters of a line with a list of attributes.
const WIDTH: usize = 100;
const INDENT: usize = 4;
/// Words that have another meaning without quotes.
const KEYWORDS: &[&str] = &["strict", "digraph", "graph", "subgraph", "node", "edge"];

/// Returns a parsed file in canonical form. Returns `None` if parsing found errors, so that no text gets lost.
///
/// There is one statement per line, indented by four spaces per level, with attributes `key=value` on one line if they
/// fit. Comments, blank lines (at most one), aliases and the exact text of values are preserved. Formatting is
/// idempotent and does not change the graph. The line end is that of the last line of the text.
///
/// ```
/// use orchestra_graph::{Limits, Source, format, parse};
/// let parsed = parse(&Source::new("a.dot", "digraph a{start->exit [ label = \"go\" ];}"), &Limits::default());
/// assert_eq!(format(&parsed).unwrap(), "digraph a {\n    start -> exit [label=\"go\"]\n}\n");
/// ```
pub fn format(parsed: &Parsed) -> Option<String> {
    if parsed.diagnostics.iter().any(Diagnostic::is_error) {
        return None;
    }
    let text = parsed.source.text();
    let file = &parsed.file;
    let last_line_end = text.rfind('\n').unwrap_or_default();
    let mut formatter = Formatter {
        text,
        comments: &file.comments,
        out: String::with_capacity(text.len() + text.len() / 8),
        line_end: match text.get(..last_line_end) {
            Some(before) if before.ends_with('\r') => "\r\n",
            _ => "\n",
        },
        level: 0,
        known_line_end: 0..0,
    };
    let start = text.len() - text.trim_start_matches('\u{feff}').len();
    let (before, _) = formatter.leading(start, file.keyword.start as usize, true);
    let (open, close) = (
        file.body.start as usize,
        (file.body.end as usize).saturating_sub(1),
    );
    formatter.gap(before, file.keyword.start as usize, before == start);
    formatter.hoist(open);
    formatter.indent();
    formatter.out.push_str("digraph ");
    if let Some(name) = &file.name {
        formatter.name(name, is_identifier);
        formatter.out.push(' ');
    }
    formatter.block(&file.statements, open, close);
    let end = formatter.trailing(close + 1, text.len(), false);
    formatter.end_line();
    formatter.leading(end, text.len(), false);
    Some(formatter.out)
}

struct Formatter<'s> {
    text: &'s str,
    /// The comments that are not written yet.
    comments: &'s [Comment],
    out: String,
    line_end: &'static str,
    level: usize,
    /// An offset and the first line end after it, so that a line with many comments is searched once.
    known_line_end: std::ops::Range<usize>,
}

impl<'s> Formatter<'s> {
    fn slice(&self, span: Span) -> &'s str {
        self.text
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default()
    }

    fn between(&self, from: usize, to: usize) -> &'s str {
        self.text.get(from..to).unwrap_or_default()
    }

    fn indent(&mut self) {
        self.out.extend(std::iter::repeat_n(' ', self.level * INDENT));
    }

    fn end_line(&mut self) {
        self.out.push_str(self.line_end);
    }

    /// Returns the next comment if it begins before an offset.
    fn comment_before(&self, offset: usize) -> Option<Span> {
        let comment = self.comments.first()?;
        ((comment.span.start as usize) < offset).then_some(comment.span)
    }

    fn write_comment(&mut self, span: Span) {
        self.out.push_str(self.slice(span));
        self.comments = self.comments.get(1..).unwrap_or_default();
    }

    /// Writes one blank line if the text between two items has any.
    fn gap(&mut self, from: usize, to: usize, first: bool) {
        let mut lines = self.between(from, to).split('\n');
        lines.next();
        lines.next_back();
        if !first && lines.any(|line| line.trim().is_empty()) {
            self.end_line();
        }
    }

    /// Writes the comments before an offset, each on a line of its own. Returns the end of the last one, and whether
    /// nothing has been written yet.
    fn leading(&mut self, mut from: usize, to: usize, mut first: bool) -> (usize, bool) {
        while let Some(span) = self.comment_before(to) {
            self.gap(from, span.start as usize, first);
            self.indent();
            self.write_comment(span);
            self.end_line();
            from = span.end as usize;
            first = false;
        }
        (from, first)
    }

    /// Writes the comments before an offset on lines of their own, because they cannot keep their position.
    fn hoist(&mut self, to: usize) {
        while let Some(span) = self.comment_before(to) {
            self.indent();
            self.write_comment(span);
            self.end_line();
        }
    }

    /// Writes the comments that belong to the item that ends at `from`: those on its line, up to `next`. Returns the
    /// end of the last one.
    fn trailing(&mut self, mut from: usize, next: usize, opening: bool) -> usize {
        while let Some(span) = self.comment_before(next) {
            let gap = self.between(from, span.start as usize);
            if gap.contains('\n') {
                break;
            }
            // `a; /* of b */ b`: a comment after a separator belongs to the item that follows on its line.
            let separated = opening || gap.contains([',', ';']);
            if separated && self.line_end_behind(span.end as usize) >= next {
                break;
            }
            self.out.push(' ');
            self.write_comment(span);
            from = span.end as usize;
        }
        from
    }

    fn line_end_behind(&mut self, offset: usize) -> usize {
        if !self.known_line_end.contains(&offset) {
            let rest = self.text.get(offset..).unwrap_or_default();
            let end = rest.find('\n').map_or(self.text.len(), |at| offset + at);
            self.known_line_end = offset..end.max(offset + 1);
            return end;
        }
        self.known_line_end.end
    }

    /// Writes `{ .. }`; `open` and `close` are the offsets of the braces.
    fn block(&mut self, statements: &'s [Statement], open: usize, close: usize) {
        self.out.push('{');
        if statements.is_empty() && self.comment_before(close).is_none() {
            self.out.push('}');
            return;
        }
        let first_start = statements
            .first()
            .map_or(close, |first| first.span().start as usize);
        let mut from = self.trailing(open + 1, first_start, true);
        self.end_line();
        self.level += 1;
        let mut first = true;
        for (at, statement) in statements.iter().enumerate() {
            let span = statement.span();
            (from, first) = self.leading(from, span.start as usize, first);
            self.gap(from, span.start as usize, first);
            self.statement(statement);
            let next = statements
                .get(at + 1)
                .map_or(close, |next| next.span().start as usize);
            from = self.trailing(span.end as usize, next, false);
            self.end_line();
            first = false;
        }
        self.leading(from, close, first);
        self.level -= 1;
        self.indent();
        self.out.push('}');
    }

    fn statement(&mut self, statement: &'s Statement) {
        match statement {
            Statement::Assignment(attribute) => {
                self.hoist(attribute.value_span.end as usize);
                self.indent();
                self.attribute(attribute);
            }
            Statement::Defaults(defaults) => {
                let keyword = match defaults.target {
                    DefaultsTarget::Graph => "graph",
                    DefaultsTarget::Node => "node",
                    DefaultsTarget::Edge => "edge",
                };
                self.indent();
                self.out.push_str(keyword);
                let from = defaults.span.start as usize + keyword.len();
                if !self.list(&defaults.attributes, from, defaults.span.end as usize) {
                    self.out.push_str(" []");
                }
            }
            Statement::Node(node) => {
                self.indent();
                self.name(&node.id, is_identifier);
                self.list(
                    &node.attributes,
                    node.id.span.end as usize,
                    node.span.end as usize,
                );
            }
            Statement::Edge(edge) => {
                let head = edge.nodes.last().map_or(edge.span, |last| last.span).end as usize;
                self.hoist(head);
                self.indent();
                for (at, node) in edge.nodes.iter().enumerate() {
                    if at > 0 {
                        self.out.push_str(" -> ");
                    }
                    self.name(node, is_identifier);
                }
                self.list(&edge.attributes, head, edge.span.end as usize);
            }
            Statement::Subgraph(subgraph) => self.subgraph(subgraph),
        }
    }

    fn subgraph(&mut self, subgraph: &'s Subgraph) {
        let (open, close) = (
            subgraph.body.start as usize,
            (subgraph.body.end as usize).saturating_sub(1),
        );
        self.hoist(open);
        self.indent();
        if subgraph.span.start != subgraph.body.start {
            self.out.push_str("subgraph ");
        }
        if let Some(name) = &subgraph.name {
            self.name(name, is_identifier);
            self.out.push(' ');
        }
        self.block(&subgraph.statements, open, close);
    }

    /// Writes a name, without quotes if it does not need them.
    fn name(&mut self, name: &Identifier, plain: fn(&str) -> bool) {
        let keyword = KEYWORDS.iter().any(|word| name.text.eq_ignore_ascii_case(word));
        let written = if plain(&name.text) && !keyword {
            &name.text
        } else {
            self.slice(name.span)
        };
        self.out.push_str(written);
    }

    fn attribute(&mut self, attribute: &Attribute) {
        self.name(&attribute.key, is_key);
        self.out.push('=');
        self.out.push_str(self.slice(attribute.value_span));
    }

    /// Writes a list of attributes after its head, which ends at `from`. Returns whether anything was written.
    fn list(&mut self, attributes: &'s [Attribute], from: usize, to: usize) -> bool {
        let commented = self.comment_before(to).is_some();
        if attributes.is_empty() && !commented {
            return false;
        }
        let before = self.out.len();
        if !commented {
            self.out.push_str(" [");
            for (at, attribute) in attributes.iter().enumerate() {
                if at > 0 {
                    self.out.push_str(", ");
                }
                self.attribute(attribute);
            }
            self.out.push(']');
            if self.last_line_fits(before) {
                return true;
            }
            self.out.truncate(before);
        }
        self.lines_of_list(attributes, from, to);
        true
    }

    /// Returns whether the text written after an offset is one line, and the whole line is not too long.
    fn last_line_fits(&self, before: usize) -> bool {
        let written = self.out.get(before..).unwrap_or_default();
        if written.contains('\n') || written.len() > WIDTH * 4 {
            return false;
        }
        let start = self.out.rfind('\n').map_or(0, |at| at + 1);
        let line = self.out.get(start..).unwrap_or_default();
        line.chars().count() <= WIDTH
    }

    fn lines_of_list(&mut self, attributes: &'s [Attribute], from: usize, to: usize) {
        let start_of = |at: usize| {
            attributes
                .get(at)
                .map_or(to, |attribute| attribute.key.span.start as usize)
        };
        self.out.push_str(" [");
        self.trailing(from, start_of(0), true);
        self.end_line();
        self.level += 1;
        for (at, attribute) in attributes.iter().enumerate() {
            let end = attribute.value_span.end as usize;
            self.hoist(end);
            self.indent();
            self.attribute(attribute);
            if at + 1 < attributes.len() {
                self.out.push(',');
            }
            self.trailing(end, start_of(at + 1), false);
            self.end_line();
        }
        self.hoist(to);
        self.level -= 1;
        self.indent();
        self.out.push(']');
    }
}
