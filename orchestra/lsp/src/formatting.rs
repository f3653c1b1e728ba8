//! Formatting, as `orchestra fmt` does.

use orchestra_graph::{Limits, Source, Span, format, parse};

use crate::protocol::TextEdit;
use crate::text::{Encoding, Text};

/// Returns the edits that format a pipeline: none if its text has syntax errors. The edit leaves out what is equal at
/// the beginning and at the end, so that the cursor of the editor stays.
pub(crate) fn format_edits(text: &Text, encoding: Encoding) -> Vec<TextEdit> {
    let old = text.as_str();
    let parsed = parse(&Source::new("", old), &Limits::default());
    let Some(new) = format(&parsed).filter(|new| new != old) else {
        return Vec::new();
    };
    let start = equal_length(old.chars(), new.chars());
    let (old_rest, new_rest) = (
        old.get(start..).unwrap_or_default(),
        new.get(start..).unwrap_or_default(),
    );
    let end = equal_length(old_rest.chars().rev(), new_rest.chars().rev());
    let replacement = new_rest
        .get(..new_rest.len().saturating_sub(end))
        .unwrap_or_default();
    let span = Span::new(start as u32, old.len().saturating_sub(end) as u32);
    vec![TextEdit::new(text.range(span, encoding), replacement.to_owned())]
}

/// Returns the number of bytes that two texts have in common. It does not end between `\r` and `\n`, which is no
/// position of the protocol.
fn equal_length(a: impl Iterator<Item = char>, b: impl Iterator<Item = char>) -> usize {
    let mut length = 0;
    let mut pending = 0;
    for (a, b) in a.zip(b) {
        if a != b {
            break;
        }
        pending += a.len_utf8();
        if a != '\r' && a != '\n' {
            length += pending;
            pending = 0;
        }
    }
    length
}
