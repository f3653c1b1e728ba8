//! Figures and curves, the table of them, and their file.

use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A measured figure.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Figure {
    /// The name of the workload, which begins with its id, such as `W1`.
    pub name: String,
    /// The unit. If it ends with `/s`, more is better, otherwise less.
    pub unit: String,
    /// What Orchestra needs.
    pub ours: f64,
    /// The lower bound that was measured in the same run: what the same work needs without Orchestra.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// The goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
}

impl Figure {
    /// Returns a figure with a target.
    pub fn with_target(
        name: &str,
        unit: &str,
        ours: f64,
        limit: impl Into<Option<f64>>,
        target: f64,
    ) -> Figure {
        Figure {
            name: name.to_owned(),
            unit: unit.to_owned(),
            ours,
            limit: limit.into(),
            target: Some(target),
        }
    }

    /// Returns whether a greater figure is better.
    pub fn more_is_better(&self) -> bool {
        self.unit.ends_with("/s")
    }

    /// Returns how many times the limit is needed, or reached if more is better.
    pub fn ratio(&self) -> Option<f64> {
        self.limit.map(|limit| self.ours / limit)
    }

    /// Returns whether the target is met, or `None` without one.
    pub fn is_met(&self) -> Option<bool> {
        let target = self.target?;
        Some(if self.more_is_better() {
            self.ours >= target
        } else {
            self.ours <= target
        })
    }
}

/// How a figure changes with the size of the work.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Curve {
    /// What grows and what is measured, such as `Stages of one run`.
    pub name: String,
    /// What is counted on the horizontal axis, such as `stages`.
    pub counted: String,
    /// The unit of the vertical axis.
    pub unit: String,
    /// The sizes with the figure of each.
    pub points: Vec<(f64, f64)>,
}

/// All figures of one run of the benchmarks.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Results {
    /// The machine and the compiler, one fact a line.
    #[serde(default)]
    pub machine: Vec<String>,
    /// The figures, in the order in which they were measured.
    pub figures: Vec<Figure>,
    /// The curves of growth.
    #[serde(default)]
    pub curves: Vec<Curve>,
}

impl Results {
    /// Reads a file of results, or the lines of figures among the output of a program.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or has no figure.
    pub fn read(path: &Path) -> Result<Results, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        if let Ok(results) = serde_json::from_str(&text) {
            return Ok(results);
        }
        let figures: Vec<Figure> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line.trim()).ok())
            .collect();
        if figures.is_empty() {
            return Err(format!("{}: no figures in it", path.display()));
        }
        Ok(Results {
            figures,
            ..Results::default()
        })
    }

    /// Writes the results to a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(&error))?;
        std::fs::write(path, text + "\n").map_err(|error| failed(&error))
    }

    /// Returns the table of all figures, as Markdown whose columns are aligned.
    pub fn table(&self) -> String {
        let mut rows = vec![["Workload", "Unit", "Ours", "Limit", "Ratio", "Target", ""].map(str::to_owned)];
        let shown = |value: Option<f64>| value.map_or_else(String::new, amount);
        for figure in &self.figures {
            let verdict = match figure.is_met() {
                Some(true) => "met",
                Some(false) => "missed",
                None => "",
            };
            rows.push([
                figure.name.clone(),
                figure.unit.clone(),
                amount(figure.ours),
                shown(figure.limit),
                shown(figure.ratio()),
                shown(figure.target),
                verdict.to_owned(),
            ]);
        }
        aligned(&rows)
    }
}

/// Returns rows as a Markdown table with aligned columns. The first row is the header; all columns behind the second
/// one are numbers.
pub fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let mut widths = [0; COLUMNS];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let _ = match column {
                0 | 1 => write!(text, "| {cell:width$} "),
                _ => write!(text, "| {cell:>width$} "),
            };
        }
        text.push_str("|\n");
        if at == 0 {
            for (column, width) in widths.into_iter().enumerate() {
                let line = "-".repeat(width + 1);
                let _ = match column {
                    0 | 1 => write!(text, "|{line}-"),
                    _ => write!(text, "|{line}:"),
                };
            }
            text.push_str("|\n");
        }
    }
    text
}

/// Returns a number with three significant digits, or all digits of a large one, in groups of three.
pub fn amount(value: f64) -> String {
    if !value.is_finite() {
        return String::new();
    }
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        let left = whole.len() - at;
        if at > 0 && left.is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(unit: &str, ours: f64, target: f64) -> Figure {
        Figure {
            name: "W1 chain".to_owned(),
            unit: unit.to_owned(),
            ours,
            limit: Some(0.1),
            target: Some(target),
        }
    }

    #[test]
    fn a_target_is_met_from_the_better_side() {
        assert_eq!(figure("us/stage", 0.3, 0.29).is_met(), Some(false));
        assert_eq!(figure("us/stage", 0.2, 0.29).is_met(), Some(true));
        assert_eq!(figure("runs/s", 2e5, 1.8e5).is_met(), Some(true));
        assert_eq!(figure("runs/s", 1e5, 1.8e5).is_met(), Some(false));
    }

    #[test]
    fn numbers_are_short_and_grouped() {
        let shown = [0.0123, 0.45, 1.0, 12.34, 123.4, 1_234_567.0, -123_456.0].map(amount);
        let expected = ["0.0123", "0.450", "1.00", "12.3", "123", "1,234,567", "-123,456"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn results_are_read_from_a_file_and_from_output() {
        let folder = std::env::temp_dir().join(format!("figures-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("results");
        let results = Results {
            machine: vec!["two cores".to_owned()],
            figures: vec![figure("us/stage", 0.3, 0.29)],
            curves: vec![],
        };
        results.write(&file).unwrap();
        assert_eq!(Results::read(&file).unwrap(), results);
        let line = serde_json::to_string(&results.figures[0]).unwrap();
        std::fs::write(&file, format!("Running `it`\n{line}\ndone\n")).unwrap();
        assert_eq!(Results::read(&file).unwrap().figures, results.figures);
        std::fs::write(&file, "nothing").unwrap();
        assert!(Results::read(&file).unwrap_err().ends_with("no figures in it"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_table_says_what_is_missed() {
        let results = Results {
            figures: vec![figure("us/stage", 0.3, 0.29), figure("us/stage", 0.2, 0.29)],
            ..Results::default()
        };
        let expected = "\
| Workload | Unit     |  Ours | Limit | Ratio | Target |        |
|----------|----------|------:|------:|------:|-------:|-------:|
| W1 chain | us/stage | 0.300 | 0.100 |  3.00 |  0.290 | missed |
| W1 chain | us/stage | 0.200 | 0.100 |  2.00 |  0.290 |    met |
";
        assert_eq!(results.table(), expected);
    }
}
