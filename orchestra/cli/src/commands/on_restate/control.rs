//! `answer`, `pause` and `cancel` of runs on a Restate server.

use std::time::Duration;

use orchestra_engine::{Answer, AnswerError, RunId};
use orchestra_restate::{Phase, RemoteStatus};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::server_runs::ServerRuns;
use crate::args::{AnswerArgs, CancelArgs, PauseArgs};
use crate::error::{CliError, Exit};
use crate::report::finish::resume_line;
use crate::terminal::Terminal;

/// Maximum time to wait for the end of a stopped run; its tools have a grace period.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// Polling interval during this wait.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn answer(
    args: &AnswerArgs,
    on: &str,
    program: &str,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let runs = ServerRuns::new(on, &args.server, &args.runs, program)?;
    let run = ControlledRun::new(runs, &args.run, "answer", terminal)?;
    crate::runs::runtime::runtime()?.block_on(async {
        let status = run.status().await?;
        let mut open = status.questions.iter();
        let asked = open.find(|question| question.id == args.gate || question.node == args.gate);
        let Some(question) = asked else {
            return Err(run.no_question(&args.gate, &status));
        };
        let answered = run
            .runs
            .client
            .answer(&run.id, &question.id, Answer::choice(&args.choice))
            .await;
        answered.map_err(|error| run.runs.error(&error))?;
        run.print_success(&format!("the question of `{}` is answered", args.gate));
        if let Phase::Paused(_) = status.phase {
            terminal.progress("the run is paused, and stays so");
            run.resume_line();
        }
        Ok(Exit::Ok)
    })
}

pub(super) fn pause(
    args: &PauseArgs,
    on: &str,
    program: &str,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let runs = ServerRuns::new(on, &args.server, &args.runs, program)?;
    let run = ControlledRun::new(runs, &args.run, "pause", terminal)?;
    crate::runs::runtime::runtime()?.block_on(async {
        if let Phase::Paused(failure) = run.status().await?.phase {
            let message = format!("run `{}` is paused already: {failure}", run.id);
            let command = run.runs.command("resume", &run.id, &[]);
            return Err(CliError::usage("not_executed", message).help(format!("go on with it: `{command}`")));
        }
        let paused = run.runs.client.pause(&run.id, &args.reason).await;
        paused.map_err(|error| run.runs.error(&error))?;
        run.print_success(if run.wait_until_stopped().await {
            "the run is paused"
        } else {
            "the run is pausing; some of its stages have not ended yet"
        });
        run.resume_line();
        Ok(Exit::Ok)
    })
}

pub(super) fn cancel(
    args: &CancelArgs,
    on: &str,
    program: &str,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let runs = ServerRuns::new(on, &args.server, &args.runs, program)?;
    let run = ControlledRun::new(runs, &args.run, "cancel", terminal)?;
    crate::runs::runtime::runtime()?.block_on(async {
        let cancelled = run.runs.client.cancel(&run.id, &args.reason).await;
        cancelled.map_err(|error| run.runs.error(&error))?;
        run.print_success(if run.wait_until_stopped().await {
            "the run is cancelled"
        } else {
            "the run is being cancelled; some of its stages have not ended yet"
        });
        Ok(Exit::Ok)
    })
}

/// A run that receives a control command.
struct ControlledRun<'t> {
    runs: ServerRuns,
    id: RunId,
    action: &'static str,
    terminal: &'t Terminal,
}

impl<'t> ControlledRun<'t> {
    fn new(
        runs: ServerRuns,
        name: &str,
        action: &'static str,
        terminal: &'t Terminal,
    ) -> Result<ControlledRun<'t>, CliError> {
        let id = runs.id(name)?;
        Ok(ControlledRun {
            runs,
            id,
            action,
            terminal,
        })
    }

    async fn status(&self) -> Result<RemoteStatus, CliError> {
        let status = self.runs.client.status(&self.id).await;
        status.map_err(|error| self.runs.error(&error))
    }

    /// Waits until the run has stopped, which takes as long as its stages need to end. Returns whether it has.
    async fn wait_until_stopped(&self) -> bool {
        let start = Instant::now();
        while start.elapsed() < STOP_TIMEOUT {
            if let Ok(status) = self.runs.client.status(&self.id).await
                && status.phase != Phase::Running
                && status.stages.is_empty()
            {
                return true;
            }
            sleep(POLL_INTERVAL).await;
        }
        false
    }

    fn no_question(&self, gate: &str, status: &RemoteStatus) -> CliError {
        if let Phase::Ended(failure) = &status.phase {
            let how = failure
                .as_ref()
                .map_or_else(|| "success".to_owned(), ToString::to_string);
            return CliError::usage("no_question", format!("run `{}` has ended: {how}", self.id));
        }
        let open = status.questions.iter();
        let error = AnswerError::NoQuestion {
            gate: gate.to_owned(),
            open: open.map(|question| question.node.clone()).collect(),
        };
        CliError::usage(error.code(), error.to_string())
    }

    fn print_success(&self, words: &str) {
        let id = &self.id;
        if self.terminal.json {
            self.terminal.object(&json!({
                "schema": "orchestra.control_result/1", "action": self.action, "run": id, "done_by": null,
                "status": null, "resume": null, "server": self.runs.client.url(),
            }));
        } else {
            self.terminal.result(&format!("{id}: {words}"));
        }
    }

    fn resume_line(&self) {
        let command = self.runs.command("resume", &self.id, &[]);
        self.terminal.message(&resume_line(self.terminal, &command));
    }
}
