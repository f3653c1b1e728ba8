//! The report at the end of a run, and the commands that resume, retry or replay it.

use std::path::{Path, PathBuf};

use orchestra_engine::{
    Durability, EventKind, Question, RunEvent, RunFailure, RunFolder, RunHandle, RunResult, RunStatus,
    SystemError,
};
use orchestra_graph::Pipeline;
use orchestra_testkit::Coverage;
use serde::Serialize;

use crate::answers::how_to_answer;
use crate::error::Exit;
use crate::runs::Runs;
use crate::terminal::{Paint, Terminal};
use crate::waiting::Waiting;
use crate::workspace::{BranchStates, Left};

/// A stopped run: its folder, and the commands for it.
pub(crate) struct Stopped<'s> {
    runs: &'s Runs,
    /// `None` if the run is not stored.
    folder: Option<PathBuf>,
}

impl<'s> Stopped<'s> {
    pub(crate) fn new(runs: &'s Runs, handle: &RunHandle) -> Stopped<'s> {
        Stopped::in_folder(runs, handle.run_dir())
    }

    pub(crate) fn in_folder(runs: &'s Runs, folder: Option<&Path>) -> Stopped<'s> {
        Stopped {
            runs,
            folder: folder.map(Path::to_owned),
        }
    }

    /// Returns the command that resumes the run.
    pub(crate) fn resume(&self) -> Option<String> {
        let folder = self.folder.as_deref()?;
        Some(self.runs.command("resume", folder, &[]))
    }

    /// Returns the command that retries the run after a failure with this code (rule D9).
    pub(crate) fn retry(&self, code: Option<&str>) -> Option<String> {
        let folder = self.folder.as_deref()?;
        let options: &[&str] = match code {
            Some(code) if NEEDS_CHANGE.contains(&code) => &["--retry", "--accept-changes"],
            _ => &["--retry"],
        };
        Some(self.runs.command("resume", folder, options))
    }

    /// Returns the command that replays the run from before its failure, which is given by its code and its node.
    pub(crate) fn replay(&self, code: Option<&str>, node: Option<&str>) -> Option<String> {
        let folder = self.folder.as_deref()?;
        let run = RunFolder::open(folder).ok()?;
        // Without a journal there is no checkpoint to replay from.
        let journal = run.manifest().durability != Durability::None;
        let checkpoint = journal
            .then(|| checkpoint_before(|visit| visit_known(&run, &BEFORE, visit), code, node))
            .flatten()?;
        Some(
            self.runs
                .command("replay", folder, &["--checkpoint", &checkpoint]),
        )
    }

    /// Returns the question of a waiting gate as it was asked.
    fn asked(&self, gate: &str) -> Option<Question> {
        let run = RunFolder::open(self.folder.as_deref()?).ok()?;
        let mut waiting = Waiting::default();
        run.each_event(|line| waiting.line(line)).ok()?;
        let mut open = waiting.iter().filter(|open| open.node == gate);
        open.next().map(|open| open.question.clone())
    }
}

/// Visits the events of a run that have one of these names.
fn visit_known(run: &RunFolder, names: &[&str], visit: &mut dyn FnMut(&RunEvent)) {
    // Lines that cannot be read are skipped.
    let _ = run.each_event(|line| {
        if line.name().is_some_and(|name| names.contains(&name))
            && let Some(event) = line.event()
        {
            visit(&event);
        }
    });
}

/// The events that determine where a run can be replayed from.
const BEFORE: [&str; 8] = [
    "PipelineStarted",
    "PipelineResumed",
    "CheckpointSaved",
    "PipelineCompleted",
    "PipelineFailed",
    "PipelineCancelled",
    "StageStarted",
    "StageFailed",
];

/// The failures that a retry repeats until the pipeline is changed.
const NEEDS_CHANGE: [&str; 6] = [
    "no_matching_edge",
    "dead_end",
    "circular_pipeline",
    "max_restarts",
    "branch_reentry",
    "invalid_transition",
];

/// Returns the last checkpoint before the start of the stage at which the run ended. If the run reached an exit that is
/// marked as a failure, returns the checkpoint before the stage that failed last.
fn checkpoint_before(
    events: impl Fn(&mut dyn FnMut(&RunEvent)),
    code: Option<&str>,
    node: Option<&str>,
) -> Option<String> {
    let mut failed = None;
    if code == Some("failure_end") {
        events(&mut |event| {
            if let EventKind::StageFailed {
                node,
                will_retry: false,
                ..
            } = &event.kind
            {
                failed = Some(node.to_string());
            }
        });
    }
    let node = failed.as_deref().or(node);
    let (mut points, mut before): (Vec<String>, _) = (Vec::new(), None);
    events(&mut |event| match &event.kind {
        EventKind::PipelineStarted { .. } => points.push("cp_000000".to_owned()),
        EventKind::PipelineResumed { checkpoint, .. } if points.is_empty() => points.push(checkpoint.clone()),
        EventKind::CheckpointSaved { checkpoint, .. }
            if !checkpoint.is_empty() && points.last() != Some(checkpoint) =>
        {
            points.push(checkpoint.clone());
        }
        // Nothing remains to do at the point where the run ended, even if it was retried later.
        EventKind::PipelineCompleted { .. }
        | EventKind::PipelineFailed { .. }
        | EventKind::PipelineCancelled { .. } => drop(points.pop()),
        EventKind::StageStarted {
            node: begun,
            attempt: 1,
            repeat: false,
            ..
        } if node.is_none_or(|node| **begun == *node) => before = points.last().cloned(),
        _ => {}
    });
    before.or(points.pop())
}

/// The end of a run that this process executed.
pub(crate) struct Finish<'f> {
    pub(crate) pipeline: &'f Pipeline,
    pub(crate) terminal: &'f Terminal,
    pub(crate) stopped: Stopped<'f>,
}

/// The JSON form of the result.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    result: &'a RunResult,
    /// A hint on raising the limit that the run exceeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<&'a str>,
    #[serde(skip_serializing_if = "BranchStates::is_empty")]
    workspace: BranchStates,
}

impl Finish<'_> {
    /// Prints the result as JSON object or as text, and the edge coverage of a simulation. Returns the exit code.
    pub(crate) fn tell(&self, result: &RunResult, coverage: Option<&Coverage>) -> Exit {
        let terminal = self.terminal;
        let resume = match result.status {
            RunStatus::Paused => self.stopped.resume(),
            _ => None,
        };
        let code = result.failure.as_ref().map(RunFailure::code);
        let retry = match result.status {
            RunStatus::Fail => self.stopped.retry(code),
            _ => None,
        };
        let replay = match result.status {
            RunStatus::Fail | RunStatus::Cancelled => self.replay(result),
            _ => None,
        };
        if terminal.json {
            if let Some(coverage) = coverage {
                terminal.json_line(&serde_json::to_string(coverage).unwrap_or_default());
            }
            let written = Written {
                workspace: left(result).map(|left| left.states()).unwrap_or_default(),
                result,
                help: advice(result),
                resume: resume.as_deref(),
                retry: retry.as_deref(),
                replay: replay.as_deref(),
            };
            terminal.json_line(&serde_json::to_string(&written).unwrap_or_default());
        } else {
            self.tell_people(result, coverage);
        }
        // The resume command is the last line on standard error.
        if let Some(command) = resume {
            terminal.say(&resume_line(terminal, &command));
        }
        if let Some(command) = replay.filter(|_| !terminal.json) {
            let command = terminal.paint(Paint::Bold, &command);
            terminal.progress(&format!("begin again from before it with: {command}"));
        }
        if let Some(command) = retry.filter(|_| !terminal.json) {
            let command = terminal.paint(Paint::Bold, &command);
            terminal.progress(&format!("retry with: {command}"));
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
                terminal.say(&format!(
                    "  help: {}",
                    how_to_answer(self.pipeline, node, self.stopped.asked(node))
                ));
            }
            if let Some(advice) = advice(result) {
                terminal.say(&format!("  help: {advice}"));
            }
        }
        let path = result.path.join(" -> ");
        let (paint, word) = verdict(result.status);
        terminal.result(&format!("{}: {path}", terminal.paint_result(paint, word)));
        if let Some(coverage) = coverage {
            terminal.progress(&coverage.summary());
        }
        if let Some(left) = left(result) {
            let conflicts = result.context.get("workspace.conflicts");
            let paused = result.status == RunStatus::Paused;
            left.tell(conflicts, paused, self.stopped.runs, terminal);
        }
        if let Some(folder) = &result.run_dir {
            let folder = self.stopped.runs.shown(folder);
            terminal.progress(&terminal.paint(Paint::Dim, &format!("run folder: {folder}")));
        }
    }
}

/// Returns a hint on raising the system limit that a run exceeded.
fn advice(result: &RunResult) -> Option<&'static str> {
    SystemError::limit_in(&result.failure.as_ref()?.to_string())
}

/// Returns the state of a run's repositories.
fn left(result: &RunResult) -> Option<Left> {
    Left::from_folder(&RunFolder::open(result.run_dir.as_deref()?).ok()?)
}

/// Returns the line with the command that resumes a run.
pub(crate) fn resume_line(terminal: &Terminal, command: &str) -> String {
    format!("resume with: {}", terminal.paint(Paint::Bold, command))
}

/// Returns the name and the colour of a final status.
pub(crate) fn verdict(status: RunStatus) -> (Paint, &'static str) {
    match status {
        RunStatus::Success => (Paint::Good, "success"),
        RunStatus::Fail => (Paint::Bad, "failed"),
        RunStatus::Paused => (Paint::Warn, "paused"),
        _ => (Paint::Warn, "cancelled"),
    }
}

/// Returns the exit code for the end of a run.
pub(crate) fn exit_of(status: RunStatus, failure: Option<&RunFailure>) -> Exit {
    match (status, failure) {
        (RunStatus::Success, _) => Exit::Ok,
        (RunStatus::Fail, _) => Exit::RunFailed,
        (RunStatus::Paused, Some(RunFailure::WaitsForHuman { .. })) => Exit::WaitsForHuman,
        (RunStatus::Paused, Some(RunFailure::Budget { .. } | RunFailure::MaxTime { .. })) => Exit::Budget,
        _ => Exit::Cancelled,
    }
}

#[cfg(test)]
mod tests {
    use orchestra_engine::{Budget, Usage};

    use super::*;

    #[test]
    fn each_way_to_stop_has_its_exit_code() {
        let (budget, used) = (Budget::default(), Usage::default());
        let (node, reason) = (String::new(), String::new());
        let paused = [
            (RunFailure::Budget { budget, used }, Exit::Budget),
            (
                RunFailure::MaxTime {
                    limit: std::time::Duration::ZERO,
                },
                Exit::Budget,
            ),
            (
                RunFailure::WaitsForHuman {
                    node,
                    reason: reason.clone(),
                },
                Exit::WaitsForHuman,
            ),
            (
                RunFailure::Paused {
                    reason: reason.clone(),
                },
                Exit::Cancelled,
            ),
        ];
        for (failure, exit) in paused {
            assert_eq!(exit_of(RunStatus::Paused, Some(&failure)), exit, "{failure}");
        }
        let cancelled = RunFailure::Cancelled { reason };
        assert_eq!(exit_of(RunStatus::Cancelled, Some(&cancelled)), Exit::Cancelled);
        assert_eq!(exit_of(RunStatus::Fail, None), Exit::RunFailed);
        assert_eq!(exit_of(RunStatus::Success, None), Exit::Ok);
    }

    fn event(seq: u64, fields: &str) -> RunEvent {
        let head =
            format!(r#"{{"schema":"orchestra.event/1","seq":{seq},"time":"2026-11-21T15:30:00Z","run":"r","#);
        RunEvent::from_json(format!("{head}{fields}}}").as_bytes()).unwrap()
    }

    fn began(seq: u64, node: &str) -> RunEvent {
        event(
            seq,
            &format!(r#""event":"StageStarted","node":"{node}","index":1,"visit":1,"attempt":1"#),
        )
    }

    fn saved(seq: u64, node: &str, checkpoint: &str) -> RunEvent {
        let fields = format!(r#""event":"CheckpointSaved","node":"{node}","checkpoint":"{checkpoint}""#);
        event(seq, &fields)
    }

    #[test]
    fn one_goes_back_to_before_the_stage_that_went_wrong() {
        let failed = r#""event":"StageFailed","node":"test","index":1,"visit":1,"attempt":1,"error":"no","category":"retryable","will_retry":false,"duration_ms":1"#;
        let events = [
            event(1, r#""event":"PipelineStarted","name":"p","goal":"""#),
            saved(2, "start", "cp_000000"),
            began(3, "build"),
            saved(4, "build", "cp_000001"),
            began(5, "test"),
            event(6, failed),
            saved(7, "test", "cp_000002"),
            began(8, "mend"),
        ];
        let each = |visit: &mut dyn FnMut(&RunEvent)| events.iter().for_each(visit);
        let before = |code, node| checkpoint_before(each, code, node);
        assert_eq!(
            before(Some("stage_failed"), Some("build")).as_deref(),
            Some("cp_000000")
        );
        // The failure end itself did not fail.
        assert_eq!(
            before(Some("failure_end"), Some("mend")).as_deref(),
            Some("cp_000001")
        );
        assert_eq!(
            before(Some("dead_end"), Some("mend")).as_deref(),
            Some("cp_000002")
        );
        assert_eq!(before(Some("cancelled"), None).as_deref(), Some("cp_000002"));
        assert_eq!(checkpoint_before(|_| (), None, None), None);
    }
}
