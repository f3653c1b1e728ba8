//! The progress of a run: one line for each stage, the transitions with their reasons, and a live line on a terminal.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use orchestra_engine::{EventKind, RunEvent, RunId, StageText, Status, TestedCondition, Timestamp};
use orchestra_graph::Rule;

use crate::console::Screen;
use crate::layout::{between, now};
use crate::terminal::{Paint, Terminal};

/// The progress display, shared by the events, the questions and the timer.
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
        let mut progress = self.progress();
        progress.begun = !text.ends_with('\n');
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

/// The live status of a stage that waits for its next attempt.
const WAITS: &str = " waits";

/// The live status of a human gate.
const ASKS: &str = " asks";

/// A stage in progress.
struct Running {
    name: String,
    /// The live status; empty while the stage works.
    doing: &'static str,
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
    inside: String,
    /// `true` if the cursor is after a prompt, or after text of a model.
    begun: bool,
    /// The stage whose model text was shown last.
    speaking: Option<String>,
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
            inside: String::new(),
            begun: false,
            speaking: None,
            answers: HashMap::new(),
            held: None,
            branches: Some(Vec::new()),
        }
    }

    /// Holds back all output while a person reads and types.
    fn hold(&mut self) {
        self.clear();
        self.end_line();
        self.speaking = None;
        self.held = Some(Vec::new()).filter(|_| self.live);
    }

    /// Shows the lines that were held back.
    fn release(&mut self) {
        // The person ended the line by pressing Enter.
        self.begun = false;
        for line in self.held.take().unwrap_or_default() {
            self.terminal.progress(&line);
        }
    }

    /// Sets the run that is followed. By default, it is the run of the first event.
    pub(crate) fn of_run(&mut self, run: &str) {
        self.run = RunId::new(run).ok();
    }

    /// Shows an event.
    pub(crate) fn event(&mut self, event: &RunEvent) {
        let run = self.run.get_or_insert_with(|| event.run.clone());
        self.inside = inside(run, &event.run);
        match &event.kind {
            EventKind::PipelineStarted { name, goal } => {
                let goal = if goal.is_empty() {
                    String::new()
                } else {
                    format!(": {goal}")
                };
                let name = self.terminal.paint(Paint::Bold, name);
                self.line(&format!("{}{name}{goal}", self.inside));
                self.has_begun();
            }
            EventKind::PipelineResumed {
                checkpoint,
                repaired,
                replayed_from,
                retry,
                ..
            } => {
                let inside = &self.inside;
                self.running.retain(|running| !running.name.starts_with(inside));
                let from = replayed_from.as_ref().unwrap_or(checkpoint);
                self.note(&match retry {
                    Some(node) => format!("resumed from {from}, retries {node}"),
                    None => format!("resumed from {from}"),
                });
                for mended in repaired {
                    self.note(&format!("mended: {}", one_line(mended)));
                }
                self.has_begun();
            }
            EventKind::StageStarted {
                node, branch, repeat, ..
            } => {
                self.begins(named(branch.as_deref(), node), "", event.time);
                if let Some(begun) = self.running.last_mut() {
                    begun.repeat = *repeat;
                }
            }
            EventKind::StageCompleted {
                node,
                branch,
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
                let name = named(branch.as_deref(), node);
                self.ends(&mark, &name, (*visit, *attempt), *duration, notes.as_deref());
            }
            EventKind::StageFailed {
                node,
                branch,
                visit,
                attempt,
                error,
                will_retry,
                duration,
                ..
            } => {
                let word = if *will_retry { " again" } else { "failed" };
                let mark = self.terminal.paint(Paint::Bad, word);
                let name = named(branch.as_deref(), node);
                self.ends(&mark, &name, (*visit, *attempt), *duration, Some(error));
            }
            EventKind::StageRetrying {
                node,
                branch,
                attempt,
                max_attempts,
                delay,
                ..
            } => {
                let name = named(branch.as_deref(), node);
                let delay = time(*delay);
                self.note(&format!(
                    "{name} again in {delay}, attempt {attempt} of {max_attempts}"
                ));
                self.begins(name, WAITS, event.time);
            }
            EventKind::StageCancelled {
                node,
                branch,
                visit,
                attempt,
                duration,
                ..
            } => {
                let mark = self.terminal.paint(Paint::Warn, "   cut");
                let name = named(branch.as_deref(), node);
                // The event that ended the question has shown the reason already.
                if self.over(&name).is_some_and(|over| over.doing == ASKS) {
                    return;
                }
                self.ends(&mark, &name, (*visit, *attempt), *duration, None);
            }
            EventKind::ParallelStarted {
                node,
                branch,
                branch_count,
                ..
            } => {
                let name = named(branch.as_deref(), node);
                // The branches show their own progress.
                self.over(&name);
                let noun = if *branch_count == 1 { "branch" } else { "branches" };
                self.note(&format!("{name}: {branch_count} {noun}"));
            }
            EventKind::ParallelBranchCompleted {
                branch,
                success: false,
                status,
                error,
                ..
            } => {
                let why = error
                    .as_deref()
                    .map_or_else(String::new, |error| format!(": {}", one_line(error)));
                self.note(&format!("{} {}{why}", bracketed(branch), status.word()));
            }
            EventKind::InterviewStarted { node, branch, .. } => {
                self.begins(named(branch.as_deref(), node), ASKS, event.time);
            }
            EventKind::InterviewCompleted { node, branch, .. } => {
                let name = format!("{}{}", self.inside, named(branch.as_deref(), node));
                let asking = self.running.iter_mut().filter(|running| running.name == name);
                asking.for_each(|running| running.doing = "");
            }
            EventKind::InterviewTimeout {
                node,
                branch,
                default,
                duration,
                ..
            } => {
                let name = named(branch.as_deref(), node);
                let then = match default {
                    Some(default) => format!("the default `{}` is taken", one_line(default)),
                    None => "there is no default".to_owned(),
                };
                self.note(&format!(
                    "{name}: nobody answered within {}, {then}",
                    time(*duration)
                ));
            }
            EventKind::GoalGateUnsatisfied { gate, .. } => {
                self.note(&format!("the goal gate `{gate}` is not satisfied"));
            }
            EventKind::PipelineRestarted { from, to, restart } => {
                let inside = &self.inside;
                self.running.retain(|running| !running.name.starts_with(inside));
                self.note(&format!("`{from}` restarts the run at `{to}`, restart {restart}"));
            }
            EventKind::EdgeSelected {
                branch,
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
                        |tested| {
                            let condition = format!("{}{}", tested.condition, values(tested));
                            match rule {
                                // The condition alone would not explain why the edge was taken.
                                Rule::Choice => format!("{}: {condition}", rule.describe()),
                                Rule::PartialAsSuccess => {
                                    format!("{condition}, with the partial success taken as a success")
                                }
                                _ => condition,
                            }
                        },
                    );
                let branch = branch
                    .as_deref()
                    .map_or_else(String::new, |branch| bracketed(branch) + " ");
                self.note(&format!("{branch}-> {to} ({why})"));
            }
            EventKind::SteeringRead {
                node,
                branch,
                instruction,
                ..
            } => {
                let name = named(branch.as_deref(), node);
                self.note(&format!(
                    "{name} reads its manager's instruction: {}",
                    one_line(instruction)
                ));
            }
            EventKind::StageLog { node, message } => self.note(&format!("{node}: {message}")),
            EventKind::PipelineWarning { message, .. } => {
                self.note(&format!("warning: {}", one_line(message)));
            }
            EventKind::StageWarning {
                node,
                branch,
                message,
                ..
            } => {
                let branch = branch
                    .as_deref()
                    .map_or_else(String::new, |branch| bracketed(branch) + " ");
                self.note(&format!("{branch}{node}: warning: {message}"));
            }
            _ => {}
        }
    }

    /// Shows the branches of the run below its title.
    pub(crate) fn works_on(&mut self, branches: Vec<String>) {
        match &mut self.branches {
            Some(waiting) => *waiting = branches,
            None => branches.iter().for_each(|branch| self.note(branch)),
        }
    }

    fn has_begun(&mut self) {
        for branch in self.branches.take().unwrap_or_default() {
            self.note(&branch);
        }
    }

    fn begins(&mut self, name: String, doing: &'static str, at: Timestamp) {
        let over = self.over(&name);
        let before = between(at, now());
        self.running.push(Running {
            repeat: over.is_some_and(|over| over.repeat),
            name: format!("{}{name}", self.inside),
            doing,
            since: Instant::now().checked_sub(before).unwrap_or_else(Instant::now),
        });
        self.tick();
    }

    /// Removes a stage from the live line.
    fn over(&mut self, name: &str) -> Option<Running> {
        let is = |running: &Running| running.name.strip_prefix(&*self.inside) == Some(name);
        let at = self.running.iter().position(is)?;
        Some(self.running.remove(at))
    }

    fn ends(
        &mut self,
        mark: &str,
        name: &str,
        (visit, attempt): (u32, u32),
        took: Duration,
        notes: Option<&str>,
    ) {
        let again = match self.over(name) {
            Some(Running { repeat: true, .. }) => ", repeated",
            _ => "",
        };
        let name = format!("{}{name}{}{again}", self.inside, self::attempt(visit, attempt));
        let notes = notes.map_or_else(String::new, |notes| format!("  {}", one_line(notes)));
        self.line(&format!(
            "{mark} {name:<24} {:>8}{}",
            time(took),
            self.terminal.paint(Paint::Dim, &notes)
        ));
    }

    /// Prints a line below that of a stage.
    pub(crate) fn note(&mut self, text: &str) {
        let text = self.terminal.paint(Paint::Dim, &format!("{}{text}", self.inside));
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
    pub(crate) fn spoken(&mut self, piece: &StageText) {
        let node = &*piece.node;
        if piece.starts_answer {
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
        if piece.starts_answer || self.speaking.as_deref() != Some(node) || !self.begun {
            self.end_line();
            let name = self.terminal.paint(Paint::Bold, &format!("    {node}: "));
            self.terminal.write(&name);
            self.speaking = Some(node.to_owned());
        }
        // Indent further lines below the first.
        self.terminal
            .write(&piece.text.replace("\r\n", "\n").replace('\n', "\n    "));
        self.begun = true;
    }

    /// Shows a line at once, even while output is held back.
    pub(crate) fn interject(&mut self, text: &str) {
        self.clear();
        self.end_line();
        self.terminal.progress(text);
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.begun) {
            self.terminal.write("\n");
        }
    }

    /// Updates the live line. Called at least once a second.
    pub(crate) fn tick(&mut self) {
        if !self.live || self.held.is_some() || self.begun || self.running.is_empty() {
            return;
        }
        let stages = self.running.iter().map(|running| {
            let since = time(Duration::from_secs(running.since.elapsed().as_secs()));
            format!("{}{} {since}", running.name, running.doing)
        });
        let text = live(&stages.collect::<Vec<_>>());
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
fn live(stages: &[String]) -> String {
    const WIDTH: usize = 78;
    let mut line = "   ...".to_owned();
    let mut taken = line.len();
    for (at, stage) in stages.iter().enumerate() {
        let more = stages.len() - at;
        // Reserve space for the number of stages that do not fit.
        let room = (WIDTH - " +9999".len()).saturating_sub(taken);
        let length = stage.chars().count() + 2;
        if at > 0 && length > room {
            line.push_str(&format!(" +{more}"));
            break;
        }
        line.push_str(if at > 0 { ", " } else { " " });
        line.extend(stage.chars().take(room));
        taken += length;
    }
    line
}

/// Returns the prefix for events of a child run: `supervise-1 > ` for the run `nightly-supervise-1` inside `nightly`.
/// Empty for the run itself.
fn inside(run: &RunId, of: &RunId) -> String {
    if run == of {
        return String::new();
    }
    let rest = of.strip_prefix(&**run).and_then(|rest| rest.strip_prefix('-'));
    format!("{} > ", rest.unwrap_or(of))
}

/// Returns the visit and the attempt of a stage, each unless it is the first.
pub(crate) fn attempt(visit: u32, attempt: u32) -> String {
    let parts = [("visit", visit), ("attempt", attempt)];
    let later = parts.into_iter().filter(|(_, number)| *number > 1);
    later.map(|(word, number)| format!(", {word} {number}")).collect()
}

/// Returns a stage with its branch. The stage is omitted if the branch is named after it.
pub(crate) fn named(branch: Option<&str>, node: &str) -> String {
    match branch {
        Some(branch) if branch.rsplit(':').next() == Some(node) => bracketed(branch),
        Some(branch) => format!("{} {node}", bracketed(branch)),
        None => node.to_owned(),
    }
}

/// Formats a branch such as `fan#1:left/inner#1:a` as `[left/a]`.
pub(crate) fn bracketed(branch: &str) -> String {
    let steps = branch.split('/');
    let names = steps.map(|step| step.split_once(':').map_or(step, |(_, name)| name));
    format!("[{}]", names.collect::<Vec<_>>().join("/"))
}

/// Returns the values that a condition saw, unless the condition text contains them.
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

/// Formats a duration in a suitable unit.
pub(crate) fn time(duration: Duration) -> String {
    match duration.as_millis() {
        0..1_000 => format!("{} ms", duration.as_millis()),
        1_000..60_000 => format!("{:.1} s", duration.as_secs_f64()),
        _ => format!("{}:{:02} min", duration.as_secs() / 60, duration.as_secs() % 60),
    }
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
            live(&stages(2)),
            "   ... [branch0] lint 3.0 s, [branch1] lint 3.0 s"
        );
        let many = live(&stages(30));
        assert!(
            many.ends_with("[branch1] lint 3.0 s, [branch2] lint 3.0 s +27"),
            "{many}"
        );
        let long = live(&["x".repeat(300), "y".to_owned()]);
        assert!(long.chars().count() <= 78 && long.ends_with(" +1"), "{long}");
    }

    #[test]
    fn a_child_is_named_by_what_it_adds_to_the_name_of_the_run() {
        let id = |id: &str| RunId::new(id).unwrap();
        assert_eq!(inside(&id("nightly"), &id("nightly")), "");
        assert_eq!(inside(&id("nightly"), &id("nightly-watch-1")), "watch-1 > ");
        assert_eq!(inside(&id("nightly"), &id("other")), "other > ");
    }

    #[test]
    fn a_branch_is_named_without_the_blocks_around_it() {
        assert_eq!(named(Some("fan#1:left/inner#2.3:a~2"), "lint"), "[left/a~2] lint");
        assert_eq!(named(Some("fan#1:lint"), "lint"), "[lint]");
        assert_eq!(named(None, "lint"), "lint");
    }
}
