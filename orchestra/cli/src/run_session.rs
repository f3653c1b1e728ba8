//! A run that this process executes: showing it, pausing it on signals, and waiting for its end.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{
    Canceller, Durability, Engine, RunError, RunEvent, RunFailure, RunFolder, RunHandle, RunResult, Script,
    SharedPipeline, StartError, StoreError,
};
use orchestra_testkit::Coverage;

use crate::Entry;
use crate::agents::{ProjectAgents, secrets_of_environment};
use crate::answers::{AnswerCommand, Answers, given};
use crate::args::AnswerOptions;
use crate::console::Console;
use crate::entry::{Begin, begin_loaded};
use crate::error::{CliError, Exit};
use crate::finish::{Finish, Stopped};
use crate::listing::{EventForwarder, Listing};
use crate::progress::Shown;
use crate::runs::Runs;
use crate::signals::Signals;
use crate::terminal::Terminal;
use crate::workspace::{Kept, Repositories};

/// The reason of a pause by a signal.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// Maximum time that an interrupted run may take to start, so that it can be paused.
const BEGINNING: Duration = Duration::from_secs(2);

/// A run that is about to start, or to be resumed.
pub(crate) struct RunSession<'s> {
    pub(crate) pipeline: SharedPipeline,
    /// The compiled pipeline, if the run has one.
    pub(crate) entry: Option<&'s Entry>,
    pub(crate) begin: Begin,
    /// The outcomes of simulated stages; `None` if all stages are executed.
    pub(crate) script: Option<Script>,
    /// The project and its agents; `None` in a simulation that executes nothing.
    pub(crate) agents: Option<ProjectAgents>,
    pub(crate) answers: &'s AnswerOptions,
    pub(crate) durability: Durability,
    pub(crate) runs: &'s Runs,
    pub(crate) terminal: &'s Terminal,
}

impl RunSession<'_> {
    /// Executes the run until it ends or stops.
    pub(crate) fn go(self) -> Result<Exit, CliError> {
        let terminal = *self.terminal;
        // A blocked reader of the output must not block the run.
        terminal.detach();
        let shown = Arc::new(Shown::new(terminal));
        let forwarder = EventForwarder::default();
        let elsewhere = Arc::new(AnswerCommand::new(self.runs.clone()));
        let engine = self.engine(&shown, forwarder.clone(), elsewhere.clone())?;
        let runtime = crate::runtime::runtime()?;
        let ended = runtime.block_on(self.follow(&engine, &shown, forwarder, &elsewhere));
        // Do not wait for stages that were told to stop at once; the journal has the completed work.
        runtime.shutdown_background();
        ended
    }

    fn engine(
        &self,
        shown: &Arc<Shown>,
        forwarder: EventForwarder,
        elsewhere: Arc<AnswerCommand>,
    ) -> Result<Engine, CliError> {
        let terminal = *self.terminal;
        // Simulated models do not talk.
        let asked = self.agents.as_ref().filter(|_| self.script.is_none());
        let talking = asked.map_or_else(Vec::new, |agents| agents.talking(&self.pipeline));
        let answers = Answers {
            given: given(&self.answers.answer, &self.pipeline, &talking)?,
            approve: self.answers.auto_approve,
            console: Console::new(terminal, shown.clone()).or_elsewhere(elsewhere, self.answers.wait),
        };
        // The run calls this synchronously, so that earlier events are shown before a question.
        let show = {
            let shown = shown.clone();
            move |event: &RunEvent| {
                show(&terminal, &shown, event);
                forwarder.forward(event);
            }
        };
        let mut builder = Engine::builder()
            .secrets(secrets_of_environment(&self.pipeline, &terminal))
            .runs_dir(self.runs.dir())
            .durability(self.durability)
            .interviewer(answers)
            .on_event(show);
        if let Some(script) = &self.script {
            builder = builder.simulate(script.clone());
        }
        if let Some(agents) = &self.agents {
            builder = agents.keep_secrets(builder);
            if let Some(repositories) = Repositories::new(agents.project(), self.runs) {
                builder = builder.workspace(repositories.workspace()?);
            }
        }
        if let Some(agents) = asked {
            builder = agents.equip(builder);
            if !terminal.json && !terminal.quiet {
                builder = agents.show(builder, &self.pipeline, shown);
            }
        }
        builder
            .build()
            .map_err(|error| CliError::usage(error.code(), error.to_string()))
    }

    async fn follow(
        self,
        engine: &Engine,
        shown: &Shown,
        forwarder: EventForwarder,
        elsewhere: &AnswerCommand,
    ) -> Result<Exit, CliError> {
        // Signals also count while the run starts.
        let mut signals = Signals::new();
        let (pipeline, simulated) = (self.pipeline, self.script.is_some());
        let before = match &self.begin {
            Begin::Resume { folder, .. } | Begin::Replay { folder, .. } => Some(folder.clone()),
            Begin::Start(_) => None,
        };
        let begin = async {
            match self.entry {
                Some(entry) => entry.begin(engine, self.begin).await,
                None => begin_loaded(engine, pipeline.clone(), self.begin).await,
            }
        };
        let (begun, interrupted) = until_begun(begin, &mut signals).await;
        if interrupted {
            Terminal::hurry();
        }
        let Some(begun) = begun else {
            let resume = before.filter(|folder| RunFolder::is_one(folder));
            return Err(CliError {
                resume: resume.map(|folder| self.runs.command("resume", &folder, &[])),
                ..CliError::usage("stopped", "interrupted while the run began").exit(Exit::Cancelled)
            });
        };
        let handle = begun.map_err(|error| {
            let repositories = self
                .agents
                .as_ref()
                .and_then(|agents| Repositories::new(agents.project(), self.runs));
            match (&error, repositories) {
                (StartError::Workspace(error), Some(repositories)) => repositories.refused(error),
                _ => start_error(&error, self.runs, before.as_deref()),
            }
        })?;
        if let Some(folder) = handle.run_dir() {
            elsewhere.begun(folder);
        }
        show_branches(&handle, shown);
        let finish = Finish {
            pipeline: &pipeline,
            terminal: self.terminal,
            stopped: Stopped::new(self.runs, &handle),
        };
        let listing = Listing::begin(self.runs.dir(), handle.run_dir(), forwarder, self.terminal);
        let Some(ended) = to_the_end(handle, &mut signals, interrupted, shown).await else {
            shown.progress().clear();
            // The next user of the index applies the remaining events.
            std::mem::forget(listing);
            return Err(CliError {
                resume: finish.stopped.resume(),
                ..CliError::usage("stopped", "the run was stopped at once").exit(Exit::Cancelled)
            });
        };
        shown.progress().clear();
        listing.end(self.terminal);
        match ended {
            Ok(result) => {
                if let Some(RunFailure::Paused { .. } | RunFailure::Cancelled { .. }) = result.failure {
                    Terminal::hurry();
                }
                let coverage = simulated.then(|| coverage(&pipeline, &result));
                Ok(finish.tell(&result, coverage.as_ref()))
            }
            Err(error) => Err(run_error(&error, &finish.stopped)),
        }
    }
}

/// Waits until the run has started. Also returns whether a signal arrived meanwhile. If a start takes long, for example
/// because it waits for the lock of a repository, a second signal or a short time after the first one abandons it, and
/// the first value is `None`.
async fn until_begun<T>(begin: impl Future<Output = T>, signals: &mut Signals) -> (Option<T>, bool) {
    let mut begin = std::pin::pin!(begin);
    tokio::select! {
        begun = &mut begin => return (Some(begun), false),
        () = signals.next() => {}
    }
    let begun = tokio::select! {
        begun = &mut begin => Some(begun),
        () = signals.next() => None,
        () = tokio::time::sleep(BEGINNING) => None,
    };
    (begun, true)
}

/// Waits for the end of the run. The first signal pauses the run. The second one abandons it and returns `None`.
async fn to_the_end(
    handle: RunHandle,
    signals: &mut Signals,
    mut interrupted: bool,
    shown: &Shown,
) -> Option<Result<RunResult, RunError>> {
    let canceller: Canceller = handle.canceller();
    let pause = || {
        Terminal::hurry();
        canceller.pause(INTERRUPTED);
        shown
            .progress()
            .interject("pausing: running stages are told to stop; once more stops at once");
    };
    if interrupted {
        pause();
    }
    let mut end = std::pin::pin!(handle.wait());
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            ended = &mut end => return Some(ended),
            _ = ticks.tick() => shown.progress().tick(),
            () = signals.next() => {
                if interrupted {
                    return None;
                }
                interrupted = true;
                pause();
            }
        }
    }
}

fn show(terminal: &Terminal, shown: &Shown, event: &RunEvent) {
    if terminal.json {
        // Events contain only text and numbers, so serialization cannot fail.
        terminal.event(&serde_json::to_string(event).unwrap_or_default());
    } else {
        shown.progress().event(event);
    }
}

/// Shows the branches on which the run works.
fn show_branches(handle: &RunHandle, shown: &Shown) {
    let manifest = handle.run_dir().and_then(|folder| RunFolder::open(folder).ok());
    let kept = manifest.and_then(|folder| Kept::from_manifest(folder.manifest()));
    if let Some(kept) = kept {
        shown.progress().works_on(kept.lines());
    }
}

fn coverage(pipeline: &SharedPipeline, result: &RunResult) -> Coverage {
    let mut coverage = Coverage::new(pipeline.clone());
    coverage.add(&result.transitions);
    coverage
}

/// Converts the error of a run that cannot start or be resumed.
pub(crate) fn start_error(error: &StartError, runs: &Runs, folder: Option<&Path>) -> CliError {
    let command =
        |verb: &str, options: &[&str]| runs.command(verb, folder.unwrap_or(Path::new("RUN")), options);
    let failed = |exit, help: Option<String>| CliError {
        exit,
        code: error.code().into(),
        message: error.to_string(),
        help,
        resume: None,
    };
    match error {
        StartError::Refused(refusals) => {
            let no_model = refusals.list.iter().all(|refusal| refusal.code == "no_backend");
            failed(
                if no_model {
                    Exit::Credentials
                } else {
                    Exit::Invalid
                },
                None,
            )
        }
        StartError::Changed(_) => failed(
            Exit::Invalid,
            Some("undo the change, or go on all the same with `--accept-changes`".to_owned()),
        ),
        StartError::IncompatibleState { .. } => failed(
            Exit::Invalid,
            Some(format!("`{}` lists them", command("checkpoints", &[]))),
        ),
        StartError::AlreadyFinished(over) if is_failed(over.failure.as_ref()) => failed(
            Exit::Usage,
            Some(format!("retry it with `{}`", command("resume", &["--retry"]))),
        ),
        StartError::NotFailed { .. } => failed(
            Exit::Usage,
            Some(format!("resume it with `{}`", command("resume", &[]))),
        ),
        StartError::NothingToRetry { .. } => failed(
            Exit::Usage,
            Some(format!(
                "change the pipeline, then `{}`",
                command("resume", &["--retry", "--accept-changes"])
            )),
        ),
        StartError::NothingToReplay { .. } => failed(
            Exit::Usage,
            Some(format!(
                "name an earlier one: `{}` lists them",
                command("checkpoints", &[])
            )),
        ),
        StartError::AlreadyFinished(_) => failed(
            Exit::Usage,
            Some(format!(
                "`{}` lists the checkpoints from which a new run can begin",
                command("checkpoints", &[])
            )),
        ),
        StartError::Store(store @ StoreError::Owned { .. }) => failed(
            Exit::of_store(store),
            Some(format!(
                "follow it with `{}`; `--take-over` takes it from a process that hangs",
                command("attach", &[])
            )),
        ),
        StartError::Store(
            store @ (StoreError::JournalCut { .. }
            | StoreError::Damaged { .. }
            | StoreError::NoRun {
                missing: "journal.jsonl",
                ..
            }),
        ) => failed(
            Exit::of_store(store),
            Some(format!(
                "go on without what is lost with `{}`",
                command("resume", &["--accept-loss"])
            )),
        ),
        StartError::Store(store) => failed(Exit::of_store(store), None),
        StartError::Workspace(_) => failed(Exit::Invalid, None),
        _ => failed(Exit::Usage, None),
    }
}

/// Returns whether a run that ended with this failure can be retried.
fn is_failed(failure: Option<&RunFailure>) -> bool {
    failure.is_some_and(|failure| !matches!(failure, RunFailure::Cancelled { .. }))
}

/// Converts the error of a run that stopped unexpectedly.
pub(crate) fn run_error(error: &RunError, stopped: &Stopped<'_>) -> CliError {
    let lost_ownership = matches!(
        error,
        RunError::Store {
            source: StoreError::OwnershipLost { .. },
            ..
        }
    );
    let is_gone = matches!(
        error,
        RunError::Store {
            source: StoreError::FolderGone { .. },
            ..
        }
    );
    CliError {
        exit: if lost_ownership {
            Exit::Owned
        } else {
            Exit::RunFailed
        },
        code: error.code().into(),
        message: error.to_string(),
        help: None,
        resume: (!lost_ownership && !is_gone).then(|| stopped.resume()).flatten(),
    }
}
