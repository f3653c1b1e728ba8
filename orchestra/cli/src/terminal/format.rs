//! Formatting of times, amounts and texts.

use std::time::Duration;

use orchestra_engine::{Clock, SystemClock, Timestamp, Usage};

/// Returns the present time.
pub(crate) fn now() -> Timestamp {
    SystemClock::new().now()
}

/// Returns the time from `from` to `to`; zero if `to` is earlier.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_millis(to.as_millis().saturating_sub(from.as_millis()))
}

/// Formats a time with its date in UTC: `2026-11-21 15:30:00`.
pub(crate) fn date_time(time: Timestamp) -> String {
    let text = time.to_string();
    text.get(..19).unwrap_or(&text).replace('T', " ")
}

/// Formats the time of day in UTC: `15:30:00`.
pub(crate) fn time_of_day(time: Timestamp) -> String {
    time.to_string().get(11..19).unwrap_or_default().to_owned()
}

/// Formats a duration in a suitable unit.
pub(crate) fn short_duration(duration: Duration) -> String {
    match duration.as_millis() {
        0..1_000 => format!("{} ms", duration.as_millis()),
        1_000..60_000 => format!("{:.1} s", duration.as_secs_f64()),
        _ => format!("{}:{:02} min", duration.as_secs() / 60, duration.as_secs() % 60),
    }
}

/// Formats a long duration in two suitable units.
pub(crate) fn long_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..86_400 => short_duration(duration),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Formats a number with thousands separators.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of tokens; empty for zero.
pub(crate) fn tokens(usage: Usage) -> String {
    match usage.tokens() {
        0 => String::new(),
        tokens => thousands(tokens),
    }
}

/// Formats a cost; empty for zero.
pub(crate) fn cost(usage: Usage) -> String {
    match usage.cost_micros {
        0 => String::new(),
        _ => format!("${:.4}", usage.cost_usd()),
    }
}

/// Formats a number of bytes in a suitable unit.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    match units.into_iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => format!("{:.1} {unit}", bytes as f64 / size as f64),
        None => format!("{bytes} B"),
    }
}

/// Formats a number with a noun: "1 error", "2 errors".
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{number} {noun}s")
    }
}

/// Returns the first line of a text that is not blank, shortened.
pub(crate) fn one_line(text: &str) -> String {
    const MAX: usize = 100;
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim();
    let mut shown: String = line.chars().take(MAX).collect();
    if line.chars().nth(MAX).is_some() {
        shown.push_str("..");
    }
    shown
}

/// Formats external text for the screen: further lines are indented below the first.
pub(crate) fn indented(text: &str) -> String {
    text.trim_end().lines().collect::<Vec<_>>().join("\n    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_in_units_that_suit_them() {
        assert_eq!(
            date_time(Timestamp::from_millis(1_795_275_000_042)),
            "2026-11-21 15:30:00"
        );
        assert_eq!(time_of_day(Timestamp::from_millis(1_795_275_000_042)), "15:30:00");
        assert_eq!(
            long_duration(Duration::from_secs(2 * 86_400 + 3 * 3_600)),
            "2 d 3 h"
        );
        assert_eq!(
            (thousands(12), thousands(1_234_567)),
            ("12".to_owned(), "1,234,567".to_owned())
        );
        assert_eq!(
            (bytes(999), bytes(1_500_000)),
            ("999 B".to_owned(), "1.5 MB".to_owned())
        );
    }
}
