//! `answer`, `pause` and `cancel`: control a run that another process executes, or that no process executes.

use std::path::Path;
use std::time::{Duration, Instant};

use orchestra_engine::{
    Answer, ControlClient, ControlError, OfflineError, Owner, PausedRun, RunFolder, RunResult, StartError,
};
use orchestra_workspace::GitWorkspace;
use serde_json::json;

use crate::args::{AnswerArgs, CancelArgs, PauseArgs};
use crate::entry::transforms;
use crate::error::{CliError, Exit};
use crate::finish::{Stopped, resume_line, verdict};
use crate::run_session::{run_error, start_error};
use crate::runs::Runs;
use crate::terminal::Terminal;

/// Maximum time to wait for the end of a stopped run; its tools have a grace period.
const END: Duration = Duration::from_secs(15);

/// Polling interval during this wait.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) fn answer(args: &AnswerArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let told = Told::new(Runs::new(&args.runs, program), &args.run, "answer", terminal)?;
    let answer = Answer::choice(&args.choice);
    match &told.owner {
        Some(_) => {
            told.asked(|client| client.answer(&args.gate, answer))?;
            told.done(&format!("the question of `{}` is answered", args.gate), None);
        }
        None => {
            let result = told.offline(async |run| run.answer(&args.gate, answer).await)?;
            told.done(
                &format!("the question of `{}` is answered", args.gate),
                Some(&result),
            );
        }
    }
    Ok(Exit::Ok)
}

pub(crate) fn pause(args: &PauseArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let told = Told::new(Runs::new(&args.runs, program), &args.run, "pause", terminal)?;
    if told.owner.is_none() {
        return Err(told.nobody());
    }
    told.asked(|client| client.pause(&args.reason))?;
    let words = if told.has_stopped() {
        "the run is paused"
    } else {
        "the run is told to pause; some of its stages are not over yet"
    };
    told.done(words, None);
    told.resume_line();
    Ok(Exit::Ok)
}

pub(crate) fn cancel(args: &CancelArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let told = Told::new(Runs::new(&args.runs, program), &args.run, "cancel", terminal)?;
    match &told.owner {
        Some(_) => {
            told.asked(|client| client.cancel(&args.reason))?;
            let words = if told.has_stopped() {
                "the run is cancelled"
            } else {
                "the run is told to end; some of its stages are not over yet"
            };
            told.done(words, None);
        }
        None => {
            let result = told.offline(async |run| run.cancel(&args.reason).await)?;
            told.done("the run is cancelled", Some(&result));
        }
    }
    Ok(Exit::Ok)
}

/// A run that receives a control command.
struct Told<'t> {
    runs: Runs,
    run: RunFolder,
    owner: Option<Owner>,
    action: &'static str,
    terminal: &'t Terminal,
}

impl<'t> Told<'t> {
    fn new(
        runs: Runs,
        name: &str,
        action: &'static str,
        terminal: &'t Terminal,
    ) -> Result<Told<'t>, CliError> {
        let run = RunFolder::open(runs.find(name)?)?;
        let owner = run.owner()?;
        Ok(Told {
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
    fn asked(&self, ask: impl FnOnce(&ControlClient) -> Result<(), ControlError>) -> Result<(), CliError> {
        let asked = ControlClient::open(self.folder()).and_then(|client| ask(&client));
        asked.map_err(|error| {
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
        let mut run = PausedRun::open(self.folder())?.transforms(transforms());
        if let Some(kept) = &self.run.manifest().workspace {
            let workspace = GitWorkspace::of_run(kept);
            run = run.workspace(workspace.map_err(|error| {
                start_error(&StartError::Workspace(error), &self.runs, Some(self.folder()))
            })?);
        }
        let runtime = crate::runtime::runtime()?;
        runtime.block_on(act(run)).map_err(|error| match &error {
            OfflineError::Start(error) => start_error(error, &self.runs, Some(self.folder())),
            OfflineError::Run(error) => run_error(error, &self.stopped()),
            OfflineError::Answer(answer) => {
                CliError::usage(answer.code(), format!("{error}; nobody executes the run"))
            }
            _ => CliError::usage("engine", error.to_string()),
        })
    }

    /// Waits until the run has stopped, which takes as long as its stages need to end.
    fn has_stopped(&self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < END {
            if let Ok(None) = self.run.owner() {
                return true;
            }
            std::thread::sleep(LOOK);
        }
        false
    }

    /// Prints the success of the command, and its result if this process performed it.
    fn done(&self, words: &str, result: Option<&RunResult>) {
        let run = &self.run.manifest().run;
        let resume = self.stopped().resume();
        let paused = result.is_some_and(|result| result.status == orchestra_engine::RunStatus::Paused);
        if self.terminal.json {
            let pid = self.owner.as_ref().map(|owner| owner.pid);
            self.terminal.object(&json!({
                "schema": "orchestra.control_result/1", "action": self.action, "run": run, "done_by": pid,
                "status": result.map(|result| result.status.word()),
                "resume": resume.as_ref().filter(|_| paused),
            }));
        } else {
            self.terminal.result(&format!("{run}: {words}"));
        }
        let Some(result) = result else {
            return;
        };
        if let Some(command) = resume.filter(|_| paused) {
            self.terminal
                .progress("nobody executes the run, so it stays paused");
            self.terminal.say(&resume_line(self.terminal, &command));
        } else if !self.terminal.json {
            let (paint, word) = verdict(result.status);
            let word = self.terminal.paint(paint, word);
            self.terminal
                .progress(&format!("{word}: {}", result.path.join(" -> ")));
        }
    }

    fn resume_line(&self) {
        if let Some(command) = self.stopped().resume() {
            self.terminal.say(&resume_line(self.terminal, &command));
        }
    }

    /// Returns the error for a pause of a run that no process executes.
    fn nobody(&self) -> CliError {
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

    fn stopped(&self) -> Stopped<'_> {
        Stopped::in_folder(&self.runs, Some(self.folder()))
    }
}
