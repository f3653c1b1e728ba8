//! Formatting of tables, times and amounts.

use std::time::Duration;

use orchestra_engine::{Clock, SystemClock, Timestamp, Usage};

use crate::terminal::{Paint, Terminal};

/// A cell of a table.
pub(crate) struct Cell {
    text: String,
    paint: Option<Paint>,
    right: bool,
}

impl Cell {
    /// Creates a left-aligned cell.
    pub(crate) fn text(text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            paint: None,
            right: false,
        }
    }

    /// Creates a right-aligned cell.
    pub(crate) fn number(text: impl ToString) -> Cell {
        Cell {
            right: true,
            ..Cell::text(text.to_string())
        }
    }

    pub(crate) fn paint(mut self, paint: Paint) -> Cell {
        self.paint = Some(paint);
        self
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// Formats a table with two spaces between columns. Omits columns that are empty except for their head.
pub(crate) fn table(terminal: &Terminal, head: &[&str], rows: Vec<Vec<Cell>>) -> String {
    let wanted: Vec<bool> = (0..head.len())
        .map(|at| {
            rows.iter()
                .any(|row| row.get(at).is_some_and(|cell| !cell.text.is_empty()))
        })
        .collect();
    let numbers = |at: usize| {
        rows.first()
            .and_then(|row| row.get(at))
            .is_some_and(|cell| cell.right)
    };
    let heads = head.iter().enumerate().map(|(at, head)| Cell {
        right: numbers(at),
        ..Cell::text(*head).paint(Paint::Dim)
    });
    let all: Vec<Vec<Cell>> = std::iter::once(heads.collect()).chain(rows).collect();
    let width = |at: usize| all.iter().filter_map(|row| row.get(at)).map(Cell::width).max();
    let widths: Vec<usize> = (0..head.len()).map(|at| width(at).unwrap_or(0)).collect();
    let line = |row: &Vec<Cell>| {
        let cells = row
            .iter()
            .zip(&widths)
            .zip(&wanted)
            .filter(|(_, wanted)| **wanted);
        let mut line = String::new();
        for ((cell, width), _) in cells {
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            let text = cell.paint.map_or_else(
                || cell.text.clone(),
                |paint| terminal.paint_result(paint, &cell.text),
            );
            if !line.is_empty() {
                line.push_str("  ");
            }
            line.push_str(&if cell.right {
                blanks + &text
            } else {
                text + &blanks
            });
        }
        line.trim_end().to_owned()
    };
    all.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the present time.
pub(crate) fn now() -> Timestamp {
    SystemClock::new().now()
}

/// Returns the time from `from` to `to`; zero if `to` is earlier.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_millis(to.as_millis().saturating_sub(from.as_millis()))
}

/// Formats a time with its date in UTC: `2026-11-21 15:30:00`.
pub(crate) fn moment(moment: Timestamp) -> String {
    let text = moment.to_string();
    text.get(..19).unwrap_or(&text).replace('T', " ")
}

/// Formats the time of day in UTC: `15:30:00`.
pub(crate) fn clock(moment: Timestamp) -> String {
    moment.to_string().get(11..19).unwrap_or_default().to_owned()
}

/// Formats a long duration in two suitable units.
pub(crate) fn long(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..86_400 => crate::progress::time(duration),
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

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Terminal = Terminal {
        json: false,
        quiet: false,
        color: false,
    };

    #[test]
    fn numbers_stand_at_the_right_and_empty_columns_are_left_out() {
        let row = |name: &str, number: u64| {
            vec![
                Cell::text(name),
                Cell::number(""),
                Cell::number(number),
                Cell::text("x"),
            ]
        };
        let text = table(
            &PLAIN,
            &["NAME", "COST", "N", "END"],
            vec![row("a", 7), row("longer", 12_345)],
        );
        assert_eq!(text, "NAME        N  END\na           7  x\nlonger  12345  x");
    }

    #[test]
    fn times_and_sizes_are_in_units_that_suit_them() {
        assert_eq!(
            moment(Timestamp::from_millis(1_795_275_000_042)),
            "2026-11-21 15:30:00"
        );
        assert_eq!(clock(Timestamp::from_millis(1_795_275_000_042)), "15:30:00");
        assert_eq!(long(Duration::from_secs(2 * 86_400 + 3 * 3_600)), "2 d 3 h");
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
