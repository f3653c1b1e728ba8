//! The list of figures, and the table that is made of it.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::results::Results;
use crate::{Target, TestName, root};

/// The content of `figures.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureFile {
    /// The figures, in the order of the table.
    pub figures: Vec<Figure>,
}

/// A figure of reliability: what is done to the product, and what it must withstand.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What is done to the product.
    pub test: String,
    /// What must hold.
    pub reach: String,
    /// The tests of the suite that show it, as `PATH::NAME`.
    pub shown_by: Vec<String>,
    /// A command of its own that shows more than the suite has time for.
    #[serde(default)]
    pub longer: Option<String>,
    /// Where the figure is not reached, or is read differently: what differs, and why.
    #[serde(default)]
    pub note: Option<String>,
}

/// A command that shows a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The line for a shell, which also names the result.
    pub line: String,
    /// Whether it takes longer than the suite has time for.
    pub is_long: bool,
}

impl Figure {
    /// Returns the tests that show the figure.
    ///
    /// # Errors
    /// One of them is not written as `PATH::NAME`.
    pub fn tests(&self) -> Result<Vec<TestName>, String> {
        let parse =
            |name: &String| TestName::parse(name).ok_or_else(|| format!("`{name}` is not PATH::NAME"));
        self.shown_by.iter().map(parse).collect()
    }

    /// Returns the commands that show the figure: one for each test target, then the longer one.
    ///
    /// # Errors
    /// A test is not written as `PATH::NAME`, or belongs to no package.
    pub fn commands(&self) -> Result<Vec<Command>, String> {
        let mut targets: Vec<(Target, Vec<String>)> = Vec::new();
        for test in self.tests()? {
            let target = test.target()?;
            match targets.iter_mut().find(|(known, _)| *known == target) {
                Some((_, names)) => names.push(test.function),
                None => targets.push((target, vec![test.function])),
            }
        }
        let suite = targets.into_iter().map(|(target, names)| Command {
            line: target.command(&names),
            is_long: false,
        });
        let long = self.longer.iter().map(|line| Command {
            line: line.clone(),
            is_long: true,
        });
        Ok(suite.chain(long).collect())
    }
}

/// Reads `figures.yaml`.
///
/// # Errors
/// The file cannot be read, or is not of this form.
pub fn read_figures() -> Result<FigureFile, String> {
    let path = root().join("tests/reliability/figures.yaml");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Renders `FIGURES.md`.
///
/// # Errors
/// A figure names its tests wrongly.
pub fn render(file: &FigureFile, results: &Results) -> Result<String, String> {
    let mut text = String::from(
        "# Figures of reliability\n\n\
         What is done to the product, what it must withstand, the tests that show it, and how their commands last ended.\n\
         This file is written by `cargo run -p orchestra-reliability-tests`, from `figures.yaml` and the results of the\n\
         commands; with `--long` the longer commands run too, with a number only that row.\n\n\
         | # | Done | To reach | Tests | Command and last result |\n|---|---|---|---|---|\n",
    );
    for (index, figure) in file.figures.iter().enumerate() {
        let tests: Vec<String> = figure.tests()?.iter().map(|test| format!("`{test}`")).collect();
        let shown: Vec<String> = figure
            .commands()?
            .iter()
            .map(|command| format!("`{}`: {}", command.line, results.reported(&command.line)))
            .collect();
        let note = figure
            .note
            .as_ref()
            .map_or(String::new(), |note| format!("<br>Note: {note}"));
        let _ = writeln!(
            text,
            "| {} | {} | {}{note} | {} | {} |",
            index + 1,
            figure.test,
            figure.reach,
            tests.join("<br>"),
            shown.join("<br>")
        );
    }
    Ok(text)
}
