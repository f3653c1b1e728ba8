//! The texts of a table: one string, and an index for each text in it.

use std::borrow::Cow;

use super::digits::{next, push};
use super::values::List;

/// A text of a pipeline, as an index into its [`Texts`]. Index 0 is the empty text.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> work -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// assert_eq!(pipeline.text(pipeline.nodes[1].id), "work");
/// assert!(pipeline.edges[0].label.is_empty());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Text(pub u32);

impl Text {
    /// The empty text.
    pub const EMPTY: Text = Text(0);

    /// Returns `true` for the empty text.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The texts of a pipeline, joined into one string.
///
/// ```
/// use orchestra_graph::table::{Text, Texts};
/// let mut texts = Texts::new("startexit", &[0, 5, 9]);
/// assert_eq!((texts.get(Text(1)), texts.get(Text(2))), ("start", "exit"));
/// let work = texts.add("work");
/// assert_eq!((work, texts.get(work)), (Text(3), "work"));
/// assert_eq!((texts.get(Text::EMPTY), texts.get(Text(9))), ("", ""));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts {
    joined: Cow<'static, str>,
    /// The end of each text in the string; that of the empty text is 0.
    ends: List<u32>,
}

impl Texts {
    /// No texts but the empty one.
    pub const EMPTY: Texts = Texts::new("", &[0]);

    /// Returns the texts of a string that end at these offsets, the first of which is 0.
    pub const fn new(joined: &'static str, ends: &'static [u32]) -> Texts {
        Texts {
            joined: Cow::Borrowed(joined),
            ends: Cow::Borrowed(ends),
        }
    }

    /// Returns a text; empty if there is none with this index.
    pub fn get(&self, text: Text) -> &str {
        let end = |at: usize| self.ends.get(at).map_or(0, |end| *end as usize);
        let at = text.0 as usize;
        self.joined
            .get(end(at.saturating_sub(1))..end(at))
            .unwrap_or_default()
    }

    /// Adds a text and returns its index. A text that is added twice has two indices, except the empty text. All texts
    /// together must have less than 4 GiB.
    pub fn add(&mut self, text: &str) -> Text {
        if text.is_empty() {
            return Text::EMPTY;
        }
        let joined = self.joined.to_mut();
        joined.push_str(text);
        let ends = self.ends.to_mut();
        ends.push(joined.len() as u32);
        Text(ends.len() as u32 - 1)
    }

    /// Returns all texts, joined.
    pub fn joined(&self) -> &str {
        &self.joined
    }

    /// Returns the number of texts, the empty one included.
    #[doc(hidden)]
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Writes the length of each text, as the characters of a raw byte string.
    #[doc(hidden)]
    pub fn write_lengths(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut before = 0;
        for end in self.ends.iter() {
            push(end.saturating_sub(before), &mut bytes);
            before = *end;
        }
        bytes
    }

    /// Returns the end of each text, from the lengths that [`write_lengths`](Self::write_lengths) wrote.
    #[doc(hidden)]
    pub const fn read_ends<const N: usize>(bytes: &[u8]) -> [u32; N] {
        let mut ends = [0; N];
        let mut position = 0;
        let at = &mut position;
        let mut end = 0;
        let mut index = 0;
        while index < N {
            end += next!(bytes, at);
            ends[index] = end;
            index += 1;
        }
        ends
    }
}
