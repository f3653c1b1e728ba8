//! How the end of a run is told, and how it can go on.

use std::path::{Path, PathBuf};

use orchestra_engine::{EventKind, RunEvent, RunFailure, RunFolder, RunHandle, RunResult, RunStatus};
use orchestra_graph::Pipeline;
use orchestra_testkit::Coverage;
use serde::Serialize;

use crate::answers::how_to_answer;
use crate::error::Exit;
use crate::runs::Runs;
use crate::terminal::{Paint, Terminal};

/// Where a run is kept, and the commands that deal with it.
pub(crate) struct Stopped<'s> {
    runs: &'s Runs,
    /// `None` where nothing is kept.
    folder: Option<PathBuf>,
}

impl<'s> Stopped<'s> {
    pub(crate) fn of(runs: &'s Runs, handle: &RunHandle) -> Stopped<'s> {
        Stopped::in_folder(runs, handle.run_dir())
    }

    pub(crate) fn in_folder(runs: &'s Runs, folder: Option<&Path>) -> Stopped<'s> {
        Stopped {
            runs,
            folder: folder.map(Path::to_owned),
        }
    }

    /// The command that goes on with the run.
    pub(crate) fn resume(&self) -> Option<String> {
        let folder = self.folder.as_deref()?;
        Some(self.runs.command("resume", folder, &[]))
    }

    /// The command that begins a run before what went wrong in this one: for which reason, as one word, and where.
    pub(crate) fn replay(&self, code: Option<&str>, node: Option<&str>) -> Option<String> {
        let folder = self.folder.as_deref()?;
        let checkpoint = checkpoint_before(&events(folder), code, node)?;
        Some(
            self.runs
                .command("replay", folder, &["--checkpoint", &checkpoint]),
        )
    }
}

fn events(folder: &Path) -> Vec<RunEvent> {
    let lines = RunFolder::open(folder).and_then(|run| run.events(1));
    let events = lines.unwrap_or_default().into_iter();
    // Events of a newer version have no checkpoint that this one could name.
    events
        .filter_map(|event| serde_json::from_value(event).ok())
        .collect()
}

/// The last checkpoint before the stage began at which the run ended. An end that is marked as a failure did as it was
/// told: there it is the stage that failed last.
fn checkpoint_before(events: &[RunEvent], code: Option<&str>, node: Option<&str>) -> Option<String> {
    let failed = || {
        events.iter().rev().find_map(|event| match &event.kind {
            EventKind::StageFailed {
                node,
                will_retry: false,
                ..
            } => Some(&**node),
            _ => None,
        })
    };
    let node = match code {
        Some("failure_end") => failed().or(node),
        _ => node,
    };
    let (mut latest, mut before) = (None, None);
    for event in events {
        match &event.kind {
            EventKind::PipelineStarted { .. } => latest = Some("cp_000000"),
            EventKind::PipelineResumed { checkpoint, .. } if latest.is_none() => latest = Some(checkpoint),
            EventKind::CheckpointSaved { checkpoint, .. } if !checkpoint.is_empty() => {
                latest = Some(checkpoint);
            }
            EventKind::StageStarted {
                node: begun,
                attempt: 1,
                repeat: false,
                ..
            } if node.is_none_or(|node| **begun == *node) => before = latest,
            _ => {}
        }
    }
    before.or(latest).map(str::to_owned)
}

/// The end of a run that this process executed.
pub(crate) struct Finish<'f> {
    pub(crate) pipeline: &'f Pipeline,
    pub(crate) terminal: &'f Terminal,
    pub(crate) stopped: Stopped<'f>,
}

/// The result as a program reads it.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    result: &'a RunResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<&'a str>,
}

impl Finish<'_> {
    /// Tells the result: an object last, or a line for people; before it or behind it, the edges that a simulation took.
    pub(crate) fn tell(&self, result: &RunResult, coverage: Option<&Coverage>) -> Exit {
        let terminal = self.terminal;
        let resume = match result.status {
            RunStatus::Paused => self.stopped.resume(),
            _ => None,
        };
        let replay = match result.status {
            RunStatus::Fail | RunStatus::Cancelled => self.replay(result),
            _ => None,
        };
        if terminal.json {
            if let Some(coverage) = coverage {
                terminal.result(&serde_json::to_string(coverage).unwrap_or_default());
            }
            let written = Written {
                result,
                resume: resume.as_deref(),
                replay: replay.as_deref(),
            };
            terminal.result(&serde_json::to_string(&written).unwrap_or_default());
        } else {
            self.tell_people(result, coverage);
        }
        // The last line of all.
        if let Some(command) = resume {
            terminal.say(&resume_line(terminal, &command));
        }
        if let Some(command) = replay.filter(|_| !terminal.json) {
            let command = terminal.paint(Paint::Bold, &command);
            terminal.progress(&format!("begin again from before it with: {command}"));
        }
        exit_of(result.status, result.failure.as_ref())
    }

    fn replay(&self, result: &RunResult) -> Option<String> {
        let failure = result.failure.as_ref();
        self.stopped
            .replay(failure.map(RunFailure::code), failure.and_then(RunFailure::node))
    }

    fn tell_people(&self, result: &RunResult, coverage: Option<&Coverage>) {
        let terminal = self.terminal;
        terminal.progress("");
        if let Some(failure) = &result.failure {
            terminal.say(&format!("{}: {failure}", terminal.paint(Paint::Bad, "error")));
            if let RunFailure::WaitsForHuman { node, .. } = failure {
                terminal.say(&format!("  help: {}", how_to_answer(self.pipeline, node)));
            }
        }
        let path = result.path.join(" -> ");
        let (paint, word) = verdict(result.status);
        terminal.result(&format!("{}: {path}", terminal.paint_result(paint, word)));
        if let Some(coverage) = coverage {
            terminal.progress(&coverage.summary());
        }
        if let Some(folder) = &result.run_dir {
            let folder = self.stopped.runs.shown(folder);
            terminal.progress(&terminal.paint(Paint::Dim, &format!("run folder: {folder}")));
        }
    }

    /// Tells that the run was given up by this process, without waiting for anything.
    pub(crate) fn at_once(&self) {
        let terminal = self.terminal;
        terminal.progress("stopped at once");
        if let Some(command) = self.stopped.resume() {
            terminal.say(&resume_line(terminal, &command));
        }
    }
}

/// The line that says how a run goes on.
pub(crate) fn resume_line(terminal: &Terminal, command: &str) -> String {
    format!("resume with: {}", terminal.paint(Paint::Bold, command))
}

/// The word for how a run ended, and its colour.
pub(crate) fn verdict(status: RunStatus) -> (Paint, &'static str) {
    match status {
        RunStatus::Success => (Paint::Good, "success"),
        RunStatus::Fail => (Paint::Bad, "failed"),
        RunStatus::Paused => (Paint::Warn, "paused"),
        _ => (Paint::Warn, "cancelled"),
    }
}

/// The exit code of a run that ended so.
pub(crate) fn exit_of(status: RunStatus, failure: Option<&RunFailure>) -> Exit {
    match (status, failure) {
        (RunStatus::Success, _) => Exit::Ok,
        (RunStatus::Fail, _) => Exit::RunFailed,
        (RunStatus::Paused, Some(RunFailure::WaitsForHuman { .. })) => Exit::WaitsForHuman,
        (RunStatus::Paused, Some(RunFailure::Budget { .. } | RunFailure::MaxTime { .. })) => Exit::Budget,
        _ => Exit::Cancelled,
    }
}
