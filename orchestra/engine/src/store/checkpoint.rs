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
use crate::result::{Path as Nodes, RunStatus};

/// The form in which checkpoints are written.
const SCHEMA: &str = "orchestra.checkpoint/1";

/// The name of the checkpoint after a record (rule D4).
pub(crate) fn checkpoint_name(record: u64) -> String {
    format!("cp_{record:06}")
}

/// The number of the record before the checkpoint of a name.
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
/// # let place = tempfile::tempdir()?;
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let folder = place.path().join("run");
/// let start = Engine::builder().build()?.start_loaded(pipeline, ()).run_dir(&folder);
/// start.await?.wait().await?;
/// let checkpoint = RunFolder::open(&folder)?.checkpoint()?.expect("it ended");
/// assert_eq!((checkpoint.status.as_str(), checkpoint.current_node.as_str()), ("success", "exit"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Checkpoint {
    /// The form of the file.
    pub schema: String,
    /// The run.
    pub run: String,
    /// When this was so.
    pub timestamp: Timestamp,
    /// `running`, or how the run ended: `success`, `fail`, `paused`, `cancelled`.
    pub status: String,
    /// Why the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<RunFailure>,
    /// The node at which the run failed (rule D9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<String>,
    /// The node that ended last; empty before the first.
    pub current_node: String,
    /// The nodes that ended, in order.
    pub completed_nodes: Nodes,
    /// How often each node was run again.
    pub node_retries: BTreeMap<String, u32>,
    /// How often each node was visited.
    pub node_visits: BTreeMap<String, u32>,
    /// The latest outcome of each node.
    pub node_outcomes: BTreeMap<String, RecordedOutcome>,
    /// How often the run was restarted.
    pub restarts: u32,
    /// The files of the main line, as its workspace names them; of git repositories `{name: {git_sha, branch}}`. `None`
    /// where nothing was changed since the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_snapshot: Option<Value>,
    /// The named values.
    pub context: Context,
    /// The seed of every chance in the run.
    pub seed: u64,
    /// The state of the machine, from which the run goes on; as JSON, which only the engine understands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<Box<RawValue>>,
    /// Up to where the journal has led to that state.
    #[serde(default)]
    pub(crate) journal: Position,
    /// The run and the pipeline that the state is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
        pipeline: &SharedPipeline,
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
            schema: SCHEMA.to_owned(),
            run: run.to_owned(),
            timestamp,
            status: status.to_owned(),
            failed_at: failure
                .filter(|failure| RunStatus::of(Some(*failure)) == RunStatus::Fail)
                .and_then(RunFailure::node)
                .map(str::to_owned),
            failure: failure.cloned(),
            current_node: main.path.last().map_or_else(String::new, |node| id(node.at())),
            completed_nodes: Nodes::new(pipeline.clone(), main.path.clone()),
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

    /// The same, for a run to go on from: with the state of its machine, and up to where the journal has led to it.
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

    /// Reads a checkpoint.
    ///
    /// # Errors
    /// It is damaged, or of a form that this version does not know.
    pub(crate) fn read(path: &Path, text: &[u8]) -> Result<Checkpoint, StoreError> {
        sealed::unseal(path, text, SCHEMA, true)
    }
}
