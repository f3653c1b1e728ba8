//! The report at the end of a run.

use orchestra_engine::{RunFailure, RunFolder, RunResult, RunStatus, SystemError};
use orchestra_graph::Pipeline;
use orchestra_testkit::Coverage;
use serde::Serialize;

use crate::error::Exit;
use crate::questions::answers::how_to_answer;
use crate::report::branches::{BranchStates, WorkspaceReport};
use crate::runs::stopped::StoppedRun;
use crate::terminal::{Paint, Terminal};

/// The end of a run that this process executed.
pub(crate) struct FinalReport<'f> {
    pub(crate) pipeline: &'f Pipeline,
    pub(crate) terminal: &'f Terminal,
    pub(crate) stopped: StoppedRun<'f>,
}

/// The JSON form of the result.
#[derive(Serialize)]
struct JsonResult<'a> {
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

impl FinalReport<'_> {
    /// Prints the result as JSON object or as text, and the edge coverage of a simulation. Returns the exit code.
    pub(crate) fn print(&self, result: &RunResult, coverage: Option<&Coverage>) -> Exit {
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
            let json = JsonResult {
                workspace: workspace_report(result)
                    .map(|report| report.states())
                    .unwrap_or_default(),
                result,
                help: advice(result),
                resume: resume.as_deref(),
                retry: retry.as_deref(),
                replay: replay.as_deref(),
            };
            terminal.json_line(&serde_json::to_string(&json).unwrap_or_default());
        } else {
            self.print_text(result, coverage);
        }
        // The resume command is the last line on standard error.
        if let Some(command) = resume {
            terminal.message(&resume_line(terminal, &command));
        }
        if !terminal.json {
            if let Some(command) = replay {
                let command = terminal.paint(Paint::Bold, &command);
                terminal.progress(&format!("begin again from before it with: {command}"));
            }
            if let Some(command) = retry {
                let command = terminal.paint(Paint::Bold, &command);
                terminal.progress(&format!("retry with: {command}"));
            }
        }
        exit_code(result.status, result.failure.as_ref())
    }

    fn replay(&self, result: &RunResult) -> Option<String> {
        let failure = result.failure.as_ref();
        self.stopped
            .replay(failure.map(RunFailure::code), failure.and_then(RunFailure::node))
    }

    fn print_text(&self, result: &RunResult, coverage: Option<&Coverage>) {
        let terminal = self.terminal;
        terminal.progress("");
        if let Some(failure) = &result.failure {
            terminal.message(&format!("{}: {failure}", terminal.paint(Paint::Bad, "error")));
            if let RunFailure::WaitsForHuman { node, .. } = failure {
                terminal.message(&format!(
                    "  help: {}",
                    how_to_answer(self.pipeline, node, self.stopped.pending_question(node))
                ));
            }
            if let Some(advice) = advice(result) {
                terminal.message(&format!("  help: {advice}"));
            }
        }
        let path = result.path.join(" -> ");
        let (paint, word) = status_label(result.status);
        terminal.result(&format!("{}: {path}", terminal.paint_result(paint, word)));
        if let Some(coverage) = coverage {
            terminal.progress(&coverage.summary());
        }
        if let Some(report) = workspace_report(result) {
            let conflicts = result.context.get("workspace.conflicts");
            let paused = result.status == RunStatus::Paused;
            report.print(conflicts, paused, self.stopped.runs, terminal);
        }
        if let Some(folder) = &result.run_dir {
            let folder = self.stopped.runs.display_path(folder);
            terminal.progress(&terminal.paint(Paint::Dim, &format!("run folder: {folder}")));
        }
    }
}

/// Returns a hint on raising the system limit that a run exceeded.
fn advice(result: &RunResult) -> Option<&'static str> {
    SystemError::limit_in(&result.failure.as_ref()?.to_string())
}

/// Returns the state of a run's repositories.
fn workspace_report(result: &RunResult) -> Option<WorkspaceReport> {
    WorkspaceReport::from_folder(&RunFolder::open(result.run_dir.as_deref()?).ok()?)
}

/// Returns the line with the command that resumes a run.
pub(crate) fn resume_line(terminal: &Terminal, command: &str) -> String {
    format!("resume with: {}", terminal.paint(Paint::Bold, command))
}

/// Returns the name and the colour of a final status.
pub(crate) fn status_label(status: RunStatus) -> (Paint, &'static str) {
    match status {
        RunStatus::Success => (Paint::Good, "success"),
        RunStatus::Fail => (Paint::Bad, "failed"),
        RunStatus::Paused => (Paint::Warn, "paused"),
        _ => (Paint::Warn, "cancelled"),
    }
}

/// Returns the exit code for the end of a run.
pub(crate) fn exit_code(status: RunStatus, failure: Option<&RunFailure>) -> Exit {
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
            assert_eq!(exit_code(RunStatus::Paused, Some(&failure)), exit, "{failure}");
        }
        let cancelled = RunFailure::Cancelled { reason };
        assert_eq!(exit_code(RunStatus::Cancelled, Some(&cancelled)), Exit::Cancelled);
        assert_eq!(exit_code(RunStatus::Fail, None), Exit::RunFailed);
        assert_eq!(exit_code(RunStatus::Success, None), Exit::Ok);
    }
}
