//! Fits texts into a number of tokens.

use orchestra_engine::StoredText;

use crate::tokens::count_tokens;

/// A budget of tokens that is spent part by part.
pub(crate) struct TokenBudget {
    left: u64,
    reserved: u64,
}

impl TokenBudget {
    pub(crate) fn new(left: u64) -> TokenBudget {
        TokenBudget { left, reserved: 0 }
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
        let text = part(room.checked_sub(2)?)?;
        self.left = self.left.saturating_sub(count_tokens(&text) + 2);
        Some(text)
    }
}

/// Returns the number of tokens of some lines.
pub(crate) fn tokens_of_lines(lines: &[String]) -> u64 {
    lines.iter().map(|line| count_tokens(line) + 1).sum()
}

/// Returns a heading with a body below it. Returns `None` if the body is empty or does not fit.
pub(crate) fn section(heading: &str, room: u64, body: impl FnOnce(u64) -> String) -> Option<String> {
    let open = room
        .checked_sub(count_tokens(heading) + 2)
        .filter(|open| *open > 8)?;
    let body = body(open);
    (!body.trim().is_empty()).then(|| format!("{heading}\n\n{body}"))
}

/// Returns a text within `room` tokens: the whole text, else its beginning and its end.
pub(crate) fn fit(text: &StoredText, room: u64) -> String {
    cut(text, room, 0.5)
}

/// Returns a text within `room` tokens, mostly its end if it does not fit.
pub(crate) fn end_of(text: &StoredText, room: u64) -> String {
    cut(text, room, 0.1)
}

fn cut(text: &StoredText, room: u64, head_share: f64) -> String {
    let whole = text.to_string();
    let tokens = count_tokens(&whole);
    if tokens <= room {
        return whole;
    }
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
    use super::*;

    #[test]
    fn a_text_fills_its_tokens_and_keeps_both_ends() {
        let lines: Vec<String> = (0..4_000).map(|n| format!("line {n} of the plan, äöü")).collect();
        let text = StoredText::from(&*lines.join("\n"));
        for room in [60, 300, 1_000, 4_000] {
            let shown = fit(&text, room);
            let tokens = count_tokens(&shown);
            assert!(tokens <= room && tokens * 10 >= room * 8, "{tokens} of {room}");
            assert!(
                shown.starts_with("line 0") && shown.ends_with("line 3999 of the plan, äöü"),
                "{shown}"
            );
            assert!(shown.contains("bytes are left out here"), "{shown}");
            let end = end_of(&text, room);
            assert!(
                count_tokens(&end) <= room && end.ends_with("line 3999 of the plan, äöü"),
                "{end}"
            );
        }
        assert_eq!(fit(&StoredText::from("short"), 50), "short");
        assert!(count_tokens(&fit(&text, 5)) <= 5);
    }
}
