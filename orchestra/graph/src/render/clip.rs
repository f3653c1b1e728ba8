//! Cuts lines to a length that fits a message: windows around the marked ranges, with control characters replaced.

use std::ops::Range;

use super::visible;

/// Maximum length in characters of a line that is shown whole.
const WHOLE: usize = 160;
/// The number of characters shown before and after a marked range in a longer line.
const AROUND: usize = 60;
/// The number of characters shown of a long marked range.
const PLACE: usize = 100;
const CUT: &str = "...";

/// A line as it is shown, with the marked ranges as bytes of the shown text.
pub(super) struct Clipped {
    pub(super) text: String,
    pub(super) positions: Vec<Range<usize>>,
}

/// Cuts a line to windows around the marked ranges, which are byte ranges of the line.
pub(super) fn clip(line: &str, positions: &[Range<usize>]) -> Clipped {
    let windows = windows(line, positions);
    let mut shown = String::new();
    let mut mapped: Vec<Range<usize>> = positions.iter().map(|_| 0..0).collect();
    let mut end = 0;
    for window in &windows {
        if window.start > end {
            shown.push_str(CUT);
        }
        for (at, character) in line[window.clone()].char_indices() {
            mark(positions, &mut mapped, window.start + at, shown.len());
            match character {
                '\t' => shown.push_str("    "),
                _ => shown.push(visible(character).unwrap_or(character)),
            }
        }
        mark(positions, &mut mapped, window.end, shown.len());
        end = window.end;
    }
    if end < line.len() {
        shown.push_str(CUT);
    }
    for (index, range) in positions.iter().zip(&mut mapped) {
        // The end of a long range is outside its window, or in another window.
        let window = windows
            .iter()
            .find(|window| window.contains(&index.start) || window.end == index.start);
        if window.is_some_and(|window| index.end > window.end) {
            range.end = range.end.max(range.start + 1);
        }
        range.end = range.end.clamp(range.start, shown.len());
    }
    Clipped {
        text: shown,
        positions: mapped,
    }
}

/// Records the shown offset of the bounds of ranges that are at an offset of the line.
fn mark(positions: &[Range<usize>], mapped: &mut [Range<usize>], offset: usize, shown: usize) {
    for (index, range) in positions.iter().zip(mapped) {
        if index.start == offset {
            *range = shown..shown;
        }
        // Until its end is reached, the range extends to the end of the shown text.
        if index.start < offset && offset <= index.end {
            range.end = shown;
        }
    }
}

/// Returns the parts of a line that are shown, separate and in order: the whole line if it is short, else a window
/// around each range.
fn windows(line: &str, positions: &[Range<usize>]) -> Vec<Range<usize>> {
    if line.len() <= WHOLE || line.char_indices().nth(WHOLE).is_none() {
        return std::iter::once(0..line.len()).collect();
    }
    let mut windows: Vec<Range<usize>> = positions
        .iter()
        .map(|index| {
            let start = back(line, index.start, AROUND);
            let end = ahead(line, index.end.min(ahead(line, index.start, PLACE)), AROUND);
            start..end
        })
        .collect();
    if windows.is_empty() {
        windows.push(0..ahead(line, 0, WHOLE));
    }
    windows.sort_by_key(|window| window.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for window in windows {
        match merged.last_mut() {
            Some(last) if window.start <= last.end => last.end = last.end.max(window.end),
            _ => merged.push(window),
        }
    }
    merged
}

fn back(line: &str, from: usize, characters: usize) -> usize {
    let head = line.get(..from).unwrap_or_default();
    match characters.checked_sub(1) {
        Some(nth) => head.char_indices().rev().nth(nth).map_or(0, |(at, _)| at),
        None => head.len(),
    }
}

fn ahead(line: &str, from: usize, characters: usize) -> usize {
    let tail = line.get(from..).unwrap_or_default();
    tail.char_indices()
        .nth(characters)
        .map_or(line.len(), |(at, _)| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_line_is_shown_whole() {
        let clipped = clip("a\tb\0c", &[2..3, 5..5]);
        assert_eq!(clipped.text, "a    b\u{2400}c");
        assert_eq!(&clipped.text[clipped.positions[0].clone()], "b");
        assert_eq!(clipped.positions[1], clipped.text.len()..clipped.text.len());
    }

    #[test]
    fn a_long_line_is_cut_around_each_place() {
        let mut line = "x".repeat(10_000);
        line.replace_range(5_000..5_003, "foo");
        line.replace_range(9_000..9_003, "bar");
        let clipped = clip(&line, &[9_000..9_003, 5_000..5_003]);
        assert_eq!(&clipped.text[clipped.positions[0].clone()], "bar");
        assert_eq!(&clipped.text[clipped.positions[1].clone()], "foo");
        assert!(clipped.text.len() < 300, "{}", clipped.text.len());
        assert!(clipped.text.starts_with("...x") && clipped.text.ends_with("x..."));
    }

    #[test]
    fn a_long_place_ends_with_its_window() {
        let line = "é".repeat(10_000);
        let clipped = clip(&line, &[0..line.len(), 0..0]);
        assert!(clipped.text.chars().count() < 200);
        assert!(clipped.positions[0].len() > 150);
    }
}
