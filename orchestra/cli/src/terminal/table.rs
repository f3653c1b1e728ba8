//! Tables.

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
    let filled: Vec<bool> = (0..head.len())
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
            .zip(&filled)
            .filter(|(_, filled)| **filled);
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
}
