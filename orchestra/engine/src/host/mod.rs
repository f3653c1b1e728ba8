//! The execution of single attempts for runs that another process decides about.

pub(crate) mod child;
mod files;
mod interviewer;
mod one_pool;
mod serve;

use std::sync::Arc;

use orchestra_core::{Answer, Budget, Context, EffectId, Outcome, SharedPipeline, Snapshot, Usage};
use orchestra_graph::kind;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::driver::attempt::Attempt;
use crate::error::{Refusals, StartError};
use crate::event::RunEvent;
use crate::gates::interview::SharedInterviewer;
use crate::handlers::registry::Registry;
use crate::handlers::resolved::Handlers;
use crate::host::interviewer::PortInterviewer;
use crate::host::serve::{Requests, records_of_branches};
use crate::id::RunId;
use crate::run::hosted_text::HostedText;
use crate::run::path_files::PathFiles;
use crate::run::port::AttemptPort;
use crate::run::settings::RunSettings;
use crate::run::stage::StageContext;
use crate::run::state::{Origin, Run};
use crate::run::workspace::{OpenedWorkspace, RunFiles};
use crate::setup::initial_context::initial_context;
use crate::setup::resolve::{BoundPipeline, resolve};
use crate::setup::settings::EngineSettings;
use crate::stage_end::{Suspension, SuspensionCause};

/// Executes attempts of the stages of one pipeline for runs that another process decides about. Made by
/// [`Engine::host`](crate::Engine::host).
///
/// The driver of such a run keeps its machine elsewhere, such as in a distributed engine. It sends each
/// [`Effect::RunNode`](orchestra_core::Effect) to a host as a [`HostedAttempt`], and passes the result to the machine. The
/// handler sees the same [`StageContext`] as in a run of this process; its requests go through an [`AttemptPort`].
///
/// If the engine has a workspace, all stages must be in one [pool](orchestra_graph::Stage::pool): the attempts are executed
/// on the machine that has the files, and the driver carries the snapshots ([`PathFiles`], [`HostedResult::snapshot`]).
///
/// Not available: manager loops, sub-pipelines that work on the files of a workspace, and the artifacts of other attempts.
/// The driver starts the [child runs](AttemptHost::child) of sub-pipelines itself. [`AttemptPort`] has an example.
///
/// ```
/// use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> write -> exit; write [prompt=a] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let refused = Engine::builder().build()?.host(pipeline, ()).unwrap_err();
/// assert_eq!(refused.list[0].code, "no_backend");
/// # Ok::<(), orchestra_engine::BuildError>(())
/// ```
pub struct AttemptHost {
    settings: Arc<EngineSettings>,
    pipeline: SharedPipeline,
    /// The handlers of the program, also for child pipelines.
    registry: Arc<Registry>,
    handlers: Handlers,
}

/// An attempt to execute.
///
/// ```
/// use orchestra_core::{Context, EffectId};
/// use orchestra_engine::{HostedAttempt, RunId};
/// let again = |id: EffectId, context: Context| -> Result<HostedAttempt, orchestra_engine::InvalidRunId> {
///     let mut attempt = HostedAttempt::new(RunId::new("first")?, id, context);
///     attempt.is_repeat = true;
///     attempt.notes = vec!["half done".into()];
///     Ok(attempt)
/// };
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostedAttempt {
    /// The run.
    pub run: RunId,
    /// The id of the effect.
    pub id: EffectId,
    /// The context that the stage sees.
    pub context: Context,
    /// The budget of the run.
    pub budget: Budget,
    /// `true` if the attempt may have begun before, in a process that stopped (rule D1).
    pub is_repeat: bool,
    /// The notes that the attempt stored before it was interrupted.
    pub notes: Vec<Value>,
    /// The answer to the next question of the stage, if it was given while no process executed the attempt.
    pub answer: Option<Answer>,
    /// The workspace of the run, from [`AttemptHost::open_workspace`].
    pub workspace: Option<Arc<OpenedWorkspace>>,
    /// The state that the files of the attempt must have there.
    pub files: PathFiles,
}

impl HostedAttempt {
    /// Creates the first execution of an attempt.
    pub fn new(run: RunId, id: EffectId, context: Context) -> HostedAttempt {
        HostedAttempt {
            run,
            id,
            context,
            budget: Budget::default(),
            is_repeat: false,
            notes: Vec::new(),
            answer: None,
            workspace: None,
            files: PathFiles::default(),
        }
    }
}

/// The end of a hosted attempt.
///
/// ```
/// use orchestra_core::{EffectId, Event};
/// use orchestra_engine::HostedEnd;
/// fn event(id: EffectId, end: HostedEnd) -> Option<Event> {
///     match end {
///         HostedEnd::Outcome(outcome) => Some(Event::NodeFinished { id, outcome }),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostedEnd {
    /// The attempt has an outcome, which the contract of the pipeline allows; without secrets.
    Outcome(Outcome),
    /// The run must pause for this reason. The attempt is made again when the run is resumed.
    Suspended(HostedSuspension),
    /// The attempt was cancelled. Nothing of it runs any more.
    Cancelled,
}

/// The reason why a hosted attempt pauses its run.
///
/// ```
/// use orchestra_core::{EffectId, Event};
/// use orchestra_engine::HostedSuspension;
/// fn event(id: EffectId, suspension: HostedSuspension) -> Event {
///     match suspension {
///         HostedSuspension::WaitsForHuman(reason) => Event::Unanswerable { id, reason },
///         HostedSuspension::OverBudget(reason) | HostedSuspension::ChildStuck(reason) => {
///             Event::PauseRequested { reason }
///         }
///         _ => Event::PauseRequested { reason: "the attempt was suspended".to_owned() },
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostedSuspension {
    /// A person has to answer, and nobody can be asked.
    WaitsForHuman(String),
    /// The budget of the run is used up.
    OverBudget(String),
    /// A child run did a part of its work and cannot be resumed.
    ChildStuck(String),
}

impl From<Suspension> for HostedSuspension {
    fn from(suspension: Suspension) -> HostedSuspension {
        let reason = suspension.reason().to_owned();
        match suspension.cause() {
            SuspensionCause::WaitsForHuman => HostedSuspension::WaitsForHuman(reason),
            SuspensionCause::OverBudget => HostedSuspension::OverBudget(reason),
            SuspensionCause::ChildStuck => HostedSuspension::ChildStuck(reason),
        }
    }
}

/// The result of a hosted attempt.
///
/// ```
/// use orchestra_engine::HostedResult;
/// fn line(result: &HostedResult) -> String {
///     format!("{} texts, {} tokens", result.texts.len(), result.used.tokens())
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HostedResult {
    /// The end of the attempt.
    pub end: HostedEnd,
    /// The usage of models since the last note.
    pub used: Usage,
    /// The texts that the attempt stored, without secrets.
    pub texts: Vec<HostedText>,
    /// The state of the files that the attempt left, which belongs to its outcome; `None` if it is the one before.
    pub snapshot: Option<Snapshot>,
}

impl AttemptHost {
    /// Creates a host of a pipeline, with the checks of a start.
    pub(crate) fn new(
        settings: Arc<EngineSettings>,
        bound: BoundPipeline,
        is_child: bool,
    ) -> Result<AttemptHost, Refusals> {
        let handlers = resolve(&settings, &bound, is_child)?;
        let BoundPipeline {
            pipeline, registry, ..
        } = bound;
        if let Some(refusal) = one_pool::refuse(&settings, &pipeline, &handlers) {
            return Err(Refusals {
                pipeline: pipeline.name.to_string(),
                list: vec![refusal],
            });
        }
        Ok(AttemptHost {
            settings,
            pipeline,
            registry,
            handlers,
        })
    }

    /// Returns the pipeline.
    pub fn pipeline(&self) -> &SharedPipeline {
        &self.pipeline
    }

    /// Checks the values with which a run of the pipeline starts, and returns its initial context without secrets.
    ///
    /// # Errors
    /// A key is reserved for the engine, or the values are not those that the pipeline declares.
    pub fn initial_context(&self, params: Context) -> Result<Context, StartError> {
        initial_context(&self.settings, &self.pipeline, params, false)
    }

    /// Executes an attempt to its end. After a cancellation it returns as soon as nothing of the attempt runs any more;
    /// dropping the future instead may leave processes behind for up to two seconds.
    pub async fn run(
        &self,
        attempt: HostedAttempt,
        port: Arc<dyn AttemptPort>,
        cancelled: &CancellationToken,
    ) -> HostedResult {
        let run = self.run_of(&attempt, &port);
        let id = attempt.id.clone();
        let workspace = attempt.workspace.as_ref();
        let files = workspace.map(|opened| Arc::new(RunFiles::new(opened.session.clone())));
        let mut requests = Requests::new(&run, &*port, files.clone(), attempt.notes.len());
        let mut records = records_of_branches(&attempt.context);
        if id.attempt > 1 {
            // The previous attempt of the visit may have left a conversation to continue.
            records.push(id.record(&self.pipeline));
        }
        requests.fetch(records.into_iter()).await;
        let end = match self.begin(&run, attempt, files.clone()) {
            Ok(mut begun) => {
                let ended = tokio::select! {
                    biased;
                    ended = begun.wait(&run, cancelled) => ended,
                    never = requests.serve() => match never {},
                };
                match begun.close(&run, ended) {
                    Some(Ok(outcome)) => HostedEnd::Outcome(outcome),
                    Some(Err(suspension)) => HostedEnd::Suspended(suspension.into()),
                    None => HostedEnd::Cancelled,
                }
            }
            Err(outcome) => HostedEnd::Outcome(*outcome),
        };
        let end = match end {
            HostedEnd::Outcome(outcome) => HostedEnd::Outcome(self.without_secrets(outcome)),
            end => end,
        };
        let result = HostedResult {
            end,
            used: run.attempts.usage.take(&id).unwrap_or_default(),
            texts: run.texts_of(&id),
            snapshot: files.and_then(|files| files.take(&id)),
        };
        run.close();
        result
    }

    fn without_secrets(&self, mut outcome: Outcome) -> Outcome {
        if let Some(redactor) = &self.settings.run.redactor {
            redactor.outcome(&mut outcome);
        }
        outcome
    }

    /// Creates the part of the run that this process has: that of one attempt.
    fn run_of(&self, attempt: &HostedAttempt, port: &Arc<dyn AttemptPort>) -> Arc<Run> {
        let events = port.clone();
        let settings = RunSettings {
            callbacks: Arc::new([Arc::new(move |event: &RunEvent| {
                events.event(event.kind.clone());
            })]),
            interviewer: Some(SharedInterviewer::new(PortInterviewer(port.clone()))),
            runs_dir: None,
            ..(*self.settings.run).clone()
        };
        let origin = Origin {
            working_dir: self.settings.working_dir.clone(),
            ..Origin::default()
        };
        let (pipeline, run) = (self.pipeline.clone(), attempt.run.clone());
        let mut run = Run::new(pipeline, run, Arc::new(settings), None, origin, 0);
        run.port = Some(port.clone());
        run.models().meter.limit(attempt.budget);
        Arc::new(run)
    }

    fn begin<'h>(
        &'h self,
        run: &Arc<Run>,
        attempt: HostedAttempt,
        files: Option<Arc<RunFiles>>,
    ) -> Result<Attempt<'h>, Box<Outcome>> {
        let stage = self.pipeline.stage(attempt.id.node);
        let Some(resolved) = self.handlers.handler(stage) else {
            let reason = format!("no handler of kind `{}`", stage.kind());
            return Err(Box::new(Outcome::fail_terminal(reason)));
        };
        if resolved.runs_children {
            let reason = format!(
                "`{}` is a {}, and no attempt by itself can run a pipeline",
                stage.id(),
                kind::title(stage.kind())
            );
            return Err(Box::new(Outcome::fail_terminal(reason)));
        }
        let notes = (!attempt.notes.is_empty()).then(|| attempt.notes.into());
        let (id, is_repeat) = (attempt.id, attempt.is_repeat);
        let context = StageContext::new(run.clone(), id.clone(), attempt.context, is_repeat, notes);
        let context = context.answered(attempt.answer);
        let files = files.map(|files| {
            let stage = run.workspace_stage(&id, context.clone(), resolved, attempt.files);
            (Box::new(stage), files)
        });
        Attempt::begin(run, resolved, stage, id, context, files)
    }
}
