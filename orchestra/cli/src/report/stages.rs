//! The names of attempts as they are shown.

/// Returns the visit and the attempt of a stage, each unless it is the first.
pub(crate) fn attempt_suffix(visit: u32, attempt: u32) -> String {
    let parts = [("visit", visit), ("attempt", attempt)];
    let later = parts.into_iter().filter(|(_, number)| *number > 1);
    later.map(|(word, number)| format!(", {word} {number}")).collect()
}
