//! The part of the parser for values that need quotes, but have none: `label=Ship it?`.

use crate::ast::{Attribute, Identifier};
use crate::attribute::{AttributeType, Known};
use crate::diagnostic::Diagnostic;
use crate::syntax::lexer::{Kind, Token, from_next_token};
use crate::syntax::literal::{is_word, quoted};
use crate::syntax::parser::Parser;
use crate::syntax::rules;
use crate::syntax::words::{is_key, shorten};
use crate::text::Span;
use crate::value::Value;

/// The quotes of other languages.
const FOREIGN_QUOTES: &[(char, char)] = &[('\'', '\''), ('\u{201c}', '\u{201d}'), ('\u{201e}', '\u{201c}')];

/// The length in bytes of a value without quotes above which its end is not searched.
const MAX_VALUE: usize = 1_000;

impl Parser<'_> {
    /// Reports a value that is more than one word, but has no quotes. The current token is the first of the value. Returns
    /// `None` if there is no such value, and the attribute as far as it is clear otherwise.
    pub(super) fn unquoted(&mut self, key: &Identifier, in_list: bool) -> Option<Option<Attribute>> {
        let first = self.token;
        if !self.needs_quotes(first, in_list) {
            return None;
        }
        let start = first.span.start as usize;
        let end = self.unquoted_end(first, in_list);
        let value = end.and_then(|end| self.text.get(start..end));
        // Outside of a list, words may be statements.
        if !in_list && value.is_none_or(|value| value.split_whitespace().all(is_word)) {
            return None;
        }
        let span = match (end, first.kind) {
            (Some(end), _) => Span::from_offsets(start, end),
            (None, Kind::Word) => first.span,
            (None, _) => return None,
        };
        let name = shorten(&key.text);
        let diagnostic = Diagnostic::from_rule(
            &rules::SYNTAX_ERROR,
            format!("the value of `{name}` needs quotes"),
            span,
        )
        .label("written without quotes")
        .note("without quotes, a value is one word of letters, digits, `_`, `.` and `-`");
        let Some(value) = value else {
            self.diagnostic(diagnostic.help("put the whole value in double quotes"));
            self.bump();
            return Some(None);
        };
        let text = without_quotes(value);
        let replacement = quoted(text);
        let help = format!("write `{name}={}`", shorten(&replacement));
        self.diagnostic(diagnostic.help(help).fix(span, replacement));
        while self.token.span.start < span.end && !self.at(Kind::End) {
            self.bump();
        }
        Some(Some(Attribute {
            key: key.clone(),
            value: Value::String(text.into()),
            value_span: span,
            quoted: false,
        }))
    }

    /// Returns whether the value at the current token continues after it.
    fn needs_quotes(&mut self, first: Token, in_list: bool) -> bool {
        match first.kind {
            Kind::Unknown => return self.slice(first.span) != ">",
            Kind::Word => {}
            _ => return false,
        }
        // The quotes of other languages are letters for the lexer.
        if !self.slice(first.span).is_ascii() {
            let (line, _) = line_from(self.text, first.span.start as usize);
            if foreign_string(line).is_some_and(|length| length > first.span.len() as usize) {
                return true;
            }
        }
        let next = self.peek();
        if next.first {
            return false;
        }
        match next.kind {
            Kind::Unknown | Kind::Colon => true,
            Kind::Equals => in_list,
            Kind::String => in_list && !self.behind(next).starts_with('='),
            // A word that follows may also be a flag, which lacks `=true`.
            Kind::Word => {
                let known = Known::find(self.slice(next.span));
                let is_flag = known.is_some_and(|known| {
                    matches!(known.spec().ty, AttributeType::Boolean | AttributeType::Condition)
                });
                let behind = self.behind(next);
                !is_flag && !behind.is_empty() && !behind.starts_with(['=', '[']) && !behind.starts_with("->")
            }
            _ => false,
        }
    }

    /// Returns the text from the token after a token.
    fn behind(&self, token: Token) -> &str {
        from_next_token(self.text, token.span.end)
    }

    /// Returns the end of the value that begins with a token, if it is clear: before the next separator, the end of the
    /// list, or the next `name=`.
    fn unquoted_end(&self, first: Token, in_list: bool) -> Option<usize> {
        let start = first.span.start as usize;
        let (line, is_whole) = line_from(self.text, start);
        if let Some(length) = foreign_string(line) {
            return Some(start + length);
        }
        // In `condition=outcome=fail`, the value itself contains the first `=`.
        let word = first.span.len() as usize;
        let has_equals = line.get(word..)?.trim_start().starts_with('=');
        let skipped = if has_equals {
            word + line.get(word..)?.find('=')? + 1
        } else {
            0
        };
        let is_end = |c: char| matches!(c, ',' | ';' | ']' | '=' | '"' | '<' | '>' | '[' | '{' | '}');
        let mut from = skipped;
        let end = loop {
            let stop = line.get(from..)?.find(is_end).map(|at| from + at);
            break match stop.and_then(|stop| Some((stop, line.get(stop..)?.chars().next()?))) {
                // A comma may belong to the text.
                Some((stop, ',')) if in_list && !self.continues(start + stop + 1) => {
                    from = stop + 1;
                    continue;
                }
                Some((stop, ';')) => stop,
                Some((stop, ',' | ']')) if in_list => stop,
                Some((stop, '}')) if !in_list => stop,
                Some((stop, '=')) if in_list => name_before(line, stop)?,
                None if is_whole && (!in_list || self.continues(start + line.len())) => line.len(),
                _ => return None,
            };
        };
        let value = line.get(..end)?.trim_end();
        let is_comment = value.contains("//") || value.contains("/*");
        let is_ambiguous = is_comment || has_equals && value.contains(char::is_whitespace);
        (!is_ambiguous && !value.is_empty()).then_some(start + value.len())
    }

    /// Returns whether a list ends or continues with an attribute behind an offset.
    fn continues(&self, at: usize) -> bool {
        let rest = from_next_token(self.text, Span::from_offsets(at, at).end);
        let (line, _) = line_from(rest, 0);
        let name = line.split_once('=').map(|(name, _)| name.trim_end());
        rest.starts_with(']') || name.is_some_and(is_key)
    }
}

/// Returns the rest of a line from an offset, and whether that is all of it. Only a part of a long line is searched, so that
/// the time for a text is proportional to its length.
fn line_from(text: &str, start: usize) -> (&str, bool) {
    let rest = text.get(start..).unwrap_or_default();
    let mut most = rest.len().min(MAX_VALUE);
    while !rest.is_char_boundary(most) {
        most -= 1;
    }
    let part = rest.get(..most).unwrap_or_default();
    match part.find('\n') {
        Some(end) => (part.get(..end).unwrap_or_default(), true),
        None => (part, most == rest.len()),
    }
}

/// Returns the offset of the name before an `=`, if white space precedes it.
fn name_before(line: &str, equals: usize) -> Option<usize> {
    let before = line.get(..equals)?.trim_end();
    let name = before.rsplit(char::is_whitespace).next()?;
    let is_new = is_key(name) && !line.get(equals..)?.starts_with("==");
    (is_new && name.len() < before.len()).then(|| before.len() - name.len())
}

/// Returns the length of a text in the quotes of another language at the begin of a line, if a value ends behind it.
fn foreign_string(line: &str) -> Option<usize> {
    let first = line.chars().next()?;
    let (_, close) = FOREIGN_QUOTES.iter().find(|(open, _)| *open == first)?;
    let inner = line.get(first.len_utf8()..)?;
    let end = first.len_utf8() + inner.find(*close)? + close.len_utf8();
    let rest = line.get(end..)?.trim_start();
    let is_plain = !inner.get(..inner.find(*close)?)?.contains('"');
    (is_plain && (rest.is_empty() || rest.starts_with([',', ';', ']']))).then_some(end)
}

/// Returns a value without the quotes of another language around it.
fn without_quotes(value: &str) -> &str {
    let inner = FOREIGN_QUOTES
        .iter()
        .find_map(|(open, close)| value.strip_prefix(*open)?.strip_suffix(*close));
    inner.unwrap_or(value)
}
