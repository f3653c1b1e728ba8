//! `answer`, `pause` and `cancel`: control a run that another process executes, or that no process executes.

use std::path::Path;
use std::time::{Duration, Instant};

use orchestra_engine::{
    Answer, AnswerError, ControlClient, ControlError, OfflineError, Owner, PausedRun, RunFolder, RunResult,
    RunStatus, StartError,
};
use orchestra_workspace::GitWorkspace;
use serde_json::json;

use crate::args::{AnswerArgs, CancelArgs, PauseArgs};
use crate::error::{CliError, Exit};
use crate::project::pipelines::run_transforms;
use crate::report::finish::{resume_line, status_label};
use crate::runs::Runs;
use crate::runs::errors::{run_error, start_error};
use crate::runs::stopped::StoppedRun;
use crate::terminal::Terminal;

/// Maximum time to wait for the end of a stopped run; its tools have a grace period.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum time to wait for another command that changes a run which no process executes.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// Polling interval during these waits.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) fn answer(args: &AnswerArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    after_other_commands(|| answer_now(args, program, terminal))
}

fn answer_now(args: &AnswerArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let run = ControlledRun::new(Runs::new(&args.runs, program), &args.run, "answer", terminal)?;
    let answer = Answer::choice(&args.choice);
    match &run.owner {
        Some(_) => {
            run.send(|client| client.answer(&args.gate, answer))?;
            run.print_success(&format!("the question of `{}` is answered", args.gate), None);
        }
        None => {
            let result = run.offline(async |run| run.answer(&args.gate, answer).await)?;
            run.print_success(
                &format!("the question of `{}` is answered", args.gate),
                Some(&result),
            );
        }
    }
    Ok(Exit::Ok)
}

pub(crate) fn pause(args: &PauseArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let run = ControlledRun::new(Runs::new(&args.runs, program), &args.run, "pause", terminal)?;
    if run.owner.is_none() {
        return Err(run.not_executed());
    }
    run.send(|client| client.pause(&args.reason))?;
    let words = if run.wait_until_stopped() {
        "the run is paused"
    } else {
        "the run is pausing; some of its stages have not ended yet"
    };
    run.print_success(words, None);
    run.resume_line();
    Ok(Exit::Ok)
}

pub(crate) fn cancel(args: &CancelArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    after_other_commands(|| cancel_now(args, program, terminal))
}

fn cancel_now(args: &CancelArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let run = ControlledRun::new(Runs::new(&args.runs, program), &args.run, "cancel", terminal)?;
    match &run.owner {
        Some(_) => {
            run.send(|client| client.cancel(&args.reason))?;
            let words = if run.wait_until_stopped() {
                "the run is cancelled"
            } else {
                "the run is being cancelled; some of its stages have not ended yet"
            };
            run.print_success(words, None);
        }
        None => {
            let result = run.offline(async |run| run.cancel(&args.reason).await)?;
            run.print_success("the run is cancelled", Some(&result));
        }
    }
    Ok(Exit::Ok)
}

/// Executes a command again while another one owns the run for a moment, such as the answer to another gate.
fn after_other_commands(mut command: impl FnMut() -> Result<Exit, CliError>) -> Result<Exit, CliError> {
    let start = Instant::now();
    // The other command owns the run when this one opens it, or has just ended when this one asks it.
    let is_other = |error: &CliError| ["store_owned", "control_not_executed"].contains(&&*error.code);
    loop {
        match command() {
            Err(error) if is_other(&error) && start.elapsed() < COMMAND_TIMEOUT => {
                std::thread::sleep(POLL_INTERVAL);
            }
            ended => return ended,
        }
    }
}

/// Opens a run that no process executes, with its workspace.
pub(super) fn paused_run(run: &RunFolder) -> Result<PausedRun, StartError> {
    let paused = PausedRun::open(run.path())?.transforms(run_transforms());
    Ok(match &run.manifest().workspace {
        Some(kept) => paused.workspace(GitWorkspace::of_run(kept)?),
        None => paused,
    })
}

/// A run that receives a control command.
struct ControlledRun<'t> {
    runs: Runs,
    run: RunFolder,
    owner: Option<Owner>,
    action: &'static str,
    terminal: &'t Terminal,
}

impl<'t> ControlledRun<'t> {
    fn new(
        runs: Runs,
        name: &str,
        action: &'static str,
        terminal: &'t Terminal,
    ) -> Result<ControlledRun<'t>, CliError> {
        let run = RunFolder::open(runs.find(name)?)?;
        let owner = run.owner()?;
        Ok(ControlledRun {
            runs,
            run,
            owner,
            action,
            terminal,
        })
    }

    fn folder(&self) -> &Path {
        self.run.path()
    }

    /// Sends a request to the process that executes the run.
    fn send(&self, request: impl FnOnce(&ControlClient) -> Result<(), ControlError>) -> Result<(), CliError> {
        let sent = ControlClient::open(self.folder()).and_then(|client| request(&client));
        sent.map_err(|error| {
            let converted = CliError::usage("control", error.to_string());
            let converted = CliError {
                code: error.code().to_owned().into(),
                ..converted
            };
            match (&error, &self.owner) {
                (ControlError::Unanswered { .. }, Some(owner)) => converted.exit(Exit::RunFailed).help(
                    format!("it is owned by {owner}, which may hang: `resume --take-over` takes it away"),
                ),
                (ControlError::Refused(_) | ControlError::NoRun { .. }, _) => converted,
                _ => converted.exit(Exit::RunFailed),
            }
        })
    }

    /// Performs the command in this process, because no process executes the run.
    fn offline(
        &self,
        act: impl AsyncFnOnce(PausedRun) -> Result<RunResult, OfflineError>,
    ) -> Result<RunResult, CliError> {
        let run =
            paused_run(&self.run).map_err(|error| start_error(&error, &self.runs, Some(self.folder())))?;
        let runtime = crate::runs::runtime::runtime()?;
        runtime.block_on(act(run)).map_err(|error| match &error {
            OfflineError::Start(error) => start_error(error, &self.runs, Some(self.folder())),
            OfflineError::Run(error) => run_error(error, &self.stopped()),
            OfflineError::Answer(answer @ AnswerError::OfChild { gate, .. }) => {
                let command = format!("resume {} --answer {gate}=CHOICE", self.run.manifest().run);
                CliError::usage(answer.code(), error.to_string()).help(format!("`{command}` does both"))
            }
            OfflineError::Answer(answer) => {
                let converted = CliError::usage(answer.code(), format!("{error}; nobody executes the run"));
                match (answer, self.stopped().resume()) {
                    (AnswerError::NoQuestion { .. }, Some(resume)) => {
                        converted.help(format!("if it has its answer, go on with `{resume}`"))
                    }
                    _ => converted,
                }
            }
            _ => CliError::usage("engine", error.to_string()),
        })
    }

    /// Waits until the run has stopped, which takes as long as its stages need to end. Returns whether it has.
    fn wait_until_stopped(&self) -> bool {
        let start = Instant::now();
        while start.elapsed() < STOP_TIMEOUT {
            if let Ok(None) = self.run.owner() {
                return true;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        false
    }

    /// Prints the success of the command, and its result if this process performed it.
    fn print_success(&self, words: &str, result: Option<&RunResult>) {
        let run = &self.run.manifest().run;
        let resume = match result {
            Some(result) if result.status == RunStatus::Paused => self.stopped().resume(),
            _ => None,
        };
        if self.terminal.json {
            let pid = self.owner.as_ref().map(|owner| owner.pid);
            self.terminal.object(&json!({
                "schema": "orchestra.control_result/1", "action": self.action, "run": run, "done_by": pid,
                "status": result.map(|result| result.status.word()),
                "resume": resume,
            }));
        } else {
            self.terminal.result(&format!("{run}: {words}"));
        }
        let Some(result) = result else {
            return;
        };
        if let Some(command) = resume {
            self.terminal
                .progress("nobody executes the run, so it stays paused");
            self.terminal.message(&resume_line(self.terminal, &command));
        } else if !self.terminal.json {
            let (paint, word) = status_label(result.status);
            let word = self.terminal.paint(paint, word);
            self.terminal
                .progress(&format!("{word}: {}", result.path.join(" -> ")));
        }
    }

    fn resume_line(&self) {
        if let Some(command) = self.stopped().resume() {
            self.terminal.message(&resume_line(self.terminal, &command));
        }
    }

    /// Returns the error for a pause of a run that no process executes.
    fn not_executed(&self) -> CliError {
        let status = self
            .run
            .checkpoint()
            .ok()
            .flatten()
            .map(|checkpoint| checkpoint.status);
        let run = &self.run.manifest().run;
        let (message, help) = match status.as_deref() {
            Some(status @ ("success" | "fail" | "cancelled")) => {
                (format!("run `{run}` has ended: {status}"), None)
            }
            _ => (
                format!("no process executes run `{run}`, so it stands still already"),
                self.stopped().resume(),
            ),
        };
        let error = CliError::usage("not_executed", message);
        match help {
            Some(command) => error.help(format!("go on with it: `{command}`")),
            None => error,
        }
    }

    fn stopped(&self) -> StoppedRun<'_> {
        StoppedRun::in_folder(&self.runs, Some(self.folder()))
    }
}
