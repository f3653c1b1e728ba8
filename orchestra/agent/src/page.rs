//! Fits texts into a number of tokens.

use std::cell::Cell;

use orchestra_engine::StoredText;

use crate::tokens::count_tokens;

/// How the length of a text is measured.
///
/// A text has at most as many tokens as bytes. A page on which everything has room by its bytes therefore has the same
/// content as one that is measured by tokens, and loading the vocabulary is saved.
pub(crate) struct Measure {
    by_tokens: bool,
    has_left_out: Cell<bool>,
}

impl Measure {
    pub(crate) fn bytes() -> Measure {
        Measure {
            by_tokens: false,
            has_left_out: Cell::new(false),
        }
    }

    pub(crate) fn tokens() -> Measure {
        Measure {
            by_tokens: true,
            ..Measure::bytes()
        }
    }

    pub(crate) fn length(&self, text: &str) -> u64 {
        if self.by_tokens {
            count_tokens(text)
        } else {
            text.len() as u64
        }
    }

    /// Returns whether a text has at most `room` tokens or bytes.
    fn fits(&self, text: &str, room: u64) -> bool {
        text.len() as u64 <= room || (self.by_tokens && count_tokens(text) <= room)
    }

    pub(crate) fn is_by_bytes(&self) -> bool {
        !self.by_tokens
    }

    /// Returns whether a part had no room, or not enough.
    pub(crate) fn has_left_out(&self) -> bool {
        self.has_left_out.get()
    }

    /// Notes that a part has no room, or not enough.
    pub(crate) fn leaves_out(&self) {
        self.has_left_out.set(true);
    }
}

/// A budget of tokens that is spent part by part.
pub(crate) struct TokenBudget<'m> {
    measure: &'m Measure,
    left: u64,
    reserved: u64,
}

impl TokenBudget<'_> {
    pub(crate) fn new(measure: &Measure, left: u64) -> TokenBudget<'_> {
        TokenBudget {
            measure,
            left,
            reserved: 0,
        }
    }

    /// Reserves tokens for later parts.
    pub(crate) fn reserve(&mut self, tokens: u64) {
        self.reserved += tokens;
    }

    /// Releases reserved tokens.
    pub(crate) fn release(&mut self, tokens: u64) {
        self.reserved = self.reserved.saturating_sub(tokens);
    }

    /// Returns the number of tokens that the next part may take.
    pub(crate) fn available(&self) -> u64 {
        self.left.saturating_sub(self.reserved)
    }

    /// Creates a part of at most `room` tokens, and deducts it together with the blank line before it.
    pub(crate) fn take(&mut self, room: u64, part: impl FnOnce(u64) -> Option<String>) -> Option<String> {
        let Some(room) = room.checked_sub(2) else {
            self.measure.leaves_out();
            return None;
        };
        let text = part(room)?;
        self.left = self.left.saturating_sub(self.measure.length(&text) + 2);
        Some(text)
    }
}

/// Returns the length of some lines.
pub(crate) fn length_of_lines(measure: &Measure, lines: &[String]) -> u64 {
    lines.iter().map(|line| measure.length(line) + 1).sum()
}

/// Returns a heading with a body below it. Returns `None` if the body is empty or does not fit.
pub(crate) fn section(
    measure: &Measure,
    heading: &str,
    room: u64,
    body: impl FnOnce(u64) -> String,
) -> Option<String> {
    let open = room.checked_sub(measure.length(heading) + 2);
    let Some(open) = open.filter(|open| *open > 8) else {
        measure.leaves_out();
        return None;
    };
    let body = body(open);
    (!body.trim().is_empty()).then(|| format!("{heading}\n\n{body}"))
}

/// Returns a text within `room` tokens: the whole text, else its beginning and its end.
pub(crate) fn fit(measure: &Measure, text: &StoredText, room: u64) -> String {
    cut(measure, text, room, 0.5)
}

/// Returns a text within `room` tokens, mostly its end if it does not fit.
pub(crate) fn end_of(measure: &Measure, text: &StoredText, room: u64) -> String {
    cut(measure, text, room, 0.1)
}

fn cut(measure: &Measure, text: &StoredText, room: u64, head_share: f64) -> String {
    let whole = text.to_string();
    if measure.fits(&whole, room) {
        return whole;
    }
    measure.leaves_out();
    if !measure.by_tokens {
        return String::new();
    }
    let tokens = count_tokens(&whole);
    // The omission mark takes about the same number of tokens for every number in it.
    let mut mark = StoredText::default();
    (mark.missing, mark.file) = (text.len(), text.file.clone());
    let Some(open) = room
        .checked_sub(count_tokens(&mark.to_string()) + 2)
        .filter(|open| *open > 8)
    else {
        return beginning(&whole, room);
    };
    let mut bytes = whole.len() as f64 * open as f64 / tokens as f64;
    for _ in 0..12 {
        let head_bytes = (bytes * head_share) as usize;
        let shown = shortened(text, head_bytes, bytes as usize - head_bytes);
        let taken = count_tokens(&shown);
        if taken <= room {
            return shown;
        }
        bytes *= (open as f64 / taken as f64).min(0.97);
    }
    beginning(&whole, room)
}

/// Returns the beginning of a text, for a limit that does not even fit the omission mark.
fn beginning(text: &str, room: u64) -> String {
    let mut length = text
        .len()
        .min(usize::try_from(room).unwrap_or(usize::MAX).saturating_mul(4));
    loop {
        let part = text.get(..text.floor_char_boundary(length)).unwrap_or_default();
        if length == 0 || count_tokens(part) <= room {
            return part.to_owned();
        }
        length = length * 9 / 10;
    }
}

/// Returns a text reduced to `head` bytes of its beginning and `tail` bytes of its end.
fn shortened(text: &StoredText, head: usize, tail: usize) -> String {
    let (first, last) = match text.missing {
        0 => (text.head.as_str(), text.head.as_str()),
        _ => (text.head.as_str(), text.tail.as_str()),
    };
    let head = first.get(..first.floor_char_boundary(head)).unwrap_or_default();
    let tail = last
        .get(last.ceil_char_boundary(last.len().saturating_sub(tail))..)
        .unwrap_or_default();
    let mut shown = text.clone();
    shown.missing = text.len().saturating_sub((head.len() + tail.len()) as u64);
    (shown.head, shown.tail) = (head.to_owned(), tail.to_owned());
    shown.to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_fills_its_tokens_and_keeps_both_ends() {
        let lines: Vec<String> = (0..4_000).map(|n| format!("line {n} of the plan, äöü")).collect();
        let text = StoredText::from(&*lines.join("\n"));
        for room in [60, 300, 1_000, 4_000] {
            let shown = fit(&Measure::tokens(), &text, room);
            let tokens = count_tokens(&shown);
            assert!(tokens <= room && tokens * 10 >= room * 8, "{tokens} of {room}");
            assert!(
                shown.starts_with("line 0") && shown.ends_with("line 3999 of the plan, äöü"),
                "{shown}"
            );
            assert!(shown.contains("bytes are left out here"), "{shown}");
            let end = end_of(&Measure::tokens(), &text, room);
            assert!(
                count_tokens(&end) <= room && end.ends_with("line 3999 of the plan, äöü"),
                "{end}"
            );
        }
        assert_eq!(fit(&Measure::bytes(), &StoredText::from("short"), 50), "short");
        assert!(count_tokens(&fit(&Measure::tokens(), &text, 5)) <= 5);
    }

    #[test]
    fn a_part_without_any_room_is_left_out() {
        let bytes = Measure::bytes();
        let mut left = TokenBudget::new(&bytes, 12);
        let mut part = |room| left.take(room, |_| Some("ten bytes.".to_owned()));
        assert!(part(12).is_some() && !bytes.has_left_out());
        assert!(part(0).is_none() && bytes.has_left_out());
    }

    proptest! {
        #[test]
        fn what_has_room_by_its_bytes_is_the_same_by_its_tokens(
            parts in prop::collection::vec("[a-z äö\n]{0,60}", 0..6),
            room in 0_u64..400,
        ) {
            let page = |measure: &Measure| {
                let mut left = TokenBudget::new(measure, room);
                let mut text = Vec::new();
                for part in &parts {
                    let share = left.available() / 2;
                    text.extend(left.take(share, |room| {
                        section(measure, "## Part", room, |room| fit(measure, &StoredText::from(&**part), room))
                    }));
                }
                text.join("\n\n")
            };
            let bytes = Measure::bytes();
            let by_bytes = page(&bytes);
            if !bytes.has_left_out() {
                prop_assert!(by_bytes.len() as u64 <= room);
                prop_assert_eq!(by_bytes, page(&Measure::tokens()));
            }
        }
    }
}
