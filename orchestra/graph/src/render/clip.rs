//! Lines cut to what fits a message: windows around the places of interest, tabs and control characters replaced.

use std::ops::Range;

use super::visible;

/// Lines up to this many characters are shown whole.
const WHOLE: usize = 160;
/// Characters shown before and behind a place in a longer line.
const AROUND: usize = 60;
/// Characters shown of a long place.
const PLACE: usize = 100;
const CUT: &str = "...";

/// A line as it is shown, with the places of interest in its bytes.
pub(super) struct Clipped {
    pub(super) text: String,
    pub(super) places: Vec<Range<usize>>,
}

/// Cuts a line to windows around places, which are byte ranges of the line.
pub(super) fn clip(line: &str, places: &[Range<usize>]) -> Clipped {
    let windows = windows(line, places);
    let mut shown = String::new();
    let mut mapped: Vec<Range<usize>> = places.iter().map(|_| 0..0).collect();
    let mut end = 0;
    for window in &windows {
        if window.start > end {
            shown.push_str(CUT);
        }
        for (at, character) in line[window.clone()].char_indices() {
            mark(places, &mut mapped, window.start + at, shown.len());
            match character {
                '\t' => shown.push_str("    "),
                _ => shown.push(visible(character).unwrap_or(character)),
            }
        }
        mark(places, &mut mapped, window.end, shown.len());
        end = window.end;
    }
    if end < line.len() {
        shown.push_str(CUT);
    }
    for (place, range) in places.iter().zip(&mut mapped) {
        // The end of a long place lies outside of its window, or in the window of another.
        let window = windows
            .iter()
            .find(|window| window.contains(&place.start) || window.end == place.start);
        if window.is_some_and(|window| place.end > window.end) {
            range.end = range.end.max(range.start + 1);
        }
        range.end = range.end.clamp(range.start, shown.len());
    }
    Clipped {
        text: shown,
        places: mapped,
    }
}

/// Notes where the bounds of places that lie at an offset of the line are shown.
fn mark(places: &[Range<usize>], mapped: &mut [Range<usize>], offset: usize, shown: usize) {
    for (place, range) in places.iter().zip(mapped) {
        if place.start == offset {
            *range = shown..shown;
        }
        // Until the end is met, the place reaches as far as the text that is shown.
        if place.start < offset && offset <= place.end {
            range.end = shown;
        }
    }
}

/// The parts of a line that are shown: whole where it is short, else around each place; apart and in order.
fn windows(line: &str, places: &[Range<usize>]) -> Vec<Range<usize>> {
    if line.len() <= WHOLE || line.char_indices().nth(WHOLE).is_none() {
        return std::iter::once(0..line.len()).collect();
    }
    let mut windows: Vec<Range<usize>> = places
        .iter()
        .map(|place| {
            let start = back(line, place.start, AROUND);
            let end = ahead(line, place.end.min(ahead(line, place.start, PLACE)), AROUND);
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
        assert_eq!(&clipped.text[clipped.places[0].clone()], "b");
        assert_eq!(clipped.places[1], clipped.text.len()..clipped.text.len());
    }

    #[test]
    fn a_long_line_is_cut_around_each_place() {
        let mut line = "x".repeat(10_000);
        line.replace_range(5_000..5_003, "foo");
        line.replace_range(9_000..9_003, "bar");
        let clipped = clip(&line, &[9_000..9_003, 5_000..5_003]);
        assert_eq!(&clipped.text[clipped.places[0].clone()], "bar");
        assert_eq!(&clipped.text[clipped.places[1].clone()], "foo");
        assert!(clipped.text.len() < 300, "{}", clipped.text.len());
        assert!(clipped.text.starts_with("...x") && clipped.text.ends_with("x..."));
    }

    #[test]
    fn a_long_place_ends_with_its_window() {
        let line = "é".repeat(10_000);
        let clipped = clip(&line, &[0..line.len(), 0..0]);
        assert!(clipped.text.chars().count() < 200);
        assert!(clipped.places[0].len() > 150);
    }
}
