//! The lexer: text to tokens. A token is a kind and a span; nothing is copied.

use std::borrow::Cow;

use crate::ast::Comment;
use crate::diagnostic::Diagnostic;
use crate::syntax::rules;
use crate::syntax::strings::{is_suspect, unterminated};
use crate::syntax::words::is_word_start;
use crate::text::Span;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    LeftBrace,
    RightBrace,
    LeftBracket,
    RightBracket,
    Semicolon,
    Comma,
    Equals,
    Arrow,
    DoubleDash,
    Plus,
    Colon,
    Word,
    String,
    Html,
    Unknown,
    End,
}

/// A token with its span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
    /// `true` for the first token of a line, where recovery may start a statement.
    pub(crate) first: bool,
}

/// The lexer. It never fails; errors are added to a list.
pub(crate) struct Lexer<'s> {
    bytes: &'s [u8],
    text: &'s str,
    at: usize,
    fresh_line: bool,
    /// The first string whose closing quote was probably forgotten.
    pub(crate) suspect: Option<Span>,
    /// The number of HTML labels that are not closed.
    unclosed_html: usize,
    pub(crate) comments: Vec<Comment>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

const MAX_UNCLOSED_HTML: usize = 16;

impl<'s> Lexer<'s> {
    pub(crate) fn new(text: &'s str) -> Lexer<'s> {
        let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
        Lexer {
            bytes: text.as_bytes(),
            text,
            at: start,
            fresh_line: true,
            suspect: None,
            unclosed_html: 0,
            comments: Vec::new(),
            diagnostics: Vec::new(),
        }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Returns the next token.
    pub(crate) fn next(&mut self) -> Token {
        self.skip_blank();
        let first = std::mem::take(&mut self.fresh_line);
        let start = self.at;
        let Some(byte) = self.bytes.get(start).copied() else {
            return Token {
                kind: Kind::End,
                span: Span::from_offsets(start, start),
                first: true,
            };
        };
        self.at += 1;
        let kind = match byte {
            b'{' => Kind::LeftBrace,
            b'}' => Kind::RightBrace,
            b'[' => Kind::LeftBracket,
            b']' => Kind::RightBracket,
            b';' => Kind::Semicolon,
            b',' => Kind::Comma,
            b'=' => Kind::Equals,
            b'+' if !self.byte(0).is_ascii_digit() => Kind::Plus,
            b':' => Kind::Colon,
            b'"' => self.string(start),
            b'<' => self.html(),
            b'-' if self.byte(0) == b'>' => {
                self.at += 1;
                Kind::Arrow
            }
            b'-' if self.byte(0) == b'-' => {
                // Of `-->`, the whole is one mistake.
                self.at += 1 + usize::from(self.byte(1) == b'>');
                Kind::DoubleDash
            }
            b'-' | b'+' | b'.' if self.byte(0).is_ascii_digit() || self.byte(0) == b'.' => self.word(),
            _ if is_word_start(byte) => self.word(),
            _ => {
                while !self.text.is_char_boundary(self.at) {
                    self.at += 1;
                }
                Kind::Unknown
            }
        };
        Token {
            kind,
            span: Span::from_offsets(start, self.at),
            first,
        }
    }

    fn skip_blank(&mut self) {
        loop {
            match self.byte(0) {
                b'\n' => {
                    self.fresh_line = true;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' | 0x0c => self.at += 1,
                b'/' if self.byte(1) == b'/' => self.line_comment(),
                b'/' if self.byte(1) == b'*' => self.block_comment(),
                b'#' if self.fresh_line => self.line_comment(),
                _ => return,
            }
        }
    }

    fn line_comment(&mut self) {
        let start = self.at;
        let rest = &self.bytes[start..];
        let mut end = start + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.at = end;
        while end > start && self.bytes[end - 1] == b'\r' {
            end -= 1;
        }
        self.comments.push(Comment {
            span: Span::from_offsets(start, end),
        });
    }

    fn block_comment(&mut self) {
        let start = self.at;
        let close = self.bytes[start + 2..].windows(2).position(|pair| pair == b"*/");
        match close {
            Some(close) => self.at = start + 2 + close + 2,
            None => {
                self.at = self.bytes.len();
                let opening = Span::from_offsets(start, start + 2);
                self.diagnostics.push(
                    Diagnostic::from_rule(
                        &rules::UNTERMINATED_COMMENT,
                        "this comment is never closed",
                        opening,
                    )
                    .label("opened here")
                    .help("close it with `*/`"),
                );
            }
        }
        self.comments.push(Comment {
            span: Span::from_offsets(start, self.at),
        });
    }

    fn string(&mut self, start: usize) -> Kind {
        let mut first_line = None;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            self.at += rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\') || (*byte == b'\n' && first_line.is_none()))
                .unwrap_or(rest.len());
            match self.bytes.get(self.at) {
                None => {
                    self.unterminated(start);
                    return Kind::String;
                }
                Some(b'\\') => self.at = (self.at + 2).min(self.bytes.len()),
                Some(b'\n') => {
                    first_line = Some(self.at);
                    self.at += 1;
                }
                Some(b'"') => {
                    self.at += 1;
                    if self.suspect.is_none() && is_suspect(self.text, start, self.at, first_line) {
                        self.suspect = Some(Span::from_offsets(start, self.at));
                    }
                    return Kind::String;
                }
                Some(_) => {}
            }
        }
    }

    fn unterminated(&mut self, start: usize) {
        self.at = self.bytes.len();
        let last = Span::from_offsets(start, self.at);
        let diagnostic = match self.suspect {
            Some(suspect) => unterminated(self.text, suspect, true).related(
                Span::from_offsets(start, start + 1),
                "so the last quote of the file closes nothing",
            ),
            None => unterminated(self.text, last, false),
        };
        self.diagnostics.push(diagnostic);
    }

    /// Skips an HTML label to its balanced end, so that parsing can continue after it.
    fn html(&mut self) -> Kind {
        // The search for the end of an unclosed label runs to the end of the text, so the number of searches is
        // limited.
        if self.unclosed_html >= MAX_UNCLOSED_HTML {
            return Kind::Html;
        }
        let mut depth = 1usize;
        let opening = self.at;
        while depth > 0 {
            match self.bytes.get(self.at) {
                None => {
                    self.unclosed_html += 1;
                    self.at = opening;
                    return Kind::Html;
                }
                Some(b'<') => depth += 1,
                Some(b'>') => depth -= 1,
                Some(_) => {}
            }
            self.at += 1;
        }
        Kind::Html
    }

    fn word(&mut self) -> Kind {
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            self.at += rest
                .iter()
                .position(|byte| !is_word_start(*byte))
                .unwrap_or(rest.len());
            let inside = match self.byte(0) {
                b'-' => !matches!(self.byte(1), b'>' | b'-'),
                b':' => is_word_start(self.byte(1)) || self.byte(1).is_ascii_digit(),
                byte => byte == b'.',
            };
            if !inside {
                return Kind::Word;
            }
            self.at += 1;
        }
    }
}

/// Returns the text from the next token behind an offset, without the white space and comments before it.
pub(crate) fn from_next_token(text: &str, at: u32) -> &str {
    let mut lexer = Lexer::new(text);
    (lexer.at, lexer.fresh_line) = (at as usize, false);
    lexer.skip_blank();
    text.get(lexer.at..).unwrap_or_default()
}

/// Decodes a string literal with its quotes. Returns the text and the spans of unknown escapes (rule L5).
pub(crate) fn decode(literal: &str, start: u32) -> (Cow<'_, str>, Vec<Span>) {
    let inner = literal.strip_prefix('"').unwrap_or(literal);
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let mut unknown = Vec::new();
    if !inner.contains('\\') {
        return (Cow::Borrowed(inner), unknown);
    }
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let escape = rest[at + 1..].chars().next();
        match escape {
            Some('"') => text.push('"'),
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('\\') => text.push('\\'),
            other => {
                let from = start + 1 + (inner.len() - rest.len() + at) as u32;
                unknown.push(Span::new(from, from + 1 + other.map_or(0, char::len_utf8) as u32));
                text.push('\\');
                text.extend(other);
            }
        }
        rest = &rest[at + 1 + escape.map_or(0, char::len_utf8)..];
    }
    text.push_str(rest);
    (Cow::Owned(text), unknown)
}

/// Returns the span in the file of a range of a string's decoded text, given the span of the literal.
pub(crate) fn inside(source: &str, literal: Span, range: std::ops::Range<usize>) -> Span {
    let Some(text) = source.get(literal.start as usize..literal.end as usize) else {
        return literal;
    };
    if !text.starts_with('"') {
        let at = |offset: usize| literal.start + (offset as u32).min(literal.len());
        return Span::new(at(range.start), at(range.end));
    }
    let mut decoded = 0;
    // A literal that is not closed ends with its last character.
    let is_closed = text.len() > 1 && text.ends_with('"');
    let mut bounds = [literal.end.saturating_sub(u32::from(is_closed)); 2];
    let mut found = [false; 2];
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        for (index, wanted) in [range.start, range.end].into_iter().enumerate() {
            if decoded >= wanted && !found[index] {
                bounds[index] = literal.start + at as u32;
                found[index] = true;
            }
        }
        decoded += character.len_utf8();
        if character == '\\' {
            match characters.next() {
                Some((_, '"' | 'n' | 't' | '\\')) => {}
                Some((_, other)) => decoded += other.len_utf8(),
                None => break,
            }
        }
    }
    Span::new(bounds[0], bounds[1].max(bounds[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_decoded_text_is_found_behind_escapes() {
        let source = r#"x="a\"b\nc d""#;
        let literal = Span::new(2, source.len() as u32);
        let (text, unknown) = decode(&source[2..], 2);
        assert_eq!(text, "a\"b\nc d");
        assert!(unknown.is_empty());
        let at = text.find('d').unwrap();
        let span = inside(source, literal, at..at + 1);
        assert_eq!(&source[span.start as usize..span.end as usize], "d");
    }

    #[test]
    fn unknown_escapes_stand_as_written() {
        let (text, unknown) = decode(r#""a\lb\"""#, 0);
        assert_eq!(text, "a\\lb\"");
        assert_eq!(unknown.first(), Some(&Span::new(2, 4)));
    }
}
