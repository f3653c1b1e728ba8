//! Conflict markers in files: finding them, reading them as data, and taking one side.

use serde::Serialize;

/// Maximum length of the text of one side of a hunk, in bytes.
const MAX_TEXT_BYTES: usize = 4 * 1024;

/// Maximum number of hunks of one file.
const MAX_HUNKS: usize = 64;

/// A part of a file that two sides changed.
///
/// ```
/// use orchestra_workspace::Hunk;
/// let hunk = Hunk { line: 3, ours: "a\n".into(), base: "\n".into(), theirs: "b\n".into(), cut: false };
/// assert_eq!(serde_json::to_value(&hunk).unwrap()["line"], 3);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hunk {
    /// The line of the first marker in the file with markers, starting at 1.
    pub line: u32,
    /// The text of the sides merged before. It may contain markers of an earlier conflict.
    pub ours: String,
    /// The text of the merge base.
    pub base: String,
    /// The text of the side that conflicts.
    pub theirs: String,
    /// `true` if one of the texts was longer than 4 KiB and was truncated.
    pub cut: bool,
}

/// Returns the length of the markers if `open` sides were merged with markers before.
pub(crate) fn marker_size(open: usize) -> usize {
    7 + 2 * open
}

/// Returns the lines of a file including their line endings.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n')
}

/// Returns whether a line begins with exactly `size` of a character, followed by a space or the end of the line.
fn is_marker(line: &[u8], sign: u8, size: usize) -> bool {
    let count = line.iter().take_while(|byte| **byte == sign).count();
    count == size
        && line
            .get(count)
            .is_none_or(|next| matches!(next, b' ' | b'\n' | b'\r'))
}

/// Returns whether a file contains markers of any of the first `sides` sizes.
pub(crate) fn is_marked(bytes: &[u8], sides: usize) -> bool {
    let sizes: Vec<usize> = (0..sides).map(marker_size).collect();
    lines(bytes).any(|line| {
        // A line of equal signs may also be the underline of a heading.
        let signs = [b'<', b'>', b'|'];
        sizes
            .iter()
            .any(|size| signs.iter().any(|sign| is_marker(line, *sign, *size)))
    })
}

/// A part of a file with markers of one size.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'b> {
    /// Text outside of conflicts.
    Plain(&'b [u8]),
    /// A conflict, with the line number of its first marker.
    Conflict {
        line: u32,
        ours: &'b [u8],
        base: &'b [u8],
        theirs: &'b [u8],
        whole: &'b [u8],
    },
}

/// Splits a file at the markers of one size. Returns `None` if the markers do not match up.
pub(crate) fn parts(bytes: &[u8], size: usize) -> Option<Vec<Part<'_>>> {
    let (mut parts, mut at, mut plain, mut number) = (Vec::new(), 0, 0, 0u32);
    // The line number of the open conflict, and the byte range of each of its markers.
    let mut open: Option<(u32, Vec<(usize, usize)>)> = None;
    for line in lines(bytes) {
        let (begin, end) = (at, at + line.len());
        at = end;
        number = number.saturating_add(1);
        match &mut open {
            None if is_marker(line, b'<', size) => {
                parts.push(Part::Plain(bytes.get(plain..begin)?));
                open = Some((number, vec![(begin, end)]));
            }
            None => {}
            Some((_, sections)) if sections.len() == 1 && is_marker(line, b'|', size) => {
                sections.push((begin, end))
            }
            Some((_, sections)) if sections.len() == 2 && is_marker(line, b'=', size) => {
                sections.push((begin, end))
            }
            Some((first, sections)) if sections.len() == 3 && is_marker(line, b'>', size) => {
                let (one, two, three) = (sections.first()?, sections.get(1)?, sections.get(2)?);
                parts.push(Part::Conflict {
                    line: *first,
                    ours: bytes.get(one.1..two.0)?,
                    base: bytes.get(two.1..three.0)?,
                    theirs: bytes.get(three.1..begin)?,
                    whole: bytes.get(one.0..end)?,
                });
                plain = end;
                open = None;
            }
            Some(_) => {}
        }
    }
    if open.is_some() {
        return None;
    }
    parts.push(Part::Plain(bytes.get(plain..)?));
    Some(parts)
}

/// Returns the conflicts with markers of one size.
pub(crate) fn hunks(bytes: &[u8], size: usize) -> Vec<Hunk> {
    let conflicts = parts(bytes, size)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|part| match part {
            Part::Conflict {
                line,
                ours,
                base,
                theirs,
                ..
            } => {
                let cut = [ours, base, theirs]
                    .iter()
                    .any(|text| text.len() > MAX_TEXT_BYTES);
                Some(Hunk {
                    line,
                    ours: bounded(ours),
                    base: bounded(base),
                    theirs: bounded(theirs),
                    cut,
                })
            }
            Part::Plain(_) => None,
        });
    conflicts.take(MAX_HUNKS).collect()
}

fn bounded(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..MAX_TEXT_BYTES).unwrap_or(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Part, hunks, is_marked, parts};

    const NESTED: &str = "one\n<<<<<<<<< left\n<<<<<<< a\nA\n||||||| base\nX\n=======\nB\n>>>>>>> b\n||||||||| base\nX\n=========\nC\n>>>>>>>>> c\nend\n";

    #[test]
    fn nested_markers_are_distinguished() {
        let outer = hunks(NESTED.as_bytes(), 9);
        assert_eq!(
            (outer.len(), outer[0].line, outer[0].theirs.as_str()),
            (1, 2, "C\n")
        );
        let inner = hunks(outer[0].ours.as_bytes(), 7);
        assert_eq!(
            (
                inner[0].ours.as_str(),
                inner[0].base.as_str(),
                inner[0].theirs.as_str()
            ),
            ("A\n", "X\n", "B\n")
        );
        assert_eq!(hunks(NESTED.as_bytes(), 7)[0].line, 3);
        assert!(
            is_marked(NESTED.as_bytes(), 1)
                && is_marked(b">>>>>>>>> c\n", 2)
                && !is_marked(b">>>>>>>>> c\n", 1)
        );
    }

    #[test]
    fn an_underline_is_no_marker() {
        assert!(!is_marked(b"Title\n=======\n<<<<<<<< eight\n", 3));
        assert_eq!(
            parts(b"Title\n=======\n", 7).unwrap(),
            [Part::Plain(b"Title\n=======\n")]
        );
        assert_eq!(parts(b"<<<<<<< a\nnever closed\n", 7), None);
    }
}
