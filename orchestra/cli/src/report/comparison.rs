//! The comparison of two runs as text.

use orchestra_engine::stage_label;
use orchestra_graph::Rule;
use orchestra_sessions::{
    AlignedRow, ComparedRun, Divergence, DivergenceKind, RunComparison, RunStep, StageState, StepTotals,
};

use crate::report::session::{status_paint, usage_text};
use crate::report::stages::attempt_suffix;
use crate::terminal::format::{count, one_line, short_duration};
use crate::terminal::table::{Cell, table};
use crate::terminal::{Paint, Terminal};

/// Number of rows before the first divergence that are shown without `--all`.
const ROWS_BEFORE: usize = 10;

/// Number of rows from the first divergence on that are shown without `--all`.
const ROWS_AFTER: usize = 100;

/// Maximum width of a step in the table, so that a row with two steps has at most 80 columns.
const STEP_WIDTH: usize = 33;

/// Prints a comparison. Shows only the rows around the first divergence, unless `all` is set.
pub(crate) fn print(comparison: &RunComparison, all: bool, terminal: &Terminal) {
    terminal.result(&summary(comparison));
    for (side, run) in [("left", &comparison.left), ("right", &comparison.right)] {
        terminal.result(&run_lines(side, run, terminal));
    }
    if let Some(divergence) = &comparison.divergence {
        terminal.result("");
        for (side, line) in reasons(divergence, comparison) {
            terminal.result(&format!("  {side:<6} {line}"));
        }
    }
    if comparison.same_pipeline == Some(false) {
        terminal.result("");
        terminal.result("the pipelines differ:");
        for line in comparison.pipeline_changes.lines() {
            terminal.result(&format!("  {line}"));
        }
    }
    print_rows(comparison, all, terminal);
    if comparison.divergence.is_some() {
        terminal.result("");
        for (side, run) in [("left", &comparison.left), ("right", &comparison.right)] {
            terminal.result(&format!("  from there on, {side}: {}", totals(&run.after)));
        }
    }
    if comparison.more {
        terminal.result("");
        terminal.result("the runs have too many steps to compare all of them");
    }
}

/// Returns the summary: the number of common steps, and what differs first.
fn summary(comparison: &RunComparison) -> String {
    let steps = count(comparison.common, "step");
    let Some(divergence) = &comparison.divergence else {
        return format!("the runs agree: {steps}");
    };
    let name = |step: &Option<RunStep>| step.as_ref().map(step_name);
    let (left, right) = (name(&divergence.left), name(&divergence.right));
    let here = left.clone().or(right.clone()).unwrap_or_default();
    let then = match divergence.kind {
        DivergenceKind::Outcome => format!("{here} ends differently"),
        DivergenceKind::Edge => format!("{here} takes different edges"),
        DivergenceKind::Values => format!("the conditions at {here} read different values"),
        DivergenceKind::Node => format!(
            "one is at {} and the other at {}",
            left.unwrap_or_default(),
            right.unwrap_or_default()
        ),
        _ => match (&divergence.left, &divergence.right) {
            (None, None) => "they end differently".to_owned(),
            (Some(left), Some(right)) if left.has_ended() == right.has_ended() => {
                format!("one does not go on after {here}")
            }
            (Some(_), Some(_)) => format!("one has not completed {here}"),
            _ => "one does not go on".to_owned(),
        },
    };
    let part = match divergence.parts_at {
        Some(row) if row > divergence.row => {
            format!(";\nthe paths part after {}", count(row, "step"))
        }
        _ => String::new(),
    };
    format!("the runs agree for {steps}, then {then}{part}")
}

/// Returns the lines about a run.
fn run_lines(side: &str, run: &ComparedRun, terminal: &Terminal) -> String {
    let status = terminal.paint_result(status_paint(run.status), run.status.word());
    let origin = run.replayed_from.as_ref();
    let origin = origin.map(|origin| format!("\n         replayed from {origin}"));
    let (id, name) = (&run.run, &run.name);
    format!("  {side:<6} {id}  {name}  {status}{}", origin.unwrap_or_default())
}

/// Returns the reasons of the divergence, each with its side.
fn reasons(divergence: &Divergence, comparison: &RunComparison) -> Vec<(&'static str, String)> {
    let sides = [
        ("left", &divergence.left, &comparison.left),
        ("right", &divergence.right, &comparison.right),
    ];
    let mut lines = Vec::new();
    for (side, step, run) in sides {
        let text = match step {
            Some(step) => reason(step, divergence.kind),
            None => format!("no further step; the run is {}", run.status),
        };
        lines.push((side, text));
    }
    let shown = |value: &Option<String>| match value {
        Some(value) => format!("`{}`", one_line(value)),
        None => "not read".to_owned(),
    };
    for value in &divergence.values {
        let (left, right) = (shown(&value.left), shown(&value.right));
        lines.push(("value", format!("{}: {left} left, {right} right", value.key)));
    }
    lines
}

/// Returns what a step contributes to a divergence.
fn reason(step: &RunStep, kind: DivergenceKind) -> String {
    let name = step_name(step);
    match kind {
        DivergenceKind::Edge | DivergenceKind::Values => {
            let rule = step.decision.as_ref().map(|decision| {
                let rule = Rule::parse(&decision.rule).map(Rule::describe);
                format!(" ({})", rule.unwrap_or(&decision.rule))
            });
            format!("{name}{}{}", target(step), rule.unwrap_or_default())
        }
        DivergenceKind::Node => name,
        _ => {
            let label = step.preferred_label.as_deref().filter(|label| !label.is_empty());
            let label = label.map(|label| format!(", prefers `{}`", one_line(label)));
            let retry = if step.will_retry { ", tried again" } else { "" };
            let error = step
                .error
                .as_deref()
                .map(|error| format!(": {}", one_line(error)));
            format!(
                "{name} {}{}{retry}{}{}",
                state(step),
                label.unwrap_or_default(),
                error.unwrap_or_default(),
                target(step)
            )
        }
    }
}

/// Returns a step with its branch, visit and attempt.
fn step_name(step: &RunStep) -> String {
    let suffix = attempt_suffix(step.visit.unwrap_or(1), step.attempt.unwrap_or(1));
    format!("{}{suffix}", stage_label(step.branch.as_deref(), &step.node))
}

/// Returns the outcome of a step, else its state.
fn state(step: &RunStep) -> &str {
    let state = step.state.map(StageState::word).unwrap_or_default();
    step.outcome.as_deref().unwrap_or(state)
}

/// Returns where a run goes from a step.
fn target(step: &RunStep) -> String {
    let Some(decision) = &step.decision else {
        return String::new();
    };
    match (&decision.to, decision.branches) {
        (Some(to), _) => format!(" -> {to}"),
        (None, Some(1)) => " -> 1 branch".to_owned(),
        (None, Some(branches)) => format!(" -> {branches} branches"),
        (None, None) => String::new(),
    }
}

fn totals(totals: &StepTotals) -> String {
    let attempts = count(usize::try_from(totals.attempts).unwrap_or(usize::MAX), "attempt");
    let used = usage_text(totals.usage);
    let used = if used.is_empty() {
        used
    } else {
        format!(", {used}")
    };
    format!("{attempts}, {}{used}", short_duration(totals.duration))
}

fn print_rows(comparison: &RunComparison, all: bool, terminal: &Terminal) {
    let rows = &comparison.rows;
    let (first, last) = if all {
        (0, rows.len())
    } else {
        let first = comparison.common.saturating_sub(ROWS_BEFORE);
        (first, rows.len().min(comparison.common + ROWS_AFTER))
    };
    let shown = rows.get(first..last).unwrap_or_default();
    if shown.is_empty() {
        return;
    }
    let omitted = |number: usize, position: &str| {
        if number > 0 {
            let text = format!(".. {} {position}, which `--all` shows", count(number, "row"));
            terminal.result(&terminal.paint_result(Paint::Dim, &text));
        }
    };
    terminal.result("");
    omitted(first, "before");
    let diverging = comparison.divergence.as_ref().map(|divergence| divergence.row);
    let cells = shown.iter().enumerate().map(|(at, row)| {
        let is_first = diverging == Some(first + at);
        let paint = match (row.same, is_first) {
            (true, _) => Paint::Dim,
            (false, true) => Paint::Bad,
            (false, false) => Paint::Warn,
        };
        let mark = if is_first { "> " } else { "  " };
        let step = |step: &Option<RunStep>| {
            let text = step.as_ref().map(|step| {
                let label = format!("{} {}", step_name(step), state(step));
                shortened(&format!("{}{}", label.trim_end(), target(step)))
            });
            Cell::text(text.unwrap_or_default())
        };
        vec![
            Cell::text(format!("{mark}{}", word(row))).paint(paint),
            step(&row.left),
            step(&row.right),
        ]
    });
    let head = ["", "LEFT", "RIGHT"];
    terminal.result(&table(terminal, &head, cells.collect()));
    omitted(rows.len() - last, "after");
}

/// Returns what is the matter with a row.
fn word(row: &AlignedRow) -> &'static str {
    match (row.differs, &row.left, &row.right) {
        (Some(kind), _, _) => kind.word(),
        (None, Some(_), None) => "left",
        (None, None, Some(_)) => "right",
        _ => "same",
    }
}

/// Returns a text of at most the width of a step in the table.
fn shortened(text: &str) -> String {
    if text.chars().count() <= STEP_WIDTH {
        return text.to_owned();
    }
    let kept: String = text.chars().take(STEP_WIDTH - 2).collect();
    kept + ".."
}
