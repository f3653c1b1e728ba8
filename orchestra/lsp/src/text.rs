//! Texts with the conversion between byte offsets and positions of the protocol.

use orchestra_graph::Span;

use crate::protocol::{Position, PositionEncodingKind, Range};

/// The unit in which a client counts the characters of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    #[default]
    Utf16,
}

impl Encoding {
    /// Returns the encoding to use with a client that offers these; UTF-16 is the default of the protocol.
    pub(crate) fn negotiate(offered: &[PositionEncodingKind]) -> Encoding {
        if offered.contains(&PositionEncodingKind::UTF8) {
            Encoding::Utf8
        } else {
            Encoding::Utf16
        }
    }

    pub(crate) fn kind(self) -> PositionEncodingKind {
        match self {
            Encoding::Utf8 => PositionEncodingKind::UTF8,
            Encoding::Utf16 => PositionEncodingKind::UTF16,
        }
    }

    /// Returns the number of units of a character.
    fn units(self, character: char) -> u32 {
        match self {
            Encoding::Utf8 => character.len_utf8() as u32,
            Encoding::Utf16 => character.len_utf16() as u32,
        }
    }

    /// Returns the number of units of a text.
    pub(crate) fn length(self, text: &str) -> u32 {
        match self {
            Encoding::Utf8 => text.len() as u32,
            _ => text.chars().map(|character| self.units(character)).sum(),
        }
    }
}

/// A text with the offsets of its lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    text: String,
    /// The offset of the first byte of each line. Lines end with `\n`, `\r\n` or `\r`.
    lines: Vec<u32>,
}

impl Text {
    pub(crate) fn new(text: impl Into<String>) -> Text {
        let text = text.into();
        let mut lines = vec![0];
        let bytes = text.as_bytes();
        for (at, byte) in bytes.iter().enumerate() {
            let ends = match byte {
                b'\n' => true,
                b'\r' => bytes.get(at + 1) != Some(&b'\n'),
                _ => false,
            };
            if ends {
                lines.push(at as u32 + 1);
            }
        }
        Text { text, lines }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the text of a line without its end, and the offset of its first byte.
    fn line(&self, line: usize) -> (&str, usize) {
        let Some(start) = self.lines.get(line).map(|start| *start as usize) else {
            return ("", self.text.len());
        };
        let end = self
            .lines
            .get(line + 1)
            .map_or(self.text.len(), |end| *end as usize);
        let text = self.text.get(start..end).unwrap_or_default();
        (text.trim_end_matches(['\n', '\r']), start)
    }

    /// Returns the position of a byte offset. An offset inside of a character counts as its beginning, one beyond the
    /// end as the end.
    pub(crate) fn position(&self, offset: u32, encoding: Encoding) -> Position {
        let line = self
            .lines
            .partition_point(|start| *start <= offset)
            .saturating_sub(1);
        let start = self.lines.get(line).copied().unwrap_or_default() as usize;
        let mut end = (offset as usize).min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let before = self.text.get(start..end).unwrap_or_default();
        Position::new(line as u32, encoding.length(before))
    }

    /// Returns the byte offset of a position. A position beyond the end of its line counts as the end of the line, one
    /// inside of a character as its beginning.
    pub(crate) fn offset(&self, position: Position, encoding: Encoding) -> u32 {
        let (text, start) = self.line(position.line as usize);
        let mut left = position.character;
        for (at, character) in text.char_indices() {
            let units = encoding.units(character);
            if left < units {
                return (start + at) as u32;
            }
            left -= units;
        }
        (start + text.len()) as u32
    }

    /// Returns the range of a span.
    pub(crate) fn range(&self, span: Span, encoding: Encoding) -> Range {
        Range::new(
            self.position(span.start, encoding),
            self.position(span.end, encoding),
        )
    }

    /// Returns the span of a range. A range that ends before it begins is empty.
    pub(crate) fn span(&self, range: Range, encoding: Encoding) -> Span {
        let start = self.offset(range.start, encoding);
        Span::new(start, self.offset(range.end, encoding).max(start))
    }

    /// Returns the text with a range replaced.
    pub(crate) fn replaced(&self, range: Range, replacement: &str, encoding: Encoding) -> Text {
        let span = self.span(range, encoding);
        let mut text = self.text.clone();
        text.replace_range(span.start as usize..span.end as usize, replacement);
        Text::new(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_end_as_in_the_protocol() {
        let text = Text::new("a\nb\r\nc\rd");
        let starts: Vec<u32> = (0..4)
            .map(|line| text.offset(Position::new(line, 0), Encoding::Utf16))
            .collect();
        assert_eq!(starts, [0, 2, 5, 7]);
        assert_eq!(
            text.offset(Position::new(1, 99), Encoding::Utf16),
            3,
            "the end of the line"
        );
        assert_eq!(
            text.offset(Position::new(9, 9), Encoding::Utf16),
            8,
            "the end of the text"
        );
    }

    #[test]
    fn characters_are_counted_in_units_of_the_encoding() {
        let text = Text::new("ä😀b");
        for (encoding, b) in [(Encoding::Utf8, 6), (Encoding::Utf16, 3)] {
            assert_eq!(text.position(6, encoding), Position::new(0, b));
            assert_eq!(text.offset(Position::new(0, b), encoding), 6);
        }
        assert_eq!(
            text.offset(Position::new(0, 2), Encoding::Utf16),
            2,
            "half of a character"
        );
        assert_eq!(text.position(4, Encoding::Utf16), Position::new(0, 1));
    }

    proptest! {
        #[test]
        fn offset_and_position_are_inverse(text in "[a-c\r\nä😀]{0,20}") {
            let text = Text::new(text);
            for encoding in [Encoding::Utf8, Encoding::Utf16] {
                for (at, _) in text.as_str().char_indices() {
                    let back = text.offset(text.position(at as u32, encoding), encoding);
                    // The `\n` of `\r\n` is no position of the protocol.
                    let inside = text.as_str().get(..at).is_some_and(|before| before.ends_with('\r'))
                        && text.as_str().get(at..).is_some_and(|after| after.starts_with('\n'));
                    prop_assert_eq!(back, if inside { at as u32 - 1 } else { at as u32 });
                }
            }
        }
    }
}
