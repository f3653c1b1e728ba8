//! Where a run is kept, behind a trait so that a test can make every write fail.

mod error;
#[allow(dead_code)]
mod files;
mod folder;
#[allow(dead_code)]
mod journal;
#[allow(dead_code)]
mod line;
mod owner;
mod stages;
mod temporary;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orchestra_core::{Context, NodeOutcome, RunFailure, State, Status};
use orchestra_graph::{NodeIndex, Pipeline};
use serde::{Deserialize, Serialize};

pub use error::StoreError;
pub(crate) use files::system;
pub use files::{Access, FileSystem, OpenFile, SystemFiles};
pub use folder::FolderStore;
pub(crate) use journal::Journal;
pub(crate) use line::{AROUND, Position, scan};
pub use owner::Owner;
pub(crate) use temporary::TemporaryFolder;

use crate::clock::Timestamp;
use crate::event::RunEvent;

/// The file of a run's records.
pub(crate) const JOURNAL: &str = "journal.jsonl";

/// What a run's records survive (rules D1, D3).
///
/// ```
/// use orchestra_engine::Durability;
/// assert_eq!(Durability::default(), Durability::Full);
/// assert_eq!(serde_json::to_string(&Durability::Process)?, r#""process""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Durability {
    /// A loss of power: a stage counts as done when the disk has its record.
    #[default]
    Full,
    /// The end of the process, but not a loss of power: a stage counts as done when the system has its record.
    Process,
    /// Nothing: there is no journal. A run can go on only from a pause or an end.
    None,
}

/// Keeps one run (Attractor 5.6, rule D2). Calls come one at a time from the run, and from its stages.
///
/// [`FolderStore`] is the one that the engine uses; others serve tests.
///
/// ```
/// use orchestra_engine::{FolderStore, RunStore, StageFile, StoreError};
///
/// fn note(store: &dyn RunStore) -> Result<Option<Vec<u8>>, StoreError> {
///     store.stage("build".into(), 1)?;
///     store.write("build".into(), StageFile::Response, b"built")?;
///     store.read("build".into(), StageFile::Response)
/// }
///
/// let place = tempfile::tempdir()?;
/// let store = FolderStore::create(&place.path().join("run"))?;
/// assert_eq!(note(&store)?.as_deref(), Some(&b"built"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait RunStore: Send + Sync + 'static {
    /// The folder of the run.
    fn folder(&self) -> &Path;

    /// Keeps what the run is.
    ///
    /// # Errors
    /// The manifest could not be written.
    fn manifest(&self, manifest: &Manifest) -> Result<(), StoreError>;

    /// Keeps an event.
    ///
    /// # Errors
    /// The event could not be written.
    fn event(&self, event: &RunEvent) -> Result<(), StoreError>;

    /// Replaces the checkpoint: when this returns, the new one is durable; when it fails, the old one is intact.
    ///
    /// # Errors
    /// The checkpoint could not be written.
    fn checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), StoreError>;

    /// The run begins anew (rule R9): what follows is kept in `restart-N`.
    ///
    /// # Errors
    /// The folder could not be made.
    fn restarted(&self, restart: u32) -> Result<(), StoreError>;

    /// The folder of a stage, made where it is missing; what an earlier visit left is moved to `visits/N`.
    ///
    /// # Errors
    /// The folder could not be made, or is not one.
    fn stage(&self, place: StagePlace<'_>, visit: u32) -> Result<PathBuf, StoreError>;

    /// Writes a file of a stage.
    ///
    /// # Errors
    /// The file could not be written.
    fn write(&self, place: StagePlace<'_>, file: StageFile, bytes: &[u8]) -> Result<(), StoreError>;

    /// Reads a file of a stage; `None` where there is none.
    ///
    /// # Errors
    /// The file could not be read, is too large, or is not a plain file.
    fn read(&self, place: StagePlace<'_>, file: StageFile) -> Result<Option<Vec<u8>>, StoreError>;

    /// Removes a file of a stage, if it is there.
    ///
    /// # Errors
    /// The file could not be removed.
    fn remove(&self, place: StagePlace<'_>, file: StageFile) -> Result<(), StoreError>;
}

/// Which stage files belong to: a node, and the branch where several branches run the same node.
///
/// ```
/// use orchestra_engine::{FolderStore, RunStore, StageFile, StagePlace};
/// let place = tempfile::tempdir()?;
/// let store = FolderStore::create(&place.path().join("run"))?;
/// let left = StagePlace { node: "lint", branch: "left" };
/// let folder = store.stage(left, 1)?;
/// assert!(folder.ends_with("lint/branches/left"));
/// assert!(store.stage("lint".into(), 1)?.ends_with("lint"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagePlace<'a> {
    /// The node.
    pub node: &'a str,
    /// The branch; empty where the node is run by one alone.
    pub branch: &'a str,
}

impl<'a> From<&'a str> for StagePlace<'a> {
    fn from(node: &'a str) -> StagePlace<'a> {
        StagePlace { node, branch: "" }
    }
}

/// A file that the engine keeps for a stage (rule D2).
///
/// ```
/// assert_eq!(orchestra_engine::StageFile::Status.name(), "status.json");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StageFile {
    /// The outcome.
    Status,
    /// The prompt of a model stage, or the question of a human one.
    Prompt,
    /// The response of a model, or the answer of a person.
    Response,
    /// What a tool wrote to its standard output.
    ToolOutput,
    /// What a tool wrote to its standard error.
    ToolError,
}

impl StageFile {
    /// The file's name.
    pub const fn name(self) -> &'static str {
        match self {
            StageFile::Status => "status.json",
            StageFile::Prompt => "prompt.md",
            StageFile::Response => "response.md",
            StageFile::ToolOutput => "tool_output.txt",
            StageFile::ToolError => "tool_stderr.txt",
        }
    }
}

/// What a run is: `manifest.json` (Attractor 5.6, rule D2).
///
/// ```
/// use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let text = "digraph hello { goal=greet; start -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let folder = place.path().join("run");
/// let start = Engine::builder().build()?.start_loaded(pipeline, ()).run_dir(&folder);
/// start.await?.wait().await?;
/// let manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.join("manifest.json"))?)?;
/// assert_eq!((&manifest["name"], &manifest["goal"]), (&"hello".into(), &"greet".into()));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Manifest {
    /// The form of the file.
    pub schema: &'static str,
    /// The run.
    pub run: String,
    /// The name of the pipeline.
    pub name: String,
    /// Its goal; may be empty.
    pub goal: String,
    /// The pipeline's file.
    pub file: String,
    /// When the run began.
    pub started: Timestamp,
    /// The seed of every chance in the run.
    pub seed: u64,
    /// Whether no stage is really run.
    pub simulated: bool,
    /// The version of the engine.
    pub engine: &'static str,
}

/// The state of a run after a stage: `checkpoint.json` (Attractor 5.3, rule D2).
///
/// ```
/// use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let folder = place.path().join("run");
/// let start = Engine::builder().build()?.start_loaded(pipeline, ()).run_dir(&folder);
/// start.await?.wait().await?;
/// let checkpoint: serde_json::Value =
///     serde_json::from_slice(&std::fs::read(folder.join("checkpoint.json"))?)?;
/// assert_eq!((&checkpoint["status"], &checkpoint["current_node"]), (&"success".into(), &"exit".into()));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checkpoint {
    /// The form of the file.
    pub schema: &'static str,
    /// The run.
    pub run: String,
    /// When this was so.
    pub timestamp: Timestamp,
    /// `running`, or how the run ended: `success`, `fail`, `paused`, `cancelled`.
    pub status: &'static str,
    /// Why the run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<RunFailure>,
    /// The node that ended last; empty before the first.
    pub current_node: String,
    /// The nodes that ended, in order.
    pub completed_nodes: Vec<String>,
    /// How often each node was run again.
    pub node_retries: BTreeMap<String, u32>,
    /// How often each node was visited.
    pub node_visits: BTreeMap<String, u32>,
    /// The latest outcome of each node.
    pub node_outcomes: BTreeMap<String, RecordedOutcome>,
    /// How often the run was restarted.
    pub restarts: u32,
    /// The named values.
    pub context: Context,
    /// The seed of every chance in the run.
    pub seed: u64,
}

/// The latest outcome of a node in a checkpoint or a result (Attractor 5.3).
///
/// ```
/// use orchestra_engine::{RecordedOutcome, Status};
/// let written = r#"{"status":"fail","notes":"two tests failed"}"#;
/// let outcome: RecordedOutcome = serde_json::from_str(written)?;
/// assert_eq!((&outcome.status, outcome.notes.as_deref()), (&Status::Fail, Some("two tests failed")));
/// assert_eq!(serde_json::to_string(&outcome)?, written);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedOutcome {
    /// How it ended.
    pub status: Status,
    /// A summary, or the reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

impl From<&NodeOutcome> for RecordedOutcome {
    fn from(outcome: &NodeOutcome) -> RecordedOutcome {
        RecordedOutcome {
            status: outcome.status.clone(),
            notes: outcome.notes.clone(),
        }
    }
}

impl Checkpoint {
    /// The checkpoint of a state.
    pub(crate) fn of(
        run: &str,
        timestamp: Timestamp,
        pipeline: &Pipeline,
        state: &State,
        status: &'static str,
        failure: Option<&RunFailure>,
    ) -> Checkpoint {
        let id = |at: usize| {
            pipeline
                .nodes
                .get(at)
                .map_or_else(String::new, |row| row.id.to_string())
        };
        let main = &state.main;
        let visits = (0..pipeline.nodes.len()).map(|at| (at, main.visits.get(NodeIndex(at as u32))));
        let retries = main.retries.iter();
        Checkpoint {
            schema: "orchestra.checkpoint/1",
            run: run.to_owned(),
            timestamp,
            status,
            failure: failure.cloned(),
            current_node: main.path.last().map_or_else(String::new, |node| id(node.at())),
            completed_nodes: main.path.iter().map(|node| id(node.at())).collect(),
            node_retries: retries
                .map(|(at, retries)| (id(*at as usize), *retries))
                .collect(),
            node_visits: visits
                .filter(|(_, visits)| *visits > 0)
                .map(|(at, visits)| (id(at), visits))
                .collect(),
            node_outcomes: main
                .outcomes
                .iter()
                .map(|(node, outcome)| (id(node.at()), outcome.into()))
                .collect(),
            restarts: state.totals.restarts,
            context: main.context.clone(),
            seed: state.totals.seed,
        }
    }
}
