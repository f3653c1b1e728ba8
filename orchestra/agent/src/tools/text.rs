//! Helpers for bounded texts that mark what was omitted, and the detection of binary files.

/// The number of bytes at the beginning of a file that decide whether it is text.
const PROBE: usize = 8 * 1024;
/// Maximum length of an error in the events of the run, in bytes.
const MAX_EVENT_ERROR_BYTES: usize = 300;

/// Returns a text of about `limit` bytes: a longer one is reduced to its beginning and its end, with a line between
/// them that states the number of omitted bytes.
pub(crate) fn clipped(text: String, limit: usize, how: &str) -> String {
    if text.len() <= limit {
        return text;
    }
    let half = limit / 2;
    let (head, tail) = (floor(&text, half), ceiling(&text, text.len() - half));
    let left_out = tail - head;
    let head = text.get(..head).unwrap_or_default();
    let tail = text.get(tail..).unwrap_or_default();
    format!("{head}\n[{left_out} bytes are left out here; {how}]\n{tail}")
}

/// Returns the beginning of a line, and the number of omitted bytes.
pub(crate) fn line_start(line: &str, limit: usize) -> (&str, usize) {
    let end = floor(line, limit);
    (line.get(..end).unwrap_or_default(), line.len() - end)
}

/// Returns the beginning of the first line of an error, as the events of the run contain it.
pub(crate) fn error_line(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    line_start(first, MAX_EVENT_ERROR_BYTES).0.to_owned()
}

/// Formats a number with a noun: `1 line`, `2 lines`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// Returns `true` if the beginning of a file shows that it is binary.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    start.iter().take(PROBE).any(|byte| *byte == 0)
}

/// Returns the last character boundary at or before an index.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns the first character boundary at or after an index.
fn ceiling(text: &str, at: usize) -> usize {
    let mut boundaries = at..text.len();
    boundaries
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_is_counted_and_characters_stay_whole() {
        for length in 0..60 {
            let text: String = "aäöüß€".chars().cycle().take(length).collect();
            let cut = clipped(text.clone(), 20, "ask for less");
            if text.len() <= 20 {
                assert_eq!(cut, text);
                continue;
            }
            let (head, rest) = cut.split_once("\n[").unwrap();
            let (count, tail) = rest
                .split_once(" bytes are left out here; ask for less]\n")
                .unwrap();
            let left_out: usize = count.parse().unwrap();
            assert!(text.starts_with(head) && text.ends_with(tail));
            assert_eq!(head.len() + tail.len() + left_out, text.len());
            assert!(head.len() <= 10 && tail.len() <= 10);
        }
    }
}
