//! The state of a run at a checkpoint (Attractor 5.3, rules D2, D3).

use std::collections::BTreeMap;
use std::path::Path;

use orchestra_core::{Context, NodeOutcome, RunFailure, State, Status};
use orchestra_graph::{NodeIndex, SharedPipeline};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::line::Position;
use super::{RunIdentity, StoreError, sealed};
use crate::clock::Timestamp;
use crate::run_path::Path as Nodes;
use crate::run_status::RunStatus;

/// The schema of checkpoint files.
const SCHEMA: &str = "orchestra.checkpoint/1";

/// Returns the name of the checkpoint after a record (rule D4).
pub(crate) fn checkpoint_name(record: u64) -> String {
    format!("cp_{record:06}")
}

/// Returns the number of the record before a named checkpoint. Returns `None` if the name is invalid.
pub(crate) fn checkpoint_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("cp_")?.parse().ok()?;
    (checkpoint_name(number) == name).then_some(number)
}

/// The state of a run after a stage: `checkpoint.json` (Attractor 5.3, rule D2).
///
/// ```
/// use orchestra_engine::{Engine, RunFolder};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let folder = directory.path().join("run");
/// let start = Engine::builder().build()?.start(pipeline, ()).run_dir(&folder);
/// start.await?.wait().await?;
/// let checkpoint = RunFolder::open(&folder)?.checkpoint()?.expect("it ended");
/// assert_eq!((checkpoint.status.as_str(), checkpoint.current_node.as_str()), ("success", "exit"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Checkpoint {
    /// The schema of the file.
    pub schema: String,
    /// The id of the run.
    pub run: String,
    /// The time of the checkpoint.
    pub timestamp: Timestamp,
    /// `running`, or the status in which the run ended: `success`, `fail`, `paused`, `cancelled`.
    pub status: String,
    /// The reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<RunFailure>,
    /// The node at which the run failed (rule D9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<String>,
    /// The node that ended last. Empty before the first has ended.
    pub current_node: String,
    /// The nodes that ended, in order.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub completed_nodes: Nodes,
    /// The number of retries of each node.
    pub node_retries: BTreeMap<String, u32>,
    /// The number of visits of each node.
    pub node_visits: BTreeMap<String, u32>,
    /// The latest outcome of each node.
    pub node_outcomes: BTreeMap<String, RecordedOutcome>,
    /// The number of restarts of the run.
    pub restarts: u32,
    /// The files of the main path, in the format of the workspace; for git repositories `{name: {git_sha, branch}}`.
    /// `None` if nothing has changed since the start of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_snapshot: Option<Value>,
    /// The values of the context.
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, Value>"))]
    pub context: Context,
    /// The seed of all random decisions of the run.
    pub seed: u64,
    /// The state of the machine, from which the run resumes. JSON that only the engine understands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub(crate) state: Option<Box<RawValue>>,
    /// The position in the journal that corresponds to the state.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub(crate) journal: Position,
    /// The run and the pipeline that the state belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub(crate) identity: Option<RunIdentity>,
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordedOutcome {
    /// The status.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
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
    /// Creates the checkpoint of a state.
    pub(crate) fn new(
        run: &str,
        timestamp: Timestamp,
        pipeline: &SharedPipeline,
        state: &State,
        status: &'static str,
        failure: Option<&RunFailure>,
    ) -> Checkpoint {
        let id = |at: usize| pipeline.stage(NodeIndex(at as u32)).id().to_owned();
        let main = &state.main;
        let visits = (0..pipeline.nodes.len()).map(|at| (at, main.visits.get(NodeIndex(at as u32))));
        let retries = main.retries.iter();
        Checkpoint {
            schema: SCHEMA.to_owned(),
            run: run.to_owned(),
            timestamp,
            status: status.to_owned(),
            failed_at: failure
                .filter(|failure| RunStatus::from_failure(Some(*failure)) == RunStatus::Fail)
                .and_then(RunFailure::node)
                .map(str::to_owned),
            failure: failure.cloned(),
            current_node: main
                .completed
                .last()
                .map_or_else(String::new, |node| id(node.at())),
            completed_nodes: Nodes::new(pipeline.clone(), main.completed.clone()),
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
            workspace_snapshot: main.snapshot().map(|snapshot| snapshot.value.clone()),
            context: main.context.clone(),
            seed: state.totals.seed,
            state: None,
            journal: Position::default(),
            identity: None,
        }
    }

    /// Adds the state of the machine and the corresponding position in the journal, so that a run can resume from it.
    #[must_use]
    pub(crate) fn with_state(
        mut self,
        state: Box<RawValue>,
        journal: Position,
        identity: Option<RunIdentity>,
    ) -> Checkpoint {
        self.state = Some(state);
        self.journal = journal;
        self.identity = identity;
        self
    }

    /// Parses a checkpoint.
    ///
    /// # Errors
    /// Fails if it is damaged or has an unknown schema.
    pub(crate) fn read(path: &Path, text: &[u8]) -> Result<Checkpoint, StoreError> {
        sealed::unseal(path, text, SCHEMA, true)
    }
}
