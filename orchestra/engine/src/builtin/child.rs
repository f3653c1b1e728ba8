//! Child runs: the common parts of manager loops and sub-pipelines (Attractor 4.11, 9.4).

use std::future::Future;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use orchestra_core::{Context, Outcome, RunFailure, SharedPipeline};
use orchestra_graph::{Pipeline, Stage, format_duration};

use crate::error::{RunError, StartError};
use crate::handle::RunHandle;
use crate::id::{RunId, fingerprint};
use crate::ownership::OwnedRun as _;
use crate::result::RunResult;
use crate::run::stage::StageContext;
use crate::run::state::{Origin, Parent, Run};
use crate::run::steering::Watched;
use crate::run::workspace::WorkspaceSession;
use crate::run_status::RunStatus;
use crate::stage_end::{StageEnd, Suspension, SuspensionCause};
use crate::store::{RunFolder, child_folder};

/// Maximum nesting depth of child runs. It stops a recursion through registered pipelines.
const MAX_DEPTH: u32 = 16;

/// Starts the child runs of stages with the handlers of a program. The engine implements it, because starting a run
/// needs the handlers of all kinds, and the handlers that use this are two of them.
pub(crate) trait ChildStarter: Send + Sync {
    /// Returns the pipeline that a stage runs. A file takes precedence over a registered pipeline.
    fn child_of(self: Arc<Self>, pipeline: &Pipeline, stage: Stage<'_>) -> Option<ChildPipeline>;

    /// Sets the workspace session of the run whose stages start child runs. Child runs work on its files.
    fn share(&self, session: Arc<dyn WorkspaceSession>);

    /// Starts or resumes a child run.
    fn start(&self, child: ChildStart) -> Starting;
}

/// The future of a child run that is being started.
pub(crate) type Starting = Pin<Box<dyn Future<Output = Result<RunHandle, StartError>> + Send>>;

/// The pipeline that a stage runs, with the starter that knows its handlers.
pub(crate) struct ChildPipeline {
    pub(crate) pipeline: SharedPipeline,
    pub(crate) starter: Arc<dyn ChildStarter>,
}

/// A child run to start.
pub(crate) struct ChildStart {
    pub(crate) pipeline: SharedPipeline,
    pub(crate) origin: Origin,
    pub(crate) begin: ChildBegin,
}

/// The begin of a child run in this process.
pub(crate) enum ChildBegin {
    /// The run is new. It is persisted if it has a folder.
    New {
        id: RunId,
        context: Context,
        folder: Option<PathBuf>,
    },
    /// An interrupted attempt started the run in this folder, and it is resumed.
    Resumed(PathBuf),
}

/// The result of a child run.
pub(crate) type Ended = Result<RunResult, RunError>;

type Ending = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// A run that a stage started. Dropping it stops the run.
pub(crate) struct ChildRun {
    pub(crate) run: Arc<Run>,
    parent: Weak<Run>,
    ending: Ending,
    over: bool,
}

/// The description of a child run that a stage starts.
pub(crate) struct Child {
    pub(crate) child: ChildPipeline,
    pub(crate) context: Context,
    pub(crate) working_dir: Option<PathBuf>,
    /// The observation of the child: whether a manager loop sees its active stages and may send them instructions.
    pub(crate) watched: Watched,
}

impl Child {
    /// Starts the run with the settings of the parent run. Resumes it if an interrupted attempt has started it already.
    ///
    /// # Errors
    /// Returns the end of the stage if the run cannot be started.
    pub(crate) async fn start(self, stage: &StageContext) -> Result<RunHandle, StageEnd> {
        let ChildPipeline { pipeline, starter } = self.child;
        let parent = stage.run();
        let depth = parent.origin.depth + 1;
        if let Some(outcome) = too_deep(depth, &pipeline) {
            return Err(outcome.into());
        }
        if stage.workplace().is_some()
            && let Some(folder) = self.working_dir.as_deref().filter(|folder| leads_out(folder))
        {
            let reason = format!(
                "`stack.child_workdir` leads out of the run's files: `{}`; name a folder below them",
                folder.display()
            );
            return Err(Outcome::fail_terminal(reason).with_code("child_workdir").into());
        }
        let key = stage.attempt_key();
        let origin = Origin {
            seed: fingerprint(&[&parent.origin.seed.to_le_bytes(), key.as_bytes()]),
            depth,
            working_dir: self.working_dir,
            watched: self.watched,
            accept_loss: parent.origin.accept_loss,
            parent: Some(Parent {
                run: parent.clone(),
                stage: stage.id().clone(),
            }),
        };
        let mut folder = None;
        if parent.store.is_some() {
            let stage_dir = stage
                .stage_dir()
                .map_err(|error| StageEnd::from(Outcome::fail(error.to_string())))?;
            folder = Some(child_folder(&stage_dir, stage.attempt()));
        }
        let begin = match folder {
            // Do not repeat what the child did before the run stopped.
            Some(folder) if stage.is_repeat() && RunFolder::is_one(&folder) => ChildBegin::Resumed(folder),
            folder => {
                if let Some(folder) = &folder
                    && stage.is_repeat()
                    && parent.is_owned()
                {
                    // The previous attempt did not get as far as creating a run there.
                    let _ = std::fs::remove_dir_all(folder);
                }
                ChildBegin::New {
                    id: RunId::of_child(&parent.id, &key),
                    context: self.context,
                    folder,
                }
            }
        };
        let goes_on = matches!(begin, ChildBegin::Resumed(_));
        let started = starter.start(ChildStart {
            pipeline,
            origin,
            begin,
        });
        let started = started.await;
        started.map_err(|error| {
            if let StartError::Store(failure) = &error {
                parent.escalate(failure);
            }
            if goes_on {
                // The child did a part of its work, so a failed resume is not a failure of the stage.
                let reason = format!("the child pipeline cannot go on: {error}");
                return Suspension::new(SuspensionCause::ChildStuck, reason).into();
            }
            not_started(&error).into()
        })
    }
}

impl ChildRun {
    /// Takes ownership of a run that a stage has started.
    pub(crate) fn new(stage: &StageContext, handle: RunHandle) -> ChildRun {
        stage.run().adopt(handle.run());
        ChildRun {
            run: handle.run().clone(),
            parent: Arc::downgrade(stage.run()),
            ending: Box::pin(handle.wait()),
            over: false,
        }
    }

    /// Waits for the end of the run.
    pub(crate) async fn ended(&mut self) -> Ended {
        let ended = (&mut self.ending).await;
        self.over = true;
        // A paused run reports its whole usage when it ends.
        if let (Ok(result), Some(of)) = (&ended, &self.run.origin.parent)
            && result.status != RunStatus::Paused
            && !result.usage.is_zero()
        {
            self.run.add_to_parent(of, result.usage);
        }
        if let (Err(RunError::Store { source, .. }), Some(parent)) = (&ended, self.parent.upgrade()) {
            parent.escalate(source);
        }
        ended
    }

    /// Ends the run and waits until it has stopped completely.
    pub(crate) async fn end(&mut self, reason: &str) {
        if !self.over {
            self.stop(reason);
            // The caller ended the run, so its result does not matter.
            let _ = self.ended().await;
        }
    }
}

impl ChildRun {
    /// Pauses the run if its parent run pauses, else requests its end.
    fn stop(&self, reason: &str) {
        match self.parent.upgrade() {
            Some(parent) if parent.stop.is_pause() => self.run.stop.request_pause(parent.stop.reason()),
            _ => self.run.stop.request(reason.to_owned()),
        }
    }
}

impl Drop for ChildRun {
    fn drop(&mut self) {
        self.stop("the stage that started the run was cancelled");
    }
}

/// The reason for which a stage stops waiting for its child.
pub(crate) enum Cut {
    /// The stage was cancelled.
    Cancelled,
    /// The stage exceeded its `timeout`.
    TimedOut(Duration),
}

/// Waits until a stage must end although its child has not ended.
pub(crate) async fn cut_short(stage: &StageContext) -> Cut {
    let token = stage.cancellation();
    let timeout = stage.node().duration("timeout");
    let timer = async {
        match timeout {
            Some(timeout) => stage.run().settings.clock.sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = token.cancelled() => Cut::Cancelled,
        () = timer => Cut::TimedOut(timeout.unwrap_or_default()),
    }
}

impl Cut {
    /// Returns the outcome of the stage. The child has stopped completely when this method returns.
    pub(crate) async fn outcome(self, child: &mut ChildRun) -> Outcome {
        match self {
            Cut::Cancelled => {
                child.end("the stage that started the run was cancelled").await;
                Outcome::fail("cancelled")
            }
            Cut::TimedOut(limit) => {
                child.end("the stage that started the run took too long").await;
                timed_out(limit)
            }
        }
    }
}

/// Returns the failure of a child as a message. Returns `None` if it succeeded.
pub(crate) fn failure(ended: &Ended) -> Option<String> {
    match ended {
        Ok(result) => result.failure.as_ref().map(RunFailure::to_string),
        Err(error) => Some(error.to_string()),
    }
}

/// Returns the suspension of a stage whose child is suspended.
pub(crate) fn suspension(ended: &Ended) -> Option<Suspension> {
    let result = ended.as_ref().ok()?;
    suspension_by(&result.run_id, result.failure.as_ref())
}

/// Returns the suspension of a stage whose child ended with a failure, if that is a pause.
pub(crate) fn suspension_by(run: &RunId, failure: Option<&RunFailure>) -> Option<Suspension> {
    if RunStatus::from_failure(failure) != RunStatus::Paused {
        return None;
    }
    let cause = match failure {
        Some(RunFailure::Budget { .. }) => SuspensionCause::OverBudget,
        _ => SuspensionCause::WaitsForHuman,
    };
    let reason = failure.map(RunFailure::to_string).unwrap_or_default();
    Some(Suspension::new(cause, format!("in run {run}, {reason}")))
}

/// Returns the failure of a stage whose child would be nested too deeply, if it would.
pub(crate) fn too_deep(depth: u32, pipeline: &Pipeline) -> Option<Outcome> {
    (depth > MAX_DEPTH).then(|| {
        let reason = format!(
            "pipeline `{}` would run within {MAX_DEPTH} others, and no more are allowed; does it run itself?",
            pipeline.title()
        );
        Outcome::fail_terminal(reason).with_code("child_depth")
    })
}

/// Returns the failure of a stage whose child cannot be started.
pub(crate) fn not_started(error: &dyn std::fmt::Display) -> Outcome {
    let reason = format!("the child pipeline cannot be started: {error}");
    Outcome::fail_terminal(reason).with_code("child_start")
}

/// Returns the outcome of a stage that exceeded its time.
pub(crate) fn timed_out(limit: Duration) -> Outcome {
    Outcome::fail(format!("timed out after {}", format_duration(limit))).with_code("timeout")
}

/// Returns the default working folder of a child's stages. In a run with a workspace it is relative to the folder of
/// the execution path.
pub(crate) fn working_dir(stage: &StageContext) -> Option<PathBuf> {
    let run = stage.run();
    match stage.workplace() {
        Some(_) => run.below().map(Path::to_owned),
        None => run.origin.working_dir.clone(),
    }
}

/// Returns whether a relative path leads out of its base folder.
fn leads_out(folder: &Path) -> bool {
    let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    !folder.components().all(inside)
}
