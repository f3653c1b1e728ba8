//! A run that this process executes: shown, told to stop by signals, and followed to its end.

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
use crate::listing::{Ear, Listing};
use crate::progress::Shown;
use crate::runs::Runs;
use crate::signals::Signals;
use crate::terminal::Terminal;
use crate::workspace::{Kept, Repositories};

/// Why a run pauses that a signal interrupted.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// How long a run that a signal interrupted may take until it has begun, so that it can be paused.
const BEGINNING: Duration = Duration::from_secs(2);

/// A run that is about to begin, or to go on.
pub(crate) struct Going<'g> {
    pub(crate) pipeline: SharedPipeline,
    /// The compiled pipeline, where it is one.
    pub(crate) entry: Option<&'g Entry>,
    pub(crate) begin: Begin,
    /// What simulated stages do; `None` where all are run.
    pub(crate) script: Option<Script>,
    /// The project with what runs its model stages; `None` in a simulation that executes nothing.
    pub(crate) agents: Option<ProjectAgents>,
    pub(crate) answers: &'g AnswerOptions,
    pub(crate) durability: Durability,
    pub(crate) runs: &'g Runs,
    pub(crate) terminal: &'g Terminal,
}

impl Going<'_> {
    /// Goes to the end, or to where it stops.
    pub(crate) fn go(self) -> Result<Exit, CliError> {
        let terminal = *self.terminal;
        // No reader of the output may stop the run.
        terminal.detach();
        let shown = Arc::new(Shown::new(terminal));
        let ear = Ear::default();
        let elsewhere = Arc::new(AnswerCommand::new(self.runs.clone()));
        let engine = self.engine(&shown, ear.clone(), elsewhere.clone())?;
        let runtime = crate::runtime::runtime()?;
        let ended = runtime.block_on(self.follow(&engine, &shown, ear, &elsewhere));
        // What is told to stop at once is not waited for; the journal has what was done.
        runtime.shutdown_background();
        ended
    }

    fn engine(
        &self,
        shown: &Arc<Shown>,
        ear: Ear,
        elsewhere: Arc<AnswerCommand>,
    ) -> Result<Engine, CliError> {
        let terminal = *self.terminal;
        // Nobody talks with a simulated model.
        let asked = self.agents.as_ref().filter(|_| self.script.is_none());
        let talking = asked.map_or_else(Vec::new, |agents| agents.talking(&self.pipeline));
        let answers = Answers {
            given: given(&self.answers.answer, &self.pipeline, &talking)?,
            approve: self.answers.auto_approve,
            console: Console::new(terminal, shown.clone()).or_elsewhere(elsewhere, self.answers.wait),
        };
        // Called by the run itself, so that what came before a question is shown before it.
        let show = {
            let shown = shown.clone();
            move |event: &RunEvent| {
                show(&terminal, &shown, event);
                ear.hear(event);
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
            if let Some(repositories) = Repositories::of(agents.project(), self.runs) {
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
        ear: Ear,
        elsewhere: &AnswerCommand,
    ) -> Result<Exit, CliError> {
        // A signal that comes while the run begins is heard too.
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
                .and_then(|agents| Repositories::of(agents.project(), self.runs));
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
            stopped: Stopped::of(self.runs, &handle),
        };
        let listing = Listing::begin(self.runs.dir(), handle.run_dir(), ear, self.terminal);
        let Some(ended) = to_the_end(handle, &mut signals, interrupted, shown).await else {
            shown.progress().clear();
            // Whoever looks at the index next takes in the rest.
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

/// Waits until the run has begun, and says whether a signal came meanwhile. A run that waits for others, such as for the lock
/// of a repository, is given up by the second signal, or soon after the first one, which is `None`.
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

/// Waits for the end. The first signal pauses the run, the second one gives it up, which is `None`.
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
        // Events hold text and numbers alone, which cannot fail to be written.
        terminal.event(&serde_json::to_string(event).unwrap_or_default());
    } else {
        shown.progress().event(event);
    }
}

/// Shows on which branches the run works.
fn show_branches(handle: &RunHandle, shown: &Shown) {
    let manifest = handle.run_dir().and_then(|folder| RunFolder::open(folder).ok());
    let kept = manifest.and_then(|folder| Kept::of(folder.manifest()));
    if let Some(kept) = kept {
        shown.progress().works_on(kept.lines());
    }
}

fn coverage(pipeline: &SharedPipeline, result: &RunResult) -> Coverage {
    let mut coverage = Coverage::of(pipeline.clone());
    coverage.add(&result.transitions);
    coverage
}

/// A run that cannot begin or go on.
pub(crate) fn start_error(error: &StartError, runs: &Runs, folder: Option<&Path>) -> CliError {
    let command =
        |verb: &str, options: &[&str]| runs.command(verb, folder.unwrap_or(Path::new("RUN")), options);
    let fault = |exit, help: Option<String>| CliError {
        exit,
        code: error.code().into(),
        message: error.to_string(),
        help,
        resume: None,
    };
    match error {
        StartError::Refused(refusals) => {
            let no_model = refusals.list.iter().all(|refusal| refusal.code == "no_backend");
            fault(
                if no_model {
                    Exit::Credentials
                } else {
                    Exit::Invalid
                },
                None,
            )
        }
        StartError::Changed(_) => fault(
            Exit::Invalid,
            Some("undo the change, or go on all the same with `--accept-changes`".to_owned()),
        ),
        StartError::Moved { .. } => fault(
            Exit::Invalid,
            Some(format!("`{}` lists them", command("checkpoints", &[]))),
        ),
        StartError::Over(over) if is_failed(over.failure.as_ref()) => fault(
            Exit::Usage,
            Some(format!("retry it with `{}`", command("resume", &["--retry"]))),
        ),
        StartError::NotFailed { .. } => fault(
            Exit::Usage,
            Some(format!("resume it with `{}`", command("resume", &[]))),
        ),
        StartError::NothingToRetry { .. } => fault(
            Exit::Usage,
            Some(format!(
                "change the pipeline, then `{}`",
                command("resume", &["--retry", "--accept-changes"])
            )),
        ),
        StartError::NothingToReplay { .. } => fault(
            Exit::Usage,
            Some(format!(
                "name an earlier one: `{}` lists them",
                command("checkpoints", &[])
            )),
        ),
        StartError::Over(_) => fault(
            Exit::Usage,
            Some(format!(
                "`{}` lists the checkpoints from which a new run can begin",
                command("checkpoints", &[])
            )),
        ),
        StartError::Store(store @ StoreError::Owned { .. }) => fault(
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
        ) => fault(
            Exit::of_store(store),
            Some(format!(
                "go on without what is lost with `{}`",
                command("resume", &["--accept-loss"])
            )),
        ),
        StartError::Store(store) => fault(Exit::of_store(store), None),
        StartError::Workspace(_) => fault(Exit::Invalid, None),
        _ => fault(Exit::Usage, None),
    }
}

/// Whether a run that ended so can be retried.
fn is_failed(failure: Option<&RunFailure>) -> bool {
    failure.is_some_and(|failure| !matches!(failure, RunFailure::Cancelled { .. }))
}

/// A run that could not go on in the middle.
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
