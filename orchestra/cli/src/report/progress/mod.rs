//! The progress display of a run: lines, a live line on a terminal, and the text of models.

mod events;

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use orchestra_engine::{RunId, StageText};

use crate::terminal::format::short_duration;
use crate::terminal::screen::Screen;
use crate::terminal::{Paint, Terminal};

/// The progress display, shared by the events, the questions and the timer.
pub(crate) struct SharedProgress {
    progress: Mutex<Progress>,
}

impl SharedProgress {
    pub(crate) fn new(terminal: Terminal) -> SharedProgress {
        SharedProgress {
            progress: Mutex::new(Progress::new(terminal)),
        }
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Screen for SharedProgress {
    fn open(&self) {
        self.progress().hold();
    }

    fn write(&self, text: &str) {
        let mut progress = self.progress();
        progress.line_open = !text.ends_with('\n');
        progress.terminal.write(text);
    }

    fn shows_answer(&self, node: &str, text: &str) -> bool {
        let progress = self.progress();
        let answer = progress.answers.get(node);
        answer.is_some_and(|answer| answer.trim() == text.trim())
    }

    fn end_line(&self) {
        self.progress().end_line();
    }

    fn close(&self) {
        self.progress().release();
    }
}

/// A stage in progress.
struct Running {
    name: String,
    /// The live status; empty while the stage works.
    activity: &'static str,
    since: Instant,
    /// `true` if the attempt had begun before the run was interrupted.
    repeat: bool,
}

/// The progress display of a run.
pub(crate) struct Progress {
    terminal: Terminal,
    live: bool,
    shown: bool,
    running: Vec<Running>,
    /// The run that is shown; other runs are its child runs.
    run: Option<RunId>,
    /// The prefix of the stages of the current child run.
    child_prefix: String,
    /// `true` if the cursor is after a prompt, or after text of a model.
    line_open: bool,
    /// The stage whose model text was shown last.
    last_speaker: Option<String>,
    /// The part of the last answer of each stage's model that is on the screen.
    answers: HashMap<String, String>,
    /// The lines that are held back while a question is open; `None` while none is open.
    held: Option<Vec<String>>,
    /// The branches of the run until the title is shown; `None` afterwards.
    branches: Option<Vec<String>>,
}

impl Progress {
    fn new(terminal: Terminal) -> Progress {
        let live = !terminal.quiet && !terminal.json && std::io::stderr().is_terminal();
        Progress {
            terminal,
            live,
            shown: false,
            running: Vec::new(),
            run: None,
            child_prefix: String::new(),
            line_open: false,
            last_speaker: None,
            answers: HashMap::new(),
            held: None,
            branches: Some(Vec::new()),
        }
    }

    /// Holds back all output while a person reads and types.
    fn hold(&mut self) {
        self.clear();
        self.end_line();
        self.last_speaker = None;
        self.held = self.live.then(Vec::new);
    }

    /// Shows the lines that were held back.
    fn release(&mut self) {
        // The person ended the line by pressing Enter.
        self.line_open = false;
        for line in self.held.take().unwrap_or_default() {
            self.terminal.progress(&line);
        }
    }

    /// Sets the run that is followed. By default, it is the run of the first event.
    pub(crate) fn follow_run(&mut self, run: &str) {
        self.run = RunId::new(run).ok();
    }

    /// Shows the branches of the run below its title.
    pub(crate) fn show_branches_below_title(&mut self, branches: Vec<String>) {
        match &mut self.branches {
            Some(waiting) => *waiting = branches,
            None => branches.iter().for_each(|branch| self.note(branch)),
        }
    }

    fn print_branches(&mut self) {
        for branch in self.branches.take().unwrap_or_default() {
            self.note(&branch);
        }
    }

    /// Prints a line below that of a stage.
    pub(crate) fn note(&mut self, text: &str) {
        let text = self
            .terminal
            .paint(Paint::Dim, &format!("{}{text}", self.child_prefix));
        self.line(&format!("        {text}"));
    }

    fn line(&mut self, text: &str) {
        // Indent further lines, so that they cannot look like separate entries.
        let text = text.trim_end().replace('\n', "\n          ");
        match &mut self.held {
            Some(held) => held.push(text),
            None => {
                self.clear();
                self.end_line();
                self.terminal.progress(&text);
            }
        }
    }

    /// Shows a piece of a model's text to the person who talks with the model.
    pub(crate) fn model_text(&mut self, piece: &StageText) {
        let node = &*piece.node;
        if piece.starts_answer() {
            self.answers.remove(node);
        }
        // Text that arrives while another question is open is shown together with its own question.
        if self.held.is_some() {
            return;
        }
        self.answers
            .entry(node.to_owned())
            .or_default()
            .push_str(&piece.text);
        self.clear();
        if piece.starts_answer() || self.last_speaker.as_deref() != Some(node) || !self.line_open {
            self.end_line();
            let name = self.terminal.paint(Paint::Bold, &format!("    {node}: "));
            self.terminal.write(&name);
            self.last_speaker = Some(node.to_owned());
        }
        // Indent further lines below the first.
        self.terminal
            .write(&piece.text.replace("\r\n", "\n").replace('\n', "\n    "));
        self.line_open = true;
    }

    /// Shows a line at once, even while output is held back.
    pub(crate) fn interject(&mut self, text: &str) {
        self.clear();
        self.end_line();
        self.terminal.progress(text);
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.line_open) {
            self.terminal.write("\n");
        }
    }

    /// Updates the live line. Called at least once a second.
    pub(crate) fn tick(&mut self) {
        if !self.live || self.held.is_some() || self.line_open || self.running.is_empty() {
            return;
        }
        let stages = self.running.iter().map(|running| {
            let since = short_duration(Duration::from_secs(running.since.elapsed().as_secs()));
            format!("{}{} {since}", running.name, running.activity)
        });
        let text = live_line(&stages.collect::<Vec<_>>());
        self.shown |= self.terminal.live_line(&text);
    }

    /// Removes the live line.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            self.terminal.clear_line();
        }
    }
}

/// Formats the stages in progress as one line that fits a common terminal width.
fn live_line(stages: &[String]) -> String {
    const WIDTH: usize = 78;
    let mut line = "   ...".to_owned();
    let mut taken = line.len();
    for (at, stage) in stages.iter().enumerate() {
        let more = stages.len() - at;
        // Reserve space for the number of stages that do not fit.
        let available = (WIDTH - " +9999".len()).saturating_sub(taken);
        let length = stage.chars().count() + 2;
        if at > 0 && length > available {
            line.push_str(&format!(" +{more}"));
            break;
        }
        line.push_str(if at > 0 { ", " } else { " " });
        line.extend(stage.chars().take(available));
        taken += length;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_line_names_what_fits_and_counts_the_rest() {
        let stages = |count: usize| -> Vec<String> {
            (0..count).map(|at| format!("[branch{at}] lint 3.0 s")).collect()
        };
        assert_eq!(
            live_line(&stages(2)),
            "   ... [branch0] lint 3.0 s, [branch1] lint 3.0 s"
        );
        let many = live_line(&stages(30));
        assert!(
            many.ends_with("[branch1] lint 3.0 s, [branch2] lint 3.0 s +27"),
            "{many}"
        );
        let long = live_line(&["x".repeat(300), "y".to_owned()]);
        assert!(long.chars().count() <= 78 && long.ends_with(" +1"), "{long}");
    }
}
