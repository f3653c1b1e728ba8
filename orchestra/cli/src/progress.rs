//! How a run looks while it goes: one line a stage, the way taken and why, and a live line on a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use orchestra_engine::{EventKind, RunEvent, Status, TestedCondition};

use crate::terminal::{Paint, Terminal};

/// The lines of a run.
pub(crate) struct Progress<'t> {
    terminal: &'t Terminal,
    live: bool,
    shown: bool,
    running: Option<(String, Instant)>,
}

impl<'t> Progress<'t> {
    pub(crate) fn new(terminal: &'t Terminal) -> Progress<'t> {
        let live = !terminal.quiet && !terminal.json && std::io::stderr().is_terminal();
        Progress {
            terminal,
            live,
            shown: false,
            running: None,
        }
    }

    /// Shows one event.
    pub(crate) fn event(&mut self, event: &RunEvent) {
        match &event.kind {
            EventKind::PipelineStarted { name, goal } => {
                let goal = if goal.is_empty() {
                    String::new()
                } else {
                    format!(": {goal}")
                };
                self.line(&format!("{}{goal}", self.terminal.paint(Paint::Bold, name)));
            }
            EventKind::StageStarted { node, .. } => {
                self.running = Some((node.to_string(), Instant::now()));
                self.tick();
            }
            EventKind::StageCompleted {
                node,
                visit,
                attempt,
                outcome,
                notes,
                duration,
                ..
            } => {
                let word = if *outcome == Status::Success {
                    "ok"
                } else {
                    outcome.word()
                };
                let mark = self.terminal.paint(Paint::Good, &format!("{word:>6}"));
                self.stage(&mark, node, *visit, *attempt, *duration, notes.as_deref());
            }
            EventKind::StageFailed {
                node,
                visit,
                attempt,
                error,
                will_retry,
                duration,
                ..
            } => {
                let word = if *will_retry { " again" } else { "failed" };
                let mark = self.terminal.paint(Paint::Bad, word);
                self.stage(&mark, node, *visit, *attempt, *duration, Some(error));
            }
            EventKind::EdgeSelected {
                to: Some(to),
                rule,
                tested,
                ..
            } => {
                let why = tested
                    .iter()
                    .find(|tested| tested.held && tested.to == *to)
                    .map_or_else(
                        || rule.describe().to_owned(),
                        |tested| format!("{}{}", tested.condition, values(tested)),
                    );
                self.line(
                    &self
                        .terminal
                        .paint(Paint::Dim, &format!("        -> {to} ({why})")),
                );
            }
            EventKind::StageLog { node, message } => {
                self.line(&format!(
                    "        {}",
                    self.terminal.paint(Paint::Dim, &format!("{node}: {message}"))
                ));
            }
            _ => {}
        }
    }

    fn stage(
        &mut self,
        mark: &str,
        node: &str,
        visit: u32,
        attempt: u32,
        took: Duration,
        notes: Option<&str>,
    ) {
        self.running = None;
        let mut again = String::new();
        if visit > 1 {
            again.push_str(&format!(", visit {visit}"));
        }
        if attempt > 1 {
            again.push_str(&format!(", attempt {attempt}"));
        }
        let name = format!("{node}{again}");
        let notes = notes.map_or_else(String::new, |notes| format!("  {}", one_line(notes)));
        self.line(&format!(
            "{mark} {name:<24} {:>8}{}",
            time(took),
            self.terminal.paint(Paint::Dim, &notes)
        ));
    }

    fn line(&mut self, text: &str) {
        self.clear();
        self.terminal.progress(text.trim_end());
    }

    /// Renews the live line; called at least once a second.
    pub(crate) fn tick(&mut self) {
        let Some((node, since)) = self.running.as_ref().filter(|_| self.live) else {
            return;
        };
        let text = format!(
            "   ... {node:<24} {:>8}",
            time(Duration::from_secs(since.elapsed().as_secs()))
        );
        let mut output = std::io::stderr().lock();
        let _ = write!(output, "\r\x1b[2K{text}").and_then(|()| output.flush());
        self.shown = true;
    }

    /// Takes the live line away.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let mut output = std::io::stderr().lock();
            let _ = write!(output, "\r\x1b[2K").and_then(|()| output.flush());
        }
    }
}

/// The values that a condition saw, where it does not say them itself.
fn values(tested: &TestedCondition) -> String {
    let said = |(key, value): &&(String, String)| !tested.condition.contains(&format!("{key}={value}"));
    let values: Vec<String> = tested
        .values
        .iter()
        .filter(said)
        .map(|(key, value)| format!("{key} is `{}`", one_line(value)))
        .collect();
    if values.is_empty() {
        String::new()
    } else {
        format!(": {}", values.join(", "))
    }
}

fn one_line(text: &str) -> String {
    const MAX: usize = 100;
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim();
    let mut shown: String = line
        .chars()
        .take(MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if line.chars().nth(MAX).is_some() {
        shown.push_str("..");
    }
    shown
}

/// A time in the unit that suits it.
fn time(duration: Duration) -> String {
    match duration.as_millis() {
        0..1_000 => format!("{} ms", duration.as_millis()),
        1_000..60_000 => format!("{:.1} s", duration.as_secs_f64()),
        _ => format!("{}:{:02} min", duration.as_secs() / 60, duration.as_secs() % 60),
    }
}
