//! A run that this process executes: showing it, pausing it on signals, and waiting for its end.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{
    Begin, Canceller, Durability, Engine, EngineBuilder, Entry, QueueInterviewer, RunError, RunEvent,
    RunFailure, RunFolder, RunHandle, RunResult, Script, SharedPipeline, StartError,
};
use orchestra_testkit::Coverage;
use orchestra_workspace::StoredWorkspace;

use crate::args::AnswerOptions;
use crate::error::{CliError, Exit};
use crate::project::agents::{ProjectAgents, secrets_of_environment};
use crate::project::repositories::Repositories;
use crate::questions::answers::{AnswerCommand, Answers, parse_answers};
use crate::questions::console::Console;
use crate::report::branches::branch_lines;
use crate::report::finish::FinalReport;
use crate::report::progress::SharedProgress;
use crate::runs::Runs;
use crate::runs::errors::{run_error, start_error};
use crate::runs::indexing::{EventForwarder, Indexing};
use crate::runs::signals::Signals;
use crate::runs::stopped::StoppedRun;
use crate::runs::telemetry::{RunTelemetry, run_folders};
use crate::terminal::{Paint, Terminal};

/// The reason of a pause by a signal.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// Maximum time that an interrupted run may take to start, so that it can be paused.
const START_GRACE: Duration = Duration::from_secs(2);

/// A run that is about to start, or to be resumed.
pub(crate) struct RunSession<'s> {
    pub(crate) entry: Entry,
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
    pub(crate) fn execute(self) -> Result<Exit, CliError> {
        let terminal = *self.terminal;
        // A blocked reader of the output must not block the run.
        terminal.detach();
        let shown = Arc::new(SharedProgress::new(terminal));
        let forwarder = EventForwarder::default();
        let answer_command = Arc::new(AnswerCommand::new());
        let telemetry = RunTelemetry::from_environment(&terminal);
        let given = self.given_answers()?;
        let engine = self.engine(given.clone(), &shown, forwarder.clone(), answer_command.clone())?;
        let engine = telemetry.observe(engine, run_folders(&self.begin));
        let runtime = crate::runs::runtime::runtime()?;
        let ended = runtime.block_on(self.follow(&engine, &shown, forwarder, &given, &answer_command));
        // Do not wait for stages that must stop at once; the journal has the completed work.
        runtime.shutdown_background();
        telemetry.finish(&terminal);
        ended
    }

    /// Returns the answers of the command line.
    fn given_answers(&self) -> Result<QueueInterviewer, CliError> {
        let asking = self
            .asking_agents()
            .map(|agents| agents.asking_stages(self.entry.pipeline()));
        parse_answers(
            &self.answers.answer,
            self.entry.pipeline(),
            &asking.unwrap_or_default(),
        )
    }

    /// Returns the agents that may ask questions. Simulated models do not talk.
    fn asking_agents(&self) -> Option<&ProjectAgents> {
        match &self.script {
            Some(_) => None,
            None => self.agents.as_ref(),
        }
    }

    fn engine(
        &self,
        given: QueueInterviewer,
        shown: &Arc<SharedProgress>,
        forwarder: EventForwarder,
        answer_command: Arc<AnswerCommand>,
    ) -> Result<Engine, CliError> {
        let terminal = *self.terminal;
        let backend = self.asking_agents();
        let answers = Answers {
            given,
            approve: self.answers.auto_approve,
            console: Console::new(terminal, shown.clone())
                .with_answer_command(answer_command, self.answers.wait),
        };
        // The run calls this synchronously, so that earlier events are shown before a question.
        let show = {
            let shown = shown.clone();
            move |event: &RunEvent| {
                show(&terminal, &shown, event);
                forwarder.forward(event);
            }
        };
        let mut builder = engine_builder(
            self.entry.pipeline(),
            self.agents.as_ref(),
            self.script.clone(),
            self.runs,
            &terminal,
        )?
        .durability(self.durability)
        .interviewer(answers)
        .on_event(show);
        if let Some(agents) = backend
            && !terminal.json
            && !terminal.quiet
        {
            builder = agents.show_model_text(builder, self.entry.pipeline(), shown);
        }
        builder
            .build()
            .map_err(|error| CliError::usage(error.code(), error.to_string()))
    }

    async fn follow(
        self,
        engine: &Engine,
        shown: &SharedProgress,
        forwarder: EventForwarder,
        given: &QueueInterviewer,
        answer_command: &AnswerCommand,
    ) -> Result<Exit, CliError> {
        // Signals also count while the run starts.
        let mut signals = Signals::new();
        let pipeline = self.entry.pipeline();
        let simulated = self.script.is_some();
        let is_resumed = matches!(self.begin, Begin::Resume { .. });
        let before = self.begin.folder().map(Path::to_owned);
        let begin = self.entry.begin(engine, self.begin);
        let (started, interrupted) = wait_for_start(begin, &mut signals).await;
        if interrupted {
            Terminal::limit_drain();
        }
        let Some(started) = started else {
            let resume = before.filter(|folder| RunFolder::is_one(folder));
            return Err(CliError {
                resume: resume.map(|folder| self.runs.command("resume", &folder, &[])),
                ..CliError::usage("stopped", "interrupted while the run began").exit(Exit::Cancelled)
            });
        };
        let handle = started.map_err(|error| {
            let repositories = self
                .agents
                .as_ref()
                .and_then(|agents| Repositories::new(agents.project(), self.runs));
            match (&error, repositories) {
                (StartError::Workspace(error), Some(repositories)) => repositories.start_error(error),
                _ => start_error(&error, self.runs, before.as_deref()),
            }
        })?;
        if let Some(folder) = handle.run_dir() {
            answer_command.set_folder(self.runs, folder);
        }
        show_branches(&handle, shown);
        let report = FinalReport {
            pipeline,
            terminal: self.terminal,
            stopped: StoppedRun::new(self.runs, &handle),
        };
        let indexing = Indexing::begin(self.runs.dir(), handle.run_dir(), forwarder, self.terminal);
        let Some(ended) = wait_for_end(handle, &mut signals, interrupted, shown).await else {
            shown.progress().clear();
            // The next user of the index applies the remaining events.
            std::mem::forget(indexing);
            return Err(CliError {
                resume: report.stopped.resume(),
                ..CliError::usage("stopped", "the run was stopped at once").exit(Exit::Cancelled)
            });
        };
        shown.progress().clear();
        indexing.end(self.terminal);
        if is_resumed {
            warn_of_unused(given, self.terminal);
        }
        match ended {
            Ok(result) => {
                if let Some(RunFailure::Paused { .. } | RunFailure::Cancelled { .. }) = result.failure {
                    Terminal::limit_drain();
                }
                let coverage = simulated.then(|| coverage(pipeline, &result));
                Ok(report.print(&result, coverage.as_ref()))
            }
            Err(error) => Err(run_error(&error, &report.stopped)),
        }
    }
}

/// Warns of answers of the command line that no question took: it has the answer that was given while the run was paused.
fn warn_of_unused(given: &QueueInterviewer, terminal: &Terminal) {
    for node in given.nodes() {
        let mark = terminal.paint(Paint::Warn, "warning[unused_answer]");
        let message =
            format!("`--answer {node}=..` is not used: `{node}` asked nothing that had no answer yet");
        terminal.message(&format!("{mark}: {message}"));
    }
}

/// Creates the builder of an engine that runs a pipeline of a project. With a script, runs are simulated.
pub(crate) fn engine_builder(
    pipeline: &SharedPipeline,
    agents: Option<&ProjectAgents>,
    script: Option<Script>,
    runs: &Runs,
    terminal: &Terminal,
) -> Result<EngineBuilder, CliError> {
    let mut builder = Engine::builder()
        .secrets(secrets_of_environment(pipeline, terminal))
        .runs_dir(runs.dir());
    if let Some(agents) = agents {
        builder = agents.set_secrets(builder);
        if let Some(repositories) = Repositories::new(agents.project(), runs) {
            builder = builder.workspace(repositories.workspace()?);
        }
        // Simulated models need no backend.
        if script.is_none() {
            builder = agents.set_backend(builder);
        }
    }
    Ok(match script {
        Some(script) => builder.simulate(script),
        None => builder,
    })
}

/// Waits until the run has started. Also returns whether a signal arrived meanwhile. If a start takes long, for example
/// because it waits for the lock of a repository, a second signal or a short time after the first one abandons it, and
/// the first value is `None`.
async fn wait_for_start<T>(begin: impl Future<Output = T>, signals: &mut Signals) -> (Option<T>, bool) {
    let mut begin = std::pin::pin!(begin);
    tokio::select! {
        started = &mut begin => return (Some(started), false),
        () = signals.next() => {}
    }
    let started = tokio::select! {
        started = &mut begin => Some(started),
        () = signals.next() => None,
        () = tokio::time::sleep(START_GRACE) => None,
    };
    (started, true)
}

/// Waits for the end of the run. The first signal pauses the run. The second one abandons it and returns `None`.
async fn wait_for_end(
    handle: RunHandle,
    signals: &mut Signals,
    mut interrupted: bool,
    shown: &SharedProgress,
) -> Option<Result<RunResult, RunError>> {
    let canceller: Canceller = handle.canceller();
    let pause = || {
        Terminal::limit_drain();
        canceller.pause(INTERRUPTED);
        shown
            .progress()
            .interject("pausing: running stages are asked to stop; once more stops at once");
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

fn show(terminal: &Terminal, shown: &SharedProgress, event: &RunEvent) {
    if terminal.json {
        // Events contain only text and numbers, so serialization cannot fail.
        terminal.event(&serde_json::to_string(event).unwrap_or_default());
    } else {
        shown.progress().event(event);
    }
}

/// Shows the branches on which the run works.
fn show_branches(handle: &RunHandle, shown: &SharedProgress) {
    let manifest = handle.run_dir().and_then(|folder| RunFolder::open(folder).ok());
    let workspace = manifest.and_then(|folder| StoredWorkspace::from_manifest(folder.manifest()));
    if let Some(workspace) = workspace {
        shown
            .progress()
            .show_branches_below_title(branch_lines(&workspace));
    }
}

fn coverage(pipeline: &SharedPipeline, result: &RunResult) -> Coverage {
    let mut coverage = Coverage::new(pipeline.clone());
    coverage.add(&result.transitions);
    coverage
}
