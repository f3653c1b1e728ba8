//! The result of a run.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use orchestra_core::{Context, NodeOutcome, RunFailure, SharedPipeline, State, Usage};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::clock::Timestamp;
use crate::event::{NodeName, millis};
use crate::id::RunId;
use crate::run_path::Path;
use crate::run_status::RunStatus;
use crate::store::RecordedOutcome;

/// The schema version of serialized results.
const SCHEMA: &str = "orchestra.result/1";

/// The result of a run. Serialized as JSON, it is the result object of the command line.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let result = Engine::builder().build()?.start(pipeline, ()).await?.wait().await?;
/// assert!(result.is_success());
/// assert_eq!(result.path, ["start", "exit"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunResult {
    /// The id of the run.
    pub run_id: RunId,
    /// The status of the run.
    pub status: RunStatus,
    /// The reason why the run did not succeed.
    pub failure: Option<RunFailure>,
    /// The nodes that ended, in order.
    pub path: Path,
    /// The context values at the end.
    pub context: Context,
    /// The latest outcome of each node.
    pub outcomes: Outcomes,
    /// The attempts that failed, in order, with their reasons (rule Y7).
    pub error_history: Vec<FailedAttempt>,
    /// The time of the failure; `None` if the run did not fail.
    pub failed_at: Option<Timestamp>,
    /// The edges, with the number of times each was taken.
    pub transitions: TransitionCounts,
    /// The number of restarts of the run (rule R9). The path begins at the last restart.
    pub restarts: u32,
    /// The usage of all attempts.
    pub usage: Usage,
    /// The time for which the run was executed, in all processes together.
    pub duration: Duration,
    /// The run folder; `None` if nothing was persisted.
    pub run_dir: Option<PathBuf>,
}

impl RunResult {
    pub(crate) fn new(
        run_id: RunId,
        pipeline: SharedPipeline,
        state: State,
        failure: Option<RunFailure>,
        ended: Timestamp,
        duration: Duration,
        run_dir: Option<PathBuf>,
    ) -> RunResult {
        let State { main, totals, .. } = state;
        let status = RunStatus::from_failure(failure.as_ref());
        let errors = main.errors.into_iter().map(|error| FailedAttempt {
            node: NodeName::new(&pipeline, error.node),
            visit: error.visit,
            attempt: error.attempt,
            reason: error.reason,
        });
        RunResult {
            run_id,
            status,
            failure,
            path: Path::new(pipeline.clone(), main.completed),
            context: main.context,
            error_history: errors.collect(),
            failed_at: (status == RunStatus::Fail).then_some(ended),
            transitions: TransitionCounts {
                pipeline: pipeline.clone(),
                taken: totals.taken,
            },
            restarts: totals.restarts,
            usage: totals.usage,
            outcomes: Outcomes {
                pipeline,
                outcomes: main.outcomes,
            },
            duration,
            run_dir,
        }
    }

    /// Returns whether the run reached the exit.
    pub fn is_success(&self) -> bool {
        self.status == RunStatus::Success
    }
}

impl Serialize for RunResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            schema: &'static str,
            run: &'a RunId,
            status: RunStatus,
            path: &'a Path,
            failure_reason: Option<String>,
            failure: Option<&'a RunFailure>,
            outcomes: &'a Outcomes,
            error_history: &'a [FailedAttempt],
            #[serde(skip_serializing_if = "Option::is_none")]
            failed_at: Option<Timestamp>,
            restarts: u32,
            #[serde(skip_serializing_if = "Usage::is_empty")]
            usage: &'a Usage,
            #[serde(serialize_with = "millis")]
            duration_ms: &'a Duration,
            run_dir: Option<String>,
        }
        let run_dir = self.run_dir.as_ref();
        Written {
            schema: SCHEMA,
            run: &self.run_id,
            status: self.status,
            path: &self.path,
            failure_reason: self.failure.as_ref().map(RunFailure::to_string),
            failure: self.failure.as_ref(),
            outcomes: &self.outcomes,
            error_history: &self.error_history,
            failed_at: self.failed_at,
            restarts: self.restarts,
            usage: &self.usage,
            duration_ms: &self.duration,
            run_dir: run_dir.map(|folder| folder.to_string_lossy().into_owned()),
        }
        .serialize(serializer)
    }
}

/// The latest outcome of each node of a run.
///
/// ```
/// # use orchestra_engine::{Engine, Status};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// # let outcomes = Engine::builder().build()?.start(pipeline, ()).await?.wait().await?.outcomes;
/// assert_eq!(outcomes.get("exit").map(|outcome| &outcome.status), Some(&Status::Success));
/// assert_eq!(outcomes.iter().count(), 2);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Outcomes {
    pipeline: SharedPipeline,
    outcomes: orchestra_core::Outcomes,
}

impl Outcomes {
    /// Returns the latest outcome of a node. Returns `None` if it has none.
    pub fn get(&self, node: &str) -> Option<&NodeOutcome> {
        self.outcomes.get(self.pipeline.find(node)?)
    }

    /// Returns an iterator over the nodes that have an outcome, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &NodeOutcome)> {
        let outcomes = self.outcomes.iter();
        outcomes.map(|(node, outcome)| (self.pipeline.stage(node).id(), outcome))
    }
}

impl fmt::Debug for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Outcomes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (node, outcome) in self.iter() {
            map.serialize_entry(node, &RecordedOutcome::from(outcome))?;
        }
        map.end()
    }
}

/// An attempt that failed (rule Y7).
///
/// ```
/// # use orchestra_engine::{Engine, Outcome, Script};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph { start -> build -> exit; build [prompt=Build] }";
/// # let pipeline = load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let script = Script::new().outcomes("build", [Outcome::fail("no compiler")]);
/// let result = Engine::builder().simulate(script).build()?.start(pipeline, ()).await?.wait().await?;
/// let failed = &result.error_history[0];
/// assert_eq!((&*failed.node, failed.attempt, failed.reason.as_str()), ("build", 1, "no compiler"));
/// assert!(result.failed_at.is_some());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailedAttempt {
    /// The node of the stage.
    pub node: NodeName,
    /// The number of the visit, starting at 1.
    pub visit: u32,
    /// The number of the attempt of that visit, starting at 1.
    pub attempt: u32,
    /// The reason of the failure.
    pub reason: String,
}

/// The edges of a pipeline, with the number of times each was taken in a run, including all of its restarts.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let result = Engine::builder().build()?.start(pipeline, ()).await?.wait().await?;
/// let taken: Vec<String> = result.transitions.iter().map(|edge| edge.to_string()).collect();
/// assert_eq!(taken, ["start -> exit: 1"]);
/// assert!(result.transitions.untaken().next().is_none());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct TransitionCounts {
    pipeline: SharedPipeline,
    taken: Vec<u32>,
}

impl TransitionCounts {
    /// Returns an iterator over all edges, in the order of their nodes in the file.
    pub fn iter(&self) -> impl Iterator<Item = TransitionCount<'_>> {
        let edges = self.pipeline.edges.iter().zip(&self.taken);
        edges.map(|(edge, taken)| TransitionCount {
            from: self.pipeline.stage(edge.from).id(),
            to: self.pipeline.stage(edge.to).id(),
            label: self.pipeline.text(edge.label),
            condition: self
                .pipeline
                .condition(edge)
                .map_or("", |condition| condition.text()),
            count: *taken,
        })
    }

    /// Returns an iterator over the edges that were never taken.
    pub fn untaken(&self) -> impl Iterator<Item = TransitionCount<'_>> {
        self.iter().filter(|edge| edge.count == 0)
    }

    /// Returns how often an edge between two nodes was taken. Several edges between them are counted together.
    pub fn between(&self, from: &str, to: &str) -> u64 {
        let edges = self.iter().filter(|edge| edge.from == from && edge.to == to);
        edges.map(|edge| u64::from(edge.count)).sum()
    }
}

impl fmt::Debug for TransitionCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|edge| edge.to_string()))
            .finish()
    }
}

/// An edge, with the number of times it was taken.
///
/// ```
/// use orchestra_engine::TransitionCount;
/// let edge = TransitionCount { from: "test", to: "mend", label: "Broken", condition: "outcome=fail", count: 2 };
/// assert_eq!(edge.to_string(), "test -> mend [Broken]: 2");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TransitionCount<'a> {
    /// The id of the node that the edge comes from.
    pub from: &'a str,
    /// The id of the node that the edge leads to.
    pub to: &'a str,
    /// The label of the edge; may be empty.
    pub label: &'a str,
    /// The condition of the edge; may be empty.
    pub condition: &'a str,
    /// The number of times it was taken.
    pub count: u32,
}

impl fmt::Display for TransitionCount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.from, self.to)?;
        match (self.label, self.condition) {
            ("", "") => {}
            ("", condition) => write!(f, " [{condition}]")?,
            (label, _) => write!(f, " [{label}]")?,
        }
        write!(f, ": {}", self.count)
    }
}
