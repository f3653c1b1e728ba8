//! The lines of the text form, printed in chunks.

use orchestra_engine::{TestedCondition, stage_label};
use orchestra_graph::Rule;
use orchestra_sessions::{StageRow, ToolCallRow, TransitionRow};

use crate::report::session::usage_text;
use crate::report::stages::attempt_suffix;
use crate::terminal::format::{one_line, short_duration, time_of_day};
use crate::terminal::{Paint, Terminal};

/// Returns a stage with its branch, visit and attempt.
pub(super) fn attempt_name(row: &StageRow) -> String {
    let suffix = attempt_suffix(row.visit, row.attempt);
    let repeated = if row.repeat { ", repeated" } else { "" };
    format!(
        "{}{suffix}{repeated}",
        stage_label(row.branch.as_deref(), &row.node)
    )
}

/// The report as it is printed, chunk by chunk.
pub(super) struct TextReport<'p> {
    pub(super) terminal: &'p Terminal,
    text: String,
}

/// The chunk size in bytes.
const CHUNK: usize = 64 << 10;

impl<'p> TextReport<'p> {
    pub(super) fn new(terminal: &'p Terminal) -> TextReport<'p> {
        TextReport {
            terminal,
            text: String::new(),
        }
    }

    pub(super) fn paint(&self, paint: Paint, text: &str) -> String {
        self.terminal.paint_result(paint, text)
    }

    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
        if self.text.len() >= CHUNK {
            self.print();
        }
    }

    pub(super) fn print(&mut self) {
        if let Some(text) = self.text.strip_suffix('\n') {
            self.terminal.result(text);
        }
        self.text.clear();
    }

    pub(super) fn heading(&mut self, text: &str) {
        self.line("");
        let text = self.paint(Paint::Bold, &format!("{text}:"));
        self.line(&text);
    }

    /// Prints a property of the run, unless it is empty.
    pub(super) fn property(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            let name = self.paint(Paint::Dim, &format!("{name:<12}"));
            self.line(&format!("  {name}{value}"));
        }
    }

    pub(super) fn stage(&mut self, row: &StageRow, (word, paint): (&str, Paint)) {
        let mark = self.paint(paint, &format!("{word:>6}"));
        let at = row.started.map(time_of_day).unwrap_or_default();
        let at = self.paint(Paint::Dim, &format!("{at:>8}"));
        let duration = row.duration.map(short_duration).unwrap_or_default();
        let used = usage_text(row.usage);
        let note = row.error.as_deref().or(row.notes.as_deref()).map(one_line);
        let mut more: Vec<String> = Vec::new();
        if !used.is_empty() {
            more.push(used);
        }
        more.extend(
            row.preferred_label
                .as_ref()
                .map(|label| format!("prefers `{}`", one_line(label))),
        );
        more.extend(note);
        let more = self.paint(Paint::Dim, &more.join("  "));
        self.line(&format!(
            "  {at} {mark} {:<24} {duration:>8}  {more}",
            attempt_name(row)
        ));
    }

    pub(super) fn tool(&mut self, row: &ToolCallRow) {
        let error = row.error.as_deref().map(|error| format!(": {}", one_line(error)));
        let text = format!(
            "tool {} {}{}",
            row.tool,
            short_duration(row.duration),
            error.unwrap_or_default()
        );
        self.detail(&text);
    }

    /// Prints a transition: the rule that decided, and each tested condition with the values that it saw.
    pub(super) fn transition(&mut self, row: &TransitionRow) {
        let branch = row
            .branch
            .as_deref()
            .map_or_else(String::new, |branch| stage_label(Some(branch), &row.from) + " ");
        let rule = Rule::parse(&row.rule).map(Rule::describe).unwrap_or(&row.rule);
        let text = match (&row.to, row.branches) {
            (Some(to), _) => format!("{branch}-> {to} ({rule})"),
            (None, Some(1)) => "1 branch".to_owned(),
            (None, Some(branches)) => format!("{branch}{branches} branches"),
            (None, None) => format!("{branch}({rule})"),
        };
        self.detail(&text);
        let width = row
            .tested
            .iter()
            .map(|tested| tested.condition.chars().count())
            .max();
        for tested in &row.tested {
            self.tested(tested, width.unwrap_or(0).min(48));
        }
    }

    fn tested(&mut self, tested: &TestedCondition, width: usize) {
        let mark = if tested.held {
            self.paint(Paint::Good, "yes")
        } else {
            self.paint(Paint::Dim, " no")
        };
        let seen = tested
            .values
            .iter()
            .map(|(key, value)| format!("{key} is `{}`", one_line(value)));
        let seen = self.paint(Paint::Dim, &seen.collect::<Vec<_>>().join(", "));
        let condition = one_line(&tested.condition);
        self.line(&format!(
            "                     {mark} {condition:<width$}  -> {}  {seen}",
            tested.to
        ));
    }

    /// Prints a line below that of a stage.
    fn detail(&mut self, text: &str) {
        let text = self.paint(Paint::Dim, text);
        self.line(&format!("                  {text}"));
    }
}
