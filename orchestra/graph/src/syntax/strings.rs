//! Strings whose closing quote was probably forgotten, and the place where it probably belongs.
//!
//! Such a string extends to the opening quote of the next string. From there on, strings and the text between them have
//! swapped roles.

use crate::attribute::{AttributeFamily, Known};
use crate::diagnostic::Diagnostic;
use crate::syntax::rules;
use crate::syntax::words::{is_identifier, is_key, is_word_start};
use crate::text::Span;

/// Returns whether the closing quote of a string is probably the opening quote of the next one. The string ends behind
/// `at`, with its quote; `line` is the end of its first line if it has several.
pub(crate) fn is_suspect(text: &str, start: usize, at: usize, line: Option<usize>) -> bool {
    let bytes = text.as_bytes();
    let next = bytes.get(at).copied().unwrap_or(0);
    is_word_start(next)
        || line.is_some_and(|end| closes_a_list(bytes.get(start..end).unwrap_or_default()))
        || key_at_end(inner(text, start, at)).is_some()
}

/// Returns whether the first line of a string closes a list that it does not open.
fn closes_a_list(line: &[u8]) -> bool {
    let count = |wanted: u8| line.iter().filter(|byte| **byte == wanted).count();
    count(b']') > count(b'[')
}

/// Returns the text of a string without its quotes.
fn inner(text: &str, start: usize, end: usize) -> &str {
    let text = text.get(start + 1..end).unwrap_or_default();
    text.strip_suffix('"').unwrap_or(text)
}

/// Returns the offset of the key if a text ends as a known attribute before its value, as in `, label=`. Any other name
/// before an `=` and a quote may belong to the text.
fn key_at_end(text: &str) -> Option<usize> {
    let before = text.trim_end().strip_suffix('=')?.trim_end();
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let key = before.trim_end_matches(is_part).len();
    let separates = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '[' | '{');
    let name = before.get(key..)?;
    let is_known = Known::find(name).is_some() || AttributeFamily::find(name).is_some();
    (is_known && before.get(..key)?.ends_with(separates)).then_some(key)
}

/// Returns the offset in a string at which its closing quote probably belongs.
fn probable_end(string: &str) -> Option<usize> {
    let mut start = 0;
    for line in string.split_inclusive('\n') {
        if start > 0 && begins_anew(line) {
            return Some(without_separator(string, start));
        }
        if let Some(bracket) = closing_bracket(line) {
            return Some(without_separator(string, start + bracket));
        }
        start += line.len();
    }
    key_at_end(string).map(|key| without_separator(string, key))
}

/// Returns the length of a text without the white space and the separator at its end.
fn without_separator(string: &str, end: usize) -> usize {
    let before = string.get(..end).unwrap_or_default().trim_end();
    before.trim_end_matches([',', ';']).trim_end().len()
}

/// Returns whether a line looks like an attribute, a statement, or the end of a list or a block.
fn begins_anew(line: &str) -> bool {
    let line = line.trim();
    if line.starts_with([']', '}']) {
        return true;
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let rest = line.trim_start_matches(is_part);
    let word = line.get(..line.len() - rest.len()).unwrap_or_default();
    let rest = rest.trim_start();
    let is_assigned = rest.starts_with('=') && !rest.starts_with("==");
    is_key(word) && is_assigned || is_identifier(word) && (rest.starts_with("->") || rest.starts_with('['))
}

/// Returns the offset of a bracket that ends a list and its statement, but begins none in the line.
fn closing_bracket(line: &str) -> Option<usize> {
    let mut open = 0usize;
    for (at, c) in line.char_indices() {
        match c {
            '[' => open += 1,
            ']' if open > 0 => open -= 1,
            ']' => {
                let rest = line.get(at + 1..)?.trim();
                let ends = rest.is_empty() || rest.starts_with([';', '}']) || rest.starts_with("//");
                return ends.then_some(at);
            }
            _ => {}
        }
    }
    None
}

/// Returns the diagnostic of a string whose closing quote is missing. It may extend to the opening quote of another
/// string, or to the end of the text.
pub(crate) fn unterminated(text: &str, string: Span, has_end: bool) -> Diagnostic {
    let (start, end) = (string.start as usize, string.end as usize);
    let message = match has_end {
        true => "this string is not closed where it seems to end",
        false => "this string is never closed",
    };
    let opening = Span::from_offsets(start, start + 1);
    let diagnostic = Diagnostic::from_rule(&rules::UNTERMINATED_STRING, message, opening)
        .label("opened here")
        .help("close it with `\"`; a quote inside a string is written `\\\"`");
    let place = probable_end(inner(text, start, end)).map(|place| start + 1 + place);
    let Some(place) = place else {
        return diagnostic;
    };
    let (span, side) = beside(text, place);
    diagnostic
        .related(span, format!("its closing quote probably belongs {side} this"))
        .fix(Span::from_offsets(place, place), "\"")
}

/// Returns the character beside an offset that can be shown, and the side of it on which the offset is.
fn beside(text: &str, place: usize) -> (Span, &'static str) {
    let next = text.get(place..).and_then(|rest| rest.chars().next());
    match next.filter(|next| !next.is_whitespace()) {
        Some(next) => (Span::from_offsets(place, place + next.len_utf8()), "before"),
        None => {
            let before = text.get(..place).and_then(|before| before.chars().next_back());
            let length = before.map_or(0, char::len_utf8);
            (Span::from_offsets(place - length, place), "after")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks the place of the closing quote.
    fn closed(string: &str) -> Option<String> {
        probable_end(string).map(|end| format!("{}|{}", &string[..end], &string[end..]))
    }

    #[test]
    fn a_string_ends_before_what_does_not_belong_to_it() {
        for (string, expected) in [
            ("Build]\n  b [label=", Some("Build|]\n  b [label=")),
            ("Build [x]];", Some("Build [x]|];")),
            (
                "Build,\n  shape=box, prompt=",
                Some("Build|,\n  shape=box, prompt="),
            ),
            ("Build\n  ]\n", Some("Build|\n  ]\n")),
            ("two\nlines ;\n a -> b", Some("two\nlines| ;\n a -> b")),
            ("Build, prompt=", Some("Build|, prompt=")),
            ("Build prompt = ", Some("Build| prompt = ")),
            ("a list[0] of items\nif x == y", None),
            ("Read list] of items", None),
            ("X=", None),
            ("grep name=", None),
        ] {
            assert_eq!(closed(string).as_deref(), expected, "{string}");
        }
    }
}
