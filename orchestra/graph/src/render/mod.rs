//! Rendering of diagnostics: as text for people, as one line each, and as JSON objects.

mod clip;
mod json;
mod text;

pub use json::{DIAGNOSTIC_SCHEMA, DiagnosticObject, FixObject, LocationObject, json, objects};
pub use text::{Style, concise, concise_one, text, text_one};

use crate::text::{Position, Source};

/// Converts offsets to positions. Counts the characters of a long line only once if the offsets are ascending.
struct Positions<'s> {
    source: &'s Source,
    /// Line, offset and column of the cached result.
    last: (u32, usize, u32),
}

impl<'s> Positions<'s> {
    fn new(source: &'s Source) -> Positions<'s> {
        Positions {
            source,
            last: (0, 0, 0),
        }
    }

    fn position(&mut self, offset: u32) -> Position {
        let (line, range) = self.source.line_around(offset);
        let text = self.source.text();
        let mut end = (offset as usize).min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let (from, before) = match self.last {
            (last_line, at, column) if last_line == line && at <= end => (at, column),
            _ => (range.start, 1),
        };
        let column = before + text.get(from..end).map_or(0, |text| text.chars().count()) as u32;
        // A smaller offset must not replace the cached result, or larger ones would be counted from the start again.
        if self.last.0 != line || self.last.1 < end {
            self.last = (line, end, column);
        }
        Position { line, column }
    }
}

/// Marks a placeholder in rendered text. `visible` replaces this character, so no other text can contain it.
const SLOT: char = '\u{e000}';

/// Returns the replacement for a character that would move, hide or reorder text, or `None` if it is shown unchanged.
///
/// Control characters are replaced by their picture (`␛`). Others, such as those of the C1 block, those of
/// bidirectional text and those without a width, are replaced by U+FFFD. Each takes one column, so that aligned text
/// stays aligned.
///
/// ```
/// use orchestra_graph::render::visible;
/// assert_eq!(visible('\u{1b}'), Some('␛'));
/// assert_eq!(visible('\u{202e}'), Some('\u{fffd}'));
/// assert_eq!((visible('a'), visible('é'), visible('字')), (None, None, None));
/// ```
pub fn visible(character: char) -> Option<char> {
    match character {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + character as u32),
        '\u{7f}' => Some('\u{2421}'),
        '\u{80}'..='\u{9f}'
        | '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{200e}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | SLOT
        | '\u{fdd0}'..='\u{fdef}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => Some('\u{fffd}'),
        _ => None,
    }
}

/// Returns a message with control characters made visible. Line ends are preserved only if `lines` is `true`.
fn readable(text: &str, lines: bool) -> String {
    text.chars()
        .map(|character| match character {
            '\n' if lines => character,
            '\n' | '\t' => ' ',
            _ => visible(character).unwrap_or(character),
        })
        .collect()
}
