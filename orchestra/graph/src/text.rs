//! Source text, byte spans, and positions as line and column.

use std::ops::Range;
use std::sync::Arc;
use std::sync::OnceLock;

/// A half-open range of bytes in a [`Source`]; offsets count from 0.
///
/// ```
/// use orchestra_graph::{Source, Span};
/// let source = Source::new("a.dot", "digraph a { start -> exit }");
/// assert_eq!(source.slice(Span::new(12, 17)), "start");
/// assert_eq!(source.slice(Span::new(12, 17).to(Span::new(21, 25))), "start -> exit");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The offset of the first byte.
    pub start: u32,
    /// The offset just after the last byte.
    pub end: u32,
}

/// Returns whether a text is empty or consists of white space alone.
pub(crate) fn is_blank(text: &str) -> bool {
    match text.as_bytes().first() {
        Some(b'!'..=b'~') => false,
        _ => text.trim().is_empty(),
    }
}

/// Returns a range of a text without white space at its ends.
pub(crate) fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = text.get(range.clone()).unwrap_or_default();
    let start = range.start + (part.len() - part.trim_start().len());
    start..start + part.trim().len()
}

/// Returns the ranges of the words of a list that is separated by commas, without white space at their ends.
pub(crate) fn comma_separated(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    let parts = text.split(',').map(move |part| {
        let range = trimmed(text, start..start + part.len());
        start += part.len() + 1;
        range
    });
    parts.filter(|range| !range.is_empty())
}

/// Returns the range of a slice of a text in it; `None` if it is not a slice of it.
pub(crate) fn range_of(text: &str, slice: &str) -> Option<Range<usize>> {
    let start = slice.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    (start + slice.len() <= text.len()).then(|| start..start + slice.len())
}

impl Span {
    /// Creates a span from two byte offsets.
    ///
    /// ```
    /// use orchestra_graph::Span;
    /// assert_eq!(Span::new(3, 5).len(), 2);
    /// ```
    pub const fn new(start: u32, end: u32) -> Span {
        Span { start, end }
    }

    /// Creates a span from `usize` offsets. They saturate at `u32::MAX`; larger files are refused long before.
    pub(crate) fn from_offsets(start: usize, end: usize) -> Span {
        Span {
            start: u32::try_from(start).unwrap_or(u32::MAX),
            end: u32::try_from(end).unwrap_or(u32::MAX),
        }
    }

    /// Returns the number of bytes.
    pub const fn len(self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// Returns whether the span covers no byte.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Returns the smallest span that covers both.
    pub fn to(self, other: Span) -> Span {
        Span {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

/// A position in a text as line and column.
///
/// ```
/// use orchestra_graph::{Position, Source, load};
/// let text = "digraph {\n    start -> nowhere\n    start -> exit\n}";
/// let report = load(Source::new("a.dot", text), &Default::default()).report;
/// let diagnostic = report.errors().next().expect("`nowhere` leads nowhere");
/// assert_eq!(report.source.position(diagnostic.span.start), Position { line: 2, column: 14 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

/// A named pipeline text. Cloning is cheap.
///
/// ```
/// use orchestra_graph::Source;
/// let source = Source::new("a.dot", "digraph a {\n}");
/// assert_eq!(source.position(12).line, 2);
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    text: String,
    lines: OnceLock<Vec<u32>>,
}

impl Source {
    /// Creates a source from the name shown in messages (a path with forward slashes) and its text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        Source {
            inner: Arc::new(Inner {
                name: name.into(),
                text: text.into(),
                lines: OnceLock::new(),
            }),
        }
    }

    /// Returns the name shown in messages.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the whole text.
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// Returns the text of a span. The result is empty if the span lies outside the text or splits a character.
    pub fn slice(&self, span: Span) -> &str {
        self.text()
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default()
    }

    /// Returns the position of a byte offset. An offset beyond the end counts as the end.
    pub fn position(&self, offset: u32) -> Position {
        let lines = self.lines();
        let line = lines.partition_point(|start| *start <= offset).saturating_sub(1);
        let start = lines.get(line).copied().unwrap_or_default() as usize;
        let mut end = (offset as usize).min(self.text().len());
        while !self.text().is_char_boundary(end) {
            end -= 1;
        }
        let column = self.text().get(start..end).map_or(0, |text| text.chars().count());
        Position {
            line: line as u32 + 1,
            column: column as u32 + 1,
        }
    }

    /// Returns the text of a line (from 1) without its line end. The result is empty if there is no such line.
    pub fn line(&self, line: u32) -> &str {
        let lines = self.lines();
        let index = (line as usize).saturating_sub(1);
        let start = lines.get(index).copied().unwrap_or(u32::MAX) as usize;
        let end = lines
            .get(index + 1)
            .map_or(self.text().len(), |end| *end as usize);
        self.text()
            .get(start..end)
            .unwrap_or_default()
            .trim_end_matches(['\n', '\r'])
    }

    /// Returns the line (from 1) of a byte offset, and the byte range of that line without its line end.
    pub(crate) fn line_around(&self, offset: u32) -> (u32, std::ops::Range<usize>) {
        let line = self
            .lines()
            .partition_point(|start| *start <= offset)
            .saturating_sub(1);
        let start = self.lines().get(line).copied().unwrap_or_default() as usize;
        let number = line as u32 + 1;
        (number, start..start + self.line(number).len())
    }

    fn lines(&self) -> &[u32] {
        self.inner.lines.get_or_init(|| {
            let breaks = self.text().match_indices('\n');
            std::iter::once(0)
                .chain(breaks.map(|(at, _)| at as u32 + 1))
                .collect()
        })
    }
}
