//! The interface to workspaces, which give each execution path of a run files of its own and save what was done to
//! them. The engine does not know how a workspace does that.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use orchestra_core::{EffectId, JoinedBranch, Outcome, Snapshot};
use orchestra_graph::{NodeIndex, Pipeline, Stage};
use serde_json::Value;

use crate::id::{RunId, fingerprint};
use crate::run::stage::{SaveFiles, SavingFiles, StageContext};
use crate::run::workplace::Workplace;
use crate::stage_end::StageEnd;

/// The future that a workspace returns.
pub type WorkspaceFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Maximum length of a path id in bytes. A longer id is cut and ends in a hash of the whole.
const LINE_LENGTH: usize = 80;

/// A workspace, which gives the execution paths of a run files to work on, such as git worktrees
/// ([`EngineBuilder::workspace`](crate::EngineBuilder::workspace)).
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Arc;
/// use orchestra_engine::{
///     Engine, OpenedWorkspace, Outcome, SimulationBackend, Snapshot, StageEnd, Workplace, Workspace, WorkspaceError,
///     WorkspaceFuture, WorkspaceEnd, WorkspaceRun, WorkspaceSession, WorkspaceStage,
/// };
/// # use orchestra_graph::{LoadOptions, Source, load};
///
/// /// One folder for everybody, of which nothing is kept.
/// struct Shared(std::path::PathBuf);
///
/// impl Workspace for Shared {
///     fn open<'w>(
///         &'w self,
///         _run: WorkspaceRun<'w>,
///     ) -> WorkspaceFuture<'w, Result<OpenedWorkspace, WorkspaceError>> {
///         let session: Arc<dyn WorkspaceSession> = Arc::new(Shared(self.0.clone()));
///         Box::pin(async { Ok(OpenedWorkspace::new("", session)) })
///     }
/// }
///
/// impl WorkspaceSession for Shared {
///     fn enter<'s>(&'s self, _: &'s WorkspaceStage) -> WorkspaceFuture<'s, Result<Workplace, WorkspaceError>> {
///         Box::pin(async { Ok(Workplace::new(self.0.clone(), BTreeMap::new())) })
///     }
///     fn leave<'s>(
///         &'s self,
///         stage: &'s WorkspaceStage,
///         outcome: Outcome,
///     ) -> WorkspaceFuture<'s, (StageEnd, Option<Snapshot>)> {
///         let here = stage.path_id().to_owned();
///         Box::pin(async { (outcome.notes(here).into(), None) })
///     }
///     fn save<'s>(&'s self, _: &'s WorkspaceStage) -> WorkspaceFuture<'s, Result<Option<Snapshot>, WorkspaceError>> {
///         Box::pin(async { Ok(None) })
///     }
///     fn end(&self, _: WorkspaceEnd) -> WorkspaceFuture<'_, Result<(), WorkspaceError>> {
///         Box::pin(async { Ok(()) })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::builder()
///     .backend(SimulationBackend)
///     .workspace(Shared("work".into()))
///     .build()?;
/// let text = "digraph { start -> draft -> exit; draft [prompt=Draft] }";
/// # let pipeline = load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let result = engine.start(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.outcomes.get("draft").and_then(|draft| draft.notes.as_deref()), Some("session"));
/// # Ok(()) }
/// ```
pub trait Workspace: Send + Sync + 'static {
    /// Opens the workspace for a run that begins or is resumed. It should not create anything before a stage needs it,
    /// so that a run that is refused afterwards leaves nothing behind. It is called once more before a changed pipeline
    /// is accepted.
    ///
    /// # Errors
    /// The run cannot have files; then it does not begin.
    fn open<'w>(
        &'w self,
        run: WorkspaceRun<'w>,
    ) -> WorkspaceFuture<'w, Result<OpenedWorkspace, WorkspaceError>>;
}

/// The files of one run. Stages of different execution paths may call it concurrently, those of one path never do. For
/// a complete example see [`Workspace`].
///
/// ```
/// use orchestra_engine::{WorkspaceError, WorkspaceSession, WorkspaceStage};
/// async fn keep(session: &dyn WorkspaceSession, stage: &WorkspaceStage) -> Result<bool, WorkspaceError> {
///     Ok(session.save(stage).await?.is_some())
/// }
/// ```
pub trait WorkspaceSession: Send + Sync + 'static {
    /// Prepares the files of an execution path for an attempt, in the state of the snapshot of the path.
    ///
    /// # Errors
    /// The stage fails, and its handler is not called.
    fn enter<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
    ) -> WorkspaceFuture<'s, Result<Workplace, WorkspaceError>>;

    /// Saves the changes of an attempt that has ended. Nothing of the attempt runs any more, and its outcome counts
    /// once this call returns. The call may replace the outcome or suspend the run. If it returns a snapshot, that
    /// becomes the snapshot of the execution path together with the outcome. Of the reserved context keys, a workspace
    /// may write `workspace.*` (rule K1).
    fn leave<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
        outcome: Outcome,
    ) -> WorkspaceFuture<'s, (StageEnd, Option<Snapshot>)>;

    /// Saves the changes so far at a checkpoint within an attempt.
    ///
    /// # Errors
    /// The changes could not be saved; the checkpoint is made without them.
    fn save<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
    ) -> WorkspaceFuture<'s, Result<Option<Snapshot>, WorkspaceError>>;

    /// Ends the session, because the run has ended in this process.
    ///
    /// # Errors
    /// Something could not be cleaned up; the result of the run does not change.
    fn end(&self, end: WorkspaceEnd) -> WorkspaceFuture<'_, Result<(), WorkspaceError>>;
}

/// The workspace of a run, after it was opened.
///
/// ```
/// use orchestra_engine::OpenedWorkspace;
/// fn is_new(opened: &OpenedWorkspace) -> bool {
///     opened.kept.is_null()
/// }
/// ```
#[non_exhaustive]
pub struct OpenedWorkspace {
    /// The data that is stored with the run. It is passed in again when the run is resumed or another run is replayed
    /// from it.
    pub kept: Value,
    /// The files of the run.
    pub session: Arc<dyn WorkspaceSession>,
}

impl OpenedWorkspace {
    /// Creates the workspace of a run, with the data to store.
    pub fn new(kept: impl Into<Value>, session: Arc<dyn WorkspaceSession>) -> OpenedWorkspace {
        OpenedWorkspace {
            kept: kept.into(),
            session,
        }
    }
}

impl fmt::Debug for OpenedWorkspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedWorkspace")
            .field("kept", &self.kept)
            .finish_non_exhaustive()
    }
}

/// The end of a run in this process.
///
/// ```
/// use orchestra_engine::{RunEnd, WorkspaceEnd};
/// fn is_tidy(end: &WorkspaceEnd) -> bool {
///     end.end == RunEnd::Over && end.snapshot.is_none()
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkspaceEnd {
    /// `RunEnd::Over` if the run has ended, `RunEnd::Paused` if it may be resumed.
    pub end: RunEnd,
    /// The path id of its main path.
    pub path_id: String,
    /// The last snapshot of the main path; `None` if nothing was changed since the run began.
    pub snapshot: Option<Snapshot>,
}

impl WorkspaceEnd {
    pub(crate) fn new(end: RunEnd, restarts: u32, snapshot: Option<Snapshot>) -> WorkspaceEnd {
        WorkspaceEnd {
            end,
            path_id: path_id(restarts, ""),
            snapshot,
        }
    }
}

/// The kind of a run's end, as far as its files are concerned.
///
/// ```
/// assert_ne!(orchestra_engine::RunEnd::Paused, orchestra_engine::RunEnd::Over);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The run has ended, whether it succeeded or not.
    Over,
    /// The run was paused and may be resumed.
    Paused,
}

/// A run that needs files.
///
/// ```
/// use orchestra_engine::WorkspaceRun;
/// fn branch(run: &WorkspaceRun<'_>) -> String {
///     format!("{}/{}", run.pipeline.name, run.run)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WorkspaceRun<'w> {
    /// The id of the run.
    pub run: &'w RunId,
    /// The pipeline of the run.
    pub pipeline: &'w Pipeline,
    /// The data that was [stored](OpenedWorkspace::kept) when the run began. If the run is replayed, the data of the
    /// other run. `None` for a new run.
    pub kept: Option<&'w Value>,
}

impl<'w> WorkspaceRun<'w> {
    pub(crate) fn new(run: &'w RunId, pipeline: &'w Pipeline, kept: Option<&'w Value>) -> WorkspaceRun<'w> {
        WorkspaceRun { run, pipeline, kept }
    }
}

/// The error of files that cannot be provided or saved.
///
/// ```
/// use orchestra_engine::WorkspaceError;
/// let error = WorkspaceError::new("no_commit", "repository `backend` has no commit yet; make one");
/// assert_eq!(error.to_string(), "repository `backend` has no commit yet; make one");
/// assert_eq!(error.code(), "no_commit");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WorkspaceError {
    code: &'static str,
    message: String,
}

impl WorkspaceError {
    /// Creates an error with a code for machines, and a message for people that says how to fix it.
    pub fn new(code: &'static str, message: impl Into<String>) -> WorkspaceError {
        WorkspaceError {
            code,
            message: message.into(),
        }
    }

    /// Returns the code of the error, for machines.
    pub const fn code(&self) -> &'static str {
        self.code
    }

    /// Returns the outcome of a stage whose files cannot be provided. It is not retried, because another attempt would
    /// fail too.
    pub fn outcome(&self) -> Outcome {
        Outcome::fail_terminal(self.message.clone()).with_code(self.code)
    }
}

/// A stage as a workspace sees it: its execution path, and the state that the files of this path must have.
///
/// ```
/// use orchestra_engine::WorkspaceStage;
/// fn needs_files_of_its_own(stage: &WorkspaceStage) -> bool {
///     stage.may_write() || stage.joined().next().is_some()
/// }
/// ```
#[derive(Clone)]
pub struct WorkspaceStage {
    pub(crate) stage: StageContext,
    pub(crate) path_id: String,
    pub(crate) around: Vec<String>,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) joined: Vec<(String, JoinedBranch)>,
    pub(crate) join: Option<NodeIndex>,
    pub(crate) may_write: bool,
    pub(crate) holds_children: bool,
    pub(crate) inherits: bool,
}

impl WorkspaceStage {
    /// Returns the context of the stage, which can ask people and log.
    pub fn stage(&self) -> &StageContext {
        &self.stage
    }

    /// Returns the id of the execution path, which can be the name of a folder: `session` for the main path,
    /// `fan-1-left` for a branch of a parallel block, `fan-1-left+inner-1-a` for a branch within another one,
    /// `restart-1` after a restart (rule R9).
    pub fn path_id(&self) -> &str {
        &self.path_id
    }

    /// Returns the ids of the outer execution paths, innermost first.
    pub fn outer_path_ids(&self) -> &[String] {
        &self.around
    }

    /// Returns the snapshot that the files of the execution path must have. Returns `None` if nothing was changed since
    /// the run began.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// Returns the branches that end at this stage and whose files have not been merged yet, in the order of their
    /// edges, each with its path id.
    pub fn joined(&self) -> impl Iterator<Item = (&str, &JoinedBranch)> {
        self.joined
            .iter()
            .map(|(path_id, branch)| (path_id.as_str(), branch))
    }

    /// Returns the node at which the parallel block of the stage ends. Returns `None` if the stage is not in one.
    pub fn join(&self) -> Option<Stage<'_>> {
        Some(self.stage.pipeline().stage(self.join?))
    }

    /// Returns whether the stage may change files.
    pub fn may_write(&self) -> bool {
        self.may_write
    }

    /// Returns whether the attempt was interrupted before and starts again from the beginning, so that its earlier
    /// changes do not count.
    pub fn starts_over(&self) -> bool {
        self.stage.is_repeat() && self.stage.notes().is_empty() && !self.holds_children
    }

    /// Returns whether the execution path uses the files of the stage of another run, which started this run.
    pub fn inherits(&self) -> bool {
        self.inherits
    }
}

impl fmt::Debug for WorkspaceStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkspaceStage")
            .field("attempt", &self.stage.attempt_key())
            .field("path_id", &self.path_id)
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}

/// The files of a run, with the snapshots of attempts that have not been recorded yet.
pub(crate) struct RunFiles {
    pub(crate) session: Arc<dyn WorkspaceSession>,
    snapshots: Mutex<Vec<(EffectId, Snapshot)>>,
}

impl RunFiles {
    pub(crate) fn new(session: Arc<dyn WorkspaceSession>) -> RunFiles {
        RunFiles {
            session,
            snapshots: Mutex::default(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(EffectId, Snapshot)>> {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the snapshot of an attempt until it is recorded.
    pub(crate) fn keep(&self, id: &EffectId, snapshot: Snapshot) {
        let mut list = self.lock();
        match list.iter_mut().find(|(of, _)| of == id) {
            Some((_, kept)) => *kept = snapshot,
            None => list.push((id.clone(), snapshot)),
        }
    }

    /// Takes the snapshot of an attempt.
    pub(crate) fn take(&self, id: &EffectId) -> Option<Snapshot> {
        let mut list = self.lock();
        let at = list.iter().position(|(of, _)| of == id)?;
        Some(list.swap_remove(at).1)
    }
}

/// The files of a stage while its handler runs.
pub(crate) struct StageFiles {
    pub(crate) stage: Box<WorkspaceStage>,
    pub(crate) of_run: Arc<RunFiles>,
}

impl SaveFiles for StageFiles {
    fn save(&self) -> SavingFiles<'_> {
        Box::pin(async {
            match self.of_run.session.save(&self.stage).await {
                Ok(Some(snapshot)) => self.of_run.keep(self.stage.stage.id(), snapshot),
                Ok(None) => {}
                Err(error) => return Err(error.to_string()),
            }
            Ok(())
        })
    }
}

/// Returns the id of an execution path of an outermost run.
pub(crate) fn path_id(restart: u32, branch: &str) -> String {
    match (restart, branch) {
        (0, "") => SESSION.to_owned(),
        (0, branch) => bounded(plain(branch)),
        (restart, "") => format!("restart-{restart}"),
        (restart, branch) => bounded(format!("restart-{restart}+{}", plain(branch))),
    }
}

/// Returns the id of an execution path of a child run. Its main path has the id of the path of the stage that started
/// it; its branches have ids of their own.
pub(crate) fn child_path_id(parent: &str, attempt_key: &str, restart: u32, branch: &str) -> String {
    if branch.is_empty() {
        return parent.to_owned();
    }
    let own = path_id(restart, branch);
    bounded(format!("{parent}+{}+{own}", plain(attempt_key)))
}

/// The id of the main path of a run.
const SESSION: &str = "session";

/// Converts a position in a run, such as `fan#1.2:left/inner#1:a`, into a name. Ids of nodes do not contain the
/// replacement characters.
fn plain(offset: &str) -> String {
    offset
        .chars()
        .map(|c| match c {
            '/' => '+',
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '.') => c,
            _ => '-',
        })
        .collect()
}

fn bounded(name: String) -> String {
    if name.len() <= LINE_LENGTH {
        return name;
    }
    let number = fingerprint(&[name.as_bytes()]);
    let cut: String = name.chars().take(LINE_LENGTH - 17).collect();
    format!("{cut}-{number:016x}")
}

#[cfg(test)]
mod tests {
    use super::{bounded, child_path_id, path_id};

    #[test]
    fn path_ids_follow_from_their_places() {
        assert_eq!(path_id(0, ""), "session");
        assert_eq!(path_id(0, "fan#1:left"), "fan-1-left");
        assert_eq!(path_id(0, "fan#1.2:left/inner#1:a"), "fan-1.2-left+inner-1-a");
        assert_eq!(path_id(2, ""), "restart-2");
        assert_eq!(path_id(2, "fan#1:left"), "restart-2+fan-1-left");
        assert_eq!(child_path_id("session", "lint#1/1", 1, ""), "session");
        assert_eq!(
            child_path_id("session", "lint#1/1", 0, "fan#1:a"),
            "session+lint-1+1+fan-1-a"
        );
    }

    #[test]
    fn a_long_name_is_cut_and_stays_one_of_a_kind() {
        let (a, b) = (
            bounded(format!("{}a", "x".repeat(200))),
            bounded(format!("{}b", "x".repeat(200))),
        );
        assert!(a.len() <= 80 && b.len() <= 80 && a != b);
    }
}
