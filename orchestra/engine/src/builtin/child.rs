//! Child runs: the common parts of manager loops and sub-pipelines (Attractor 4.11, 9.4).

use std::future::Future;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use orchestra_core::{Context, ManagerPlan, Outcome, RunFailure, SharedPipeline};
use orchestra_graph::table::Constant;
use orchestra_graph::{Pipeline, Stage, format_duration, kind};

use crate::engine::Settings;
use crate::error::{Refusal, RunError, StartError};
use crate::handle::RunHandle;
use crate::id::{RunId, fingerprint};
use crate::registry::Registry;
use crate::result::{RunResult, RunStatus};
use crate::resume::ResumeBuilder;
use crate::run::{Origin, Parent, Run, Watched};
use crate::stage::StageContext;
use crate::stage_end::{StageEnd, Suspension, SuspensionCause};
use crate::start::StartBuilder;
use crate::store::RunFolder;

/// Maximum nesting depth of child runs. It stops a recursion through registered pipelines.
const MAX_DEPTH: u32 = 16;
/// The name of a child's run folder in the folder of its stage. A repeated attempt has a numbered folder of its own.
const FOLDER: &str = "child";

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
    pub(crate) pipeline: SharedPipeline,
    pub(crate) registry: Arc<Registry>,
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
        let child = self;
        let parent = stage.run();
        let depth = parent.origin.depth + 1;
        if depth > MAX_DEPTH {
            let reason = format!(
                "pipeline `{}` would run within {MAX_DEPTH} others, and no more are allowed; does it run itself?",
                child.pipeline.title()
            );
            return Err(Outcome::fail_terminal(reason).with_code("child_depth").into());
        }
        if parent.work_files().is_some()
            && let Some(folder) = child.working_dir.as_deref().filter(|folder| leads_out(folder))
        {
            let reason = format!(
                "`stack.child_workdir` leads out of the run's files: `{}`; name a folder below them",
                folder.display()
            );
            return Err(Outcome::fail_terminal(reason).with_code("child_workdir").into());
        }
        let key = stage.attempt_key();
        let origin = Origin {
            registry: child.registry,
            seed: fingerprint(&[&parent.origin.seed.to_le_bytes(), key.as_bytes()]),
            depth,
            working_dir: child.working_dir,
            watched: child.watched,
            accept_loss: parent.origin.accept_loss,
            parent: Some(Parent {
                run: parent.clone(),
                stage: stage.id().clone(),
            }),
        };
        let id = RunId::of_child(&parent.id, &key);
        let settings = parent.settings.clone();
        let mut folder = None;
        if parent.store.is_some() {
            let stage_dir = stage
                .stage_dir()
                .map_err(|error| StageEnd::from(Outcome::fail(error.to_string())))?;
            folder = Some(match stage.attempt() {
                1 => stage_dir.join(FOLDER),
                attempt => stage_dir.join(format!("{FOLDER}-{attempt}")),
            });
        }
        let mut goes_on = false;
        let started = match folder {
            // Do not repeat what the child did before the run stopped.
            Some(folder) if stage.is_repeat() && RunFolder::is_one(&folder) => {
                goes_on = true;
                let mut resume = ResumeBuilder::new(settings, folder, child.pipeline, origin);
                // The parent was checked for changes, and its pipeline includes those of its child runs.
                resume.accept = true;
                resume.may_be_over = true;
                // Whoever took over the parent owns its child runs too.
                resume.open.take_over = true;
                resume.open.accept_loss = parent.origin.accept_loss;
                resume.await
            }
            folder => {
                if let Some(folder) = folder.as_ref().filter(|_| stage.is_repeat() && parent.is_owned()) {
                    // The previous attempt did not get as far as creating a run there.
                    let _ = std::fs::remove_dir_all(folder);
                }
                let mut start = StartBuilder::of_child(settings, child.pipeline, origin, child.context, id);
                if let Some(folder) = folder {
                    start = start.run_dir(folder);
                }
                start.await
            }
        };
        started.map_err(|error| {
            if let StartError::Store(failure) = &error {
                parent.may_be_broken(failure);
            }
            if goes_on {
                // The child did a part of its work, so a failed resume is not a failure of the stage.
                let reason = format!("the child pipeline cannot go on: {error}");
                return Suspension::new(SuspensionCause::ChildStuck, reason).into();
            }
            let reason = format!("the child pipeline cannot be started: {error}");
            Outcome::fail_terminal(reason).with_code("child_start").into()
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
            self.run.settle_with(of, result.usage);
        }
        if let (Err(RunError::Store { source, .. }), Some(parent)) = (&ended, self.parent.upgrade()) {
            parent.may_be_broken(source);
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
                Outcome::fail(format!("timed out after {}", format_duration(limit))).with_code("timeout")
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
    match ended {
        Ok(result) if result.status == RunStatus::Paused => {
            let reason = failure(ended).unwrap_or_default();
            let cause = match result.failure {
                Some(RunFailure::Budget { .. }) => SuspensionCause::OverBudget,
                _ => SuspensionCause::WaitsForHuman,
            };
            Some(Suspension::new(
                cause,
                format!("in run {}, {reason}", result.run_id),
            ))
        }
        _ => None,
    }
}

/// Returns the default working folder of a child's stages. In a run with a workspace it is relative to the folder of
/// the execution path.
pub(crate) fn working_dir(run: &Run) -> Option<PathBuf> {
    match run.work_files() {
        Some(_) => run.below().map(Path::to_owned),
        None => run.origin.working_dir.clone(),
    }
}

/// Returns whether a relative path leads out of its base folder.
fn leads_out(folder: &Path) -> bool {
    let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    !folder.components().all(inside)
}

/// Returns whether a stage runs another pipeline by the built-in handler.
pub(crate) fn runs_another(stage: Stage<'_>, registry: &Registry) -> bool {
    matches!(stage.kind(), kind::MANAGER_LOOP | kind::SUBPIPELINE) && registry.get(stage.kind()).is_none()
}

/// Returns the pipeline that a stage runs, and its handlers. A file takes precedence over a registered pipeline.
pub(crate) fn child_of(
    settings: &Settings,
    pipeline: &Pipeline,
    registry: &Arc<Registry>,
    stage: Stage<'_>,
) -> Option<(SharedPipeline, Arc<Registry>)> {
    if let Some(child) = pipeline.child(stage.row()) {
        return Some((child.pipeline.clone(), registry.clone()));
    }
    if stage.kind() != kind::SUBPIPELINE {
        return None;
    }
    settings
        .subpipelines
        .get(stage.text("subpipeline.name")?)
        .cloned()
}

/// Returns the pipelines that a pipeline runs as child runs, directly or indirectly, without duplicates.
pub(crate) fn descendants(
    settings: &Settings,
    pipeline: &SharedPipeline,
    registry: &Arc<Registry>,
) -> Vec<(SharedPipeline, Arc<Registry>)> {
    let runners = [kind::MANAGER_LOOP, kind::SUBPIPELINE];
    if !pipeline.kinds.iter().any(|kind| runners.contains(&&**kind)) {
        return Vec::new();
    }
    let address = |pipeline: &SharedPipeline| std::ptr::from_ref::<Pipeline>(pipeline);
    let mut found: Vec<(SharedPipeline, Arc<Registry>)> = Vec::new();
    let mut ahead = vec![(pipeline.clone(), registry.clone())];
    while let Some((of, registry)) = ahead.pop() {
        for stage in stages(&of).filter(|stage| runs_another(*stage, &registry)) {
            let Some(child) = child_of(settings, &of, &registry, stage) else {
                continue;
            };
            let known = |other: &SharedPipeline| std::ptr::eq(address(other), address(&child.0));
            if !known(pipeline) && !found.iter().any(|(other, _)| known(other)) {
                found.push(child.clone());
                ahead.push(child);
            }
        }
    }
    found
}

/// Returns all stages of a pipeline, in the order of the file.
pub(crate) fn stages(pipeline: &Pipeline) -> impl Iterator<Item = Stage<'_>> {
    (0..pipeline.nodes.len() as u32).map(|at| pipeline.stage(orchestra_graph::NodeIndex(at)))
}

/// Returns the reason for which a stage cannot run another pipeline. Returns `None` if it can, or if it is simulated
/// without one.
pub(crate) fn refuse(
    settings: &Settings,
    pipeline: &Pipeline,
    registry: &Arc<Registry>,
    stage: Stage<'_>,
) -> Option<Refusal> {
    if !runs_another(stage, registry) {
        return None;
    }
    let id = stage.id();
    let there = child_of(settings, pipeline, registry, stage).is_some();
    let (code, message) = if !there && settings.executes_stages() {
        ("missing_child", missing(settings, pipeline, stage))
    } else if stage.kind() == kind::MANAGER_LOOP && settings.executes_stages() && !autostarts(pipeline, stage)
    {
        (
            "not_provided",
            format!(
                "node `{id}` says `stack.child_autostart=false`, but nothing else starts a child that it could \
                 supervise; leave the attribute out"
            ),
        )
    } else if stage.kind() == kind::MANAGER_LOOP
        && let Err(error) = ManagerPlan::from_stage(stage)
    {
        (
            "attribute_value",
            format!("node `{id}` cannot supervise: {error}"),
        )
    } else {
        return None;
    };
    Some(Refusal::at(pipeline, stage.row().position, code, message))
}

/// Returns the error message for a stage without a child pipeline.
fn missing(settings: &Settings, pipeline: &Pipeline, stage: Stage<'_>) -> String {
    let id = stage.id();
    let attribute = match stage.kind() {
        kind::MANAGER_LOOP => "stack.child_dotfile",
        _ => "subpipeline.file",
    };
    if let Some(file) = said(pipeline, stage, attribute) {
        return format!(
            "node `{id}` runs the pipeline `{file}` (`{attribute}`), which was not loaded with its parent; give the \
             loader a reader of such files (`LoadOptions::children`)"
        );
    }
    match said(pipeline, stage, "subpipeline.name") {
        Some(name) if stage.kind() == kind::SUBPIPELINE => {
            let near = Refusal::suggest(name, settings.subpipelines.keys().map(String::as_str));
            format!(
                "node `{id}` runs the pipeline `{name}`, which the engine does not know; register it by \
                 `Engine::builder().subpipeline(..)`{near}"
            )
        }
        _ => format!(
            "node `{id}` runs another pipeline, but does not say which; name its file by `{attribute}`"
        ),
    }
}

/// Returns a non-empty text attribute of the node, else of the graph.
fn said<'p>(pipeline: &'p Pipeline, stage: Stage<'p>, name: &str) -> Option<&'p str> {
    let graph = || match pipeline.attribute(name) {
        Some(Constant::String(text)) => Some(&**text),
        _ => None,
    };
    stage.text(name).or_else(graph).filter(|text| !text.is_empty())
}

/// Returns whether a manager loop starts its child. The attribute of the node overrides that of the graph.
fn autostarts(pipeline: &Pipeline, stage: Stage<'_>) -> bool {
    const NAME: &str = "stack.child_autostart";
    let said = stage.attribute(NAME).or(pipeline.attribute(NAME));
    !matches!(said, Some(Constant::Boolean(false)))
}
