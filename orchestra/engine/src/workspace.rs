//! Where stages work on files: the seam for what gives each line of a run files of its own, and keeps what was done to
//! them. The engine knows nothing of how that is done.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use orchestra_core::{EffectId, JoinedBranch, Outcome, Snapshot};
use orchestra_graph::{NodeIndex, Pipeline, Stage};
use serde_json::Value;

use crate::id::{RunId, fingerprint};
use crate::stage::StageContext;
use crate::stage_end::StageEnd;

/// The future of a call of a workspace.
pub type WorkspaceFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A folder name of a line is cut behind so many bytes, and a number made of the whole is put there.
const LINE_LENGTH: usize = 80;

/// What gives the lines of a run files to work on, such as git worktrees
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
///         let here = stage.line().to_owned();
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
/// let result = engine.start_loaded(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.outcomes.get("draft").and_then(|draft| draft.notes.as_deref()), Some("session"));
/// # Ok(()) }
/// ```
pub trait Workspace: Send + Sync + 'static {
    /// A run begins, or goes on. Nothing need be made before a stage wants it, and nothing should be: a run that is refused
    /// afterwards leaves nothing behind. Before a changed pipeline is accepted this is called once more than else.
    ///
    /// # Errors
    /// The run cannot have files; it does not begin then.
    fn open<'w>(
        &'w self,
        run: WorkspaceRun<'w>,
    ) -> WorkspaceFuture<'w, Result<OpenedWorkspace, WorkspaceError>>;
}

/// The files of one run. Stages of different lines may call at the same time, those of one line never do. One that is
/// written in full stands at [`Workspace`].
///
/// ```
/// use orchestra_engine::{WorkspaceError, WorkspaceSession, WorkspaceStage};
/// async fn keep(session: &dyn WorkspaceSession, stage: &WorkspaceStage) -> Result<bool, WorkspaceError> {
///     Ok(session.save(stage).await?.is_some())
/// }
/// ```
pub trait WorkspaceSession: Send + Sync + 'static {
    /// An attempt is about to begin: gives it the files of its line, as the line's snapshot has them.
    ///
    /// # Errors
    /// The stage fails, and its handler is not called.
    fn enter<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
    ) -> WorkspaceFuture<'s, Result<Workplace, WorkspaceError>>;

    /// An attempt has ended, nothing of it runs any more, and its outcome counts when this returns: keeps what was
    /// changed. The outcome may be replaced, or the run suspended; the snapshot, if one is given, becomes that of the line
    /// together with it. Of the reserved context keys a workspace may write `workspace.*` (rule K1).
    fn leave<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
        outcome: Outcome,
    ) -> WorkspaceFuture<'s, (StageEnd, Option<Snapshot>)>;

    /// An attempt has come to a checkpoint within it: keeps what was changed so far.
    ///
    /// # Errors
    /// It could not be kept; the checkpoint is made all the same, without it.
    fn save<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
    ) -> WorkspaceFuture<'s, Result<Option<Snapshot>, WorkspaceError>>;

    /// The run has ended in this process.
    ///
    /// # Errors
    /// Something could not be tidied up; the result of the run stands.
    fn end(&self, end: WorkspaceEnd) -> WorkspaceFuture<'_, Result<(), WorkspaceError>>;
}

/// What a workspace gives a run.
///
/// ```
/// use orchestra_engine::OpenedWorkspace;
/// fn is_new(opened: &OpenedWorkspace) -> bool {
///     opened.kept.is_null()
/// }
/// ```
#[non_exhaustive]
pub struct OpenedWorkspace {
    /// What is kept with the run, and handed over again when it goes on or another run is replayed from it.
    pub kept: Value,
    /// Its files.
    pub session: Arc<dyn WorkspaceSession>,
}

impl OpenedWorkspace {
    /// The files of a run, with what is to be kept of them.
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

/// A run that has ended in this process.
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
    /// How it ended.
    pub end: RunEnd,
    /// The name of its main line.
    pub line: String,
    /// How the files of that line stood last; `None` where nothing was changed since the run began.
    pub snapshot: Option<Snapshot>,
}

impl WorkspaceEnd {
    pub(crate) fn new(end: RunEnd, restarts: u32, snapshot: Option<Snapshot>) -> WorkspaceEnd {
        WorkspaceEnd {
            end,
            line: line_name(restarts, ""),
            snapshot,
        }
    }
}

/// How a run ended, as far as its files go.
///
/// ```
/// assert_ne!(orchestra_engine::RunEnd::Paused, orchestra_engine::RunEnd::Over);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// It is over, whatever came of it.
    Over,
    /// It stopped where it is, and may go on.
    Paused,
}

/// A run that wants files.
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
    /// The run.
    pub run: &'w RunId,
    /// The pipeline that it follows.
    pub pipeline: &'w Pipeline,
    /// What was [kept](Workspace::open) when the run began; of another run where it is replayed from that. `None` for a
    /// run that begins anew.
    pub kept: Option<&'w Value>,
}

impl<'w> WorkspaceRun<'w> {
    pub(crate) fn new(run: &'w RunId, pipeline: &'w Pipeline, kept: Option<&'w Value>) -> WorkspaceRun<'w> {
        WorkspaceRun { run, pipeline, kept }
    }
}

/// Files that cannot be had or kept.
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
    /// An error with a code for machines, and words for people that say how to mend it.
    pub fn new(code: &'static str, message: impl Into<String>) -> WorkspaceError {
        WorkspaceError {
            code,
            message: message.into(),
        }
    }

    /// The error as one word, for machines.
    pub const fn code(&self) -> &'static str {
        self.code
    }

    /// The outcome of a stage that cannot have its files. Another attempt would fare no better.
    pub fn outcome(&self) -> Outcome {
        Outcome::fail_terminal(self.message.clone()).with_code(self.code)
    }
}

/// Where a stage works: the folders of the repositories that its line has.
///
/// ```
/// use std::path::Path;
/// use orchestra_engine::Workplace;
/// let place = Workplace::new("work", [("backend".to_owned(), "work/backend".into())].into());
/// assert_eq!(place.repository("backend"), Some(Path::new("work/backend")));
/// assert_eq!((place.root(), place.repositories().count()), (Path::new("work"), 1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workplace {
    root: PathBuf,
    repositories: BTreeMap<String, PathBuf>,
}

impl Workplace {
    /// A place; the root is that of a single repository, or the folder that holds one for each.
    pub fn new(root: impl Into<PathBuf>, repositories: BTreeMap<String, PathBuf>) -> Workplace {
        Workplace {
            root: root.into(),
            repositories,
        }
    }

    /// Where stages work that name no repository.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a repository.
    pub fn repository(&self, name: &str) -> Option<&Path> {
        self.repositories.get(name).map(PathBuf::as_path)
    }

    /// All repositories with their folders, in the order of their names.
    pub fn repositories(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.repositories
            .iter()
            .map(|(name, folder)| (name.as_str(), folder.as_path()))
    }
}

/// A stage as a workspace sees it: which line it is of, and how the files of that line are to stand.
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
    pub(crate) line: String,
    pub(crate) around: Vec<String>,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) joined: Vec<(String, JoinedBranch)>,
    pub(crate) join: Option<NodeIndex>,
    pub(crate) may_write: bool,
    pub(crate) holds_children: bool,
    pub(crate) inherits: bool,
}

impl WorkspaceStage {
    /// The stage; it can ask people and log.
    pub fn stage(&self) -> &StageContext {
        &self.stage
    }

    /// The name of the line, which can name a folder: `session` for the main line, `fan-1-left` for a branch of a
    /// parallel block, `fan-1-left+inner-1-a` within another one, `restart-1` after a restart (rule R9).
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The lines around this one, the nearest first.
    pub fn lines_around(&self) -> &[String] {
        &self.around
    }

    /// How the files of the line are to stand; `None` where nothing was changed since the run began.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// The branches that end at this stage and whose files have yet to be brought together, in the order of their
    /// edges, each with the name of its line.
    pub fn joined(&self) -> impl Iterator<Item = (&str, &JoinedBranch)> {
        self.joined.iter().map(|(line, branch)| (line.as_str(), branch))
    }

    /// The node at which the parallel block ends in which the stage is; `None` outside of one.
    pub fn join(&self) -> Option<Stage<'_>> {
        Some(self.stage.pipeline().stage(self.join?))
    }

    /// Whether the stage may change files.
    pub fn may_write(&self) -> bool {
        self.may_write
    }

    /// Whether the attempt was cut short before and begins again from nothing, so that what it did then does not count.
    pub fn starts_over(&self) -> bool {
        self.stage.is_repeat() && self.stage.notes().is_empty() && !self.holds_children
    }

    /// Whether the line goes on in the files of a stage of another run, which started this one.
    pub fn inherits(&self) -> bool {
        self.inherits
    }
}

impl fmt::Debug for WorkspaceStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkspaceStage")
            .field("attempt", &self.stage.attempt_key())
            .field("line", &self.line)
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}

/// The files of a run, and what attempts have told of them that have yet to end.
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

    /// Keeps the snapshot of an attempt until the machine is told of it.
    pub(crate) fn keep(&self, id: &EffectId, snapshot: Snapshot) {
        let mut list = self.lock();
        match list.iter_mut().find(|(of, _)| of == id) {
            Some((_, kept)) => *kept = snapshot,
            None => list.push((id.clone(), snapshot)),
        }
    }

    /// The snapshot of an attempt, once.
    pub(crate) fn take(&self, id: &EffectId) -> Option<Snapshot> {
        let mut list = self.lock();
        let at = list.iter().position(|(of, _)| of == id)?;
        Some(list.swap_remove(at).1)
    }
}

/// The name of a line of a run of its own.
pub(crate) fn line_name(restart: u32, branch: &str) -> String {
    match (restart, branch) {
        (0, "") => SESSION.to_owned(),
        (0, branch) => bounded(plain(branch)),
        (restart, "") => format!("restart-{restart}"),
        (restart, branch) => bounded(format!("restart-{restart}+{}", plain(branch))),
    }
}

/// The name of a line of a child: that of the stage that started it; its branches have lines of their own.
pub(crate) fn child_line(line: &str, attempt_key: &str, restart: u32, branch: &str) -> String {
    if branch.is_empty() {
        return line.to_owned();
    }
    let own = line_name(restart, branch);
    bounded(format!("{line}+{}+{own}", plain(attempt_key)))
}

/// The main line of a run.
const SESSION: &str = "session";

/// A place in a run such as `fan#1.2:left/inner#1:a` as a name: no id of a node holds what stands for the marks.
fn plain(place: &str) -> String {
    place
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
    use super::{bounded, child_line, line_name};

    #[test]
    fn names_of_lines_follow_from_their_places() {
        assert_eq!(line_name(0, ""), "session");
        assert_eq!(line_name(0, "fan#1:left"), "fan-1-left");
        assert_eq!(line_name(0, "fan#1.2:left/inner#1:a"), "fan-1.2-left+inner-1-a");
        assert_eq!(line_name(2, ""), "restart-2");
        assert_eq!(line_name(2, "fan#1:left"), "restart-2+fan-1-left");
        assert_eq!(child_line("session", "lint#1/1", 1, ""), "session");
        assert_eq!(
            child_line("session", "lint#1/1", 0, "fan#1:a"),
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
