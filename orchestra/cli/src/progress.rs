//! How a run looks while it goes: one line a stage, the way taken and why, and a live line on a terminal.

use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use orchestra_engine::{EventKind, RunEvent, Status, TestedCondition};

use crate::console::Screen;
use crate::terminal::{Paint, Terminal};

/// What is shown of a run: shared by its events, its questions and the clock.
pub(crate) struct Shown {
    progress: Mutex<Progress>,
}

impl Shown {
    pub(crate) fn new(terminal: Terminal) -> Shown {
        Shown {
            progress: Mutex::new(Progress::new(terminal)),
        }
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Screen for Shown {
    fn open(&self) {
        self.progress().hold();
    }

    fn write(&self, text: &str) {
        let progress = self.progress();
        progress.terminal.write(text);
    }

    fn close(&self) {
        self.progress().release();
    }
}

/// The lines of a run.
pub(crate) struct Progress {
    terminal: Terminal,
    live: bool,
    shown: bool,
    running: Option<(String, Instant)>,
    /// The lines that wait for the answer to a question; `None` where none is open.
    held: Option<Vec<String>>,
}

impl Progress {
    fn new(terminal: Terminal) -> Progress {
        let live = !terminal.quiet && !terminal.json && std::io::stderr().is_terminal();
        Progress {
            terminal,
            live,
            shown: false,
            running: None,
            held: None,
        }
    }

    /// Keeps everything back while a person reads and types.
    fn hold(&mut self) {
        self.clear();
        self.held = Some(Vec::new()).filter(|_| self.live);
    }

    /// Shows what was kept back.
    fn release(&mut self) {
        for line in self.held.take().unwrap_or_default() {
            self.terminal.progress(&line);
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
        let text = text.trim_end();
        match &mut self.held {
            Some(held) => held.push(text.to_owned()),
            None => {
                self.clear();
                self.terminal.progress(text);
            }
        }
    }

    /// Renews the live line; called at least once a second.
    pub(crate) fn tick(&mut self) {
        let live = self.live && self.held.is_none();
        let Some((node, since)) = self.running.as_ref().filter(|_| live) else {
            return;
        };
        let text = format!(
            "   ... {node:<24} {:>8}",
            time(Duration::from_secs(since.elapsed().as_secs()))
        );
        self.terminal.write(&format!("\r\x1b[2K{text}"));
        self.shown = true;
    }

    /// Takes the live line away.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            self.terminal.write("\r\x1b[2K");
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
pub(crate) fn time(duration: Duration) -> String {
    match duration.as_millis() {
        0..1_000 => format!("{} ms", duration.as_millis()),
        1_000..60_000 => format!("{:.1} s", duration.as_secs_f64()),
        _ => format!("{}:{:02} min", duration.as_secs() / 60, duration.as_secs() % 60),
    }
}
