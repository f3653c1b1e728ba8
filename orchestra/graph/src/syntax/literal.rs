//! Parts of a value as it is written in the file, and changes of them.

use std::ops::Range;

use crate::diagnostic::Fix;
use crate::syntax::lexer::{Kind, Lexer, decode, inside};
use crate::text::{Source, Span};

/// Returns the span in the file of a range of the text of a value, given the span of the value as it is written.
///
/// ```
/// use orchestra_graph::{Source, Span, value_range};
/// let source = Source::new("a.dot", r#"digraph { a [label="say \"hi\" twice"] }"#);
/// let twice = value_range(&source, Span::new(19, 37), 9..14);
/// assert_eq!(source.slice(twice), "twice");
/// ```
pub fn value_range(source: &Source, value: Span, range: Range<usize>) -> Span {
    inside(source.text(), value, range)
}

/// Returns the text of a value, given its span as it is written.
///
/// ```
/// use orchestra_graph::{Source, Span, value_text};
/// let source = Source::new("a.dot", r#"digraph { a [label="say \"hi\""] }"#);
/// assert_eq!(value_text(&source, Span::new(19, 31)), r#"say "hi""#);
/// ```
pub fn value_text(source: &Source, value: Span) -> String {
    let written = source.slice(value);
    match written.starts_with('"') {
        true => decode(written, value.start).0.into_owned(),
        false => written.to_owned(),
    }
}

/// Returns the change that replaces a range of the text of a value, given the span of the value as it is written. A
/// value that then needs quotes gets them.
///
/// ```
/// use orchestra_graph::{Source, Span, value_fix};
/// let source = Source::new("a.dot", r#"digraph { a [agent=wirter, label="say hi"] }"#);
/// let fix = value_fix(&source, Span::new(19, 25), 0..6, "the writer");
/// assert_eq!((source.slice(fix.span), fix.replacement.as_str()), ("wirter", r#""the writer""#));
/// let fix = value_fix(&source, Span::new(33, 41), 4..6, r#""ho""#);
/// assert_eq!((source.slice(fix.span), fix.replacement.as_str()), ("hi", r#"\"ho\""#));
/// ```
pub fn value_fix(source: &Source, value: Span, range: Range<usize>, text: &str) -> Fix {
    let written = source.slice(value);
    if !written.starts_with('"') {
        let before = written.get(..range.start).unwrap_or_default();
        let behind = written.get(range.end..).unwrap_or_default();
        let whole = format!("{before}{text}{behind}");
        if !is_word(&whole) {
            return Fix {
                span: value,
                replacement: quoted(&whole),
            };
        }
    }
    let replacement = match written.starts_with('"') {
        true => escaped(text),
        false => text.to_owned(),
    };
    Fix {
        span: inside(source.text(), value, range),
        replacement,
    }
}

/// Returns whether a text is one word for the lexer, so that it needs no quotes as a value.
pub(crate) fn is_word(text: &str) -> bool {
    let token = Lexer::new(text).next();
    token.kind == Kind::Word && token.span == Span::from_offsets(0, text.len())
}

/// Returns a text as a string of the language.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Returns a text with escapes, as it is written inside a string.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n").replace('\t', "\\t")
}
