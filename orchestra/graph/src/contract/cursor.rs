//! The part of a declaration that is being typed.

/// The part of a declaration such as `score: int` at the end of an incomplete text.
///
/// ```
/// use orchestra_graph::DeclarationCursor;
/// let at_end = DeclarationCursor::at_end;
/// assert_eq!(at_end("pr: text, sco"), DeclarationCursor::Key { word: "sco" });
/// assert_eq!(at_end("score: list<in"), DeclarationCursor::Type { key: "score", word: "in" });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeclarationCursor<'t> {
    /// A key.
    Key {
        /// The text of the key so far.
        word: &'t str,
    },
    /// A type.
    Type {
        /// The key.
        key: &'t str,
        /// The text of the type so far: of the item within a list.
        word: &'t str,
    },
}

impl<'t> DeclarationCursor<'t> {
    /// Finds the part at the end of a text, which is the part of the attribute before the cursor.
    pub fn at_end(text: &'t str) -> DeclarationCursor<'t> {
        let written = text.rsplit(',').next().unwrap_or_default().trim_start();
        match written.split_once(':') {
            None => DeclarationCursor::Key { word: written },
            Some((key, written)) => {
                let word = written.rsplit(['<', '|']).next().unwrap_or_default();
                DeclarationCursor::Type {
                    key: key.trim_end(),
                    word: word.trim_start(),
                }
            }
        }
    }
}
