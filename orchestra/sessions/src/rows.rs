//! The rows that the index returns.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use orchestra_engine::{
    AttemptResult, RunFolder, RunId, RunPhase, RunSummary, TestedCondition, Timestamp, UnansweredQuestions,
    Usage,
};
use orchestra_graph::NodeState;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::question_row::QuestionRow;

/// The status of a run according to its events.
///
/// ```
/// use orchestra_sessions::SessionStatus;
/// assert!(SessionStatus::Running.is_open() && !SessionStatus::Fail.is_open());
/// assert_eq!(serde_json::to_string(&SessionStatus::Cancelled)?, r#""cancelled""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionStatus {
    /// The run has a folder, but has not started.
    #[default]
    Accepted,
    /// The run is in progress.
    Running,
    /// The run has stopped and can be resumed.
    Paused,
    /// The run succeeded.
    Success,
    /// The run failed.
    Fail,
    /// The run was cancelled.
    Cancelled,
    /// The run has not ended, but its process is gone. No event reports this, so the index never contains this status.
    /// `SessionIndex::with_present_status` sets it, which looks at the lock of the owner.
    Interrupted,
}

impl SessionStatus {
    /// All statuses.
    pub const ALL: [SessionStatus; 7] = [
        SessionStatus::Accepted,
        SessionStatus::Running,
        SessionStatus::Paused,
        SessionStatus::Success,
        SessionStatus::Fail,
        SessionStatus::Cancelled,
        SessionStatus::Interrupted,
    ];

    /// Returns the status with a machine-readable name.
    pub fn parse(word: &str) -> Option<SessionStatus> {
        SessionStatus::ALL
            .into_iter()
            .find(|status| status.word() == word)
    }

    /// Returns the machine-readable name.
    pub const fn word(self) -> &'static str {
        match self {
            SessionStatus::Accepted => "accepted",
            SessionStatus::Running => "running",
            SessionStatus::Paused => "paused",
            SessionStatus::Success => "success",
            SessionStatus::Fail => "fail",
            SessionStatus::Cancelled => "cancelled",
            SessionStatus::Interrupted => "interrupted",
        }
    }

    /// Returns whether a process should be executing the run.
    pub const fn is_open(self) -> bool {
        matches!(self, SessionStatus::Accepted | SessionStatus::Running)
    }
}

impl From<RunPhase> for SessionStatus {
    fn from(phase: RunPhase) -> SessionStatus {
        match phase {
            RunPhase::Accepted => SessionStatus::Accepted,
            RunPhase::Running => SessionStatus::Running,
            RunPhase::Paused => SessionStatus::Paused,
            RunPhase::Success => SessionStatus::Success,
            RunPhase::Fail => SessionStatus::Fail,
            RunPhase::Cancelled => SessionStatus::Cancelled,
        }
    }
}

impl fmt::Display for SessionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A run.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::{SessionIndex, SessionStatus};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// engine.start(pipeline, ()).run_id("nightly").await?.wait().await?;
/// let session = SessionIndex::open(runs_dir)?.run("nightly")?;
/// assert_eq!((session.name.as_str(), session.status), ("hello", SessionStatus::Success));
/// assert_eq!((session.summary.stages, session.summary.transitions), (2, 1));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Session {
    /// The id of the run.
    pub run: RunId,
    /// The name of the pipeline.
    pub name: String,
    /// The goal of the pipeline; may be empty.
    pub goal: String,
    /// The file of the pipeline; may be empty.
    pub file: String,
    /// The folder of the run.
    pub folder: PathBuf,
    /// The status.
    pub status: SessionStatus,
    /// `true` if the run was simulated.
    pub simulated: bool,
    /// The totals of the run and the reason of its last stop, as of the last event.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// The number of lines of `events.jsonl` that could not be parsed, or were written by a newer version.
    pub skipped_lines: u64,
    /// The questions that wait for an answer; serialized as their number, `unanswered_questions`.
    #[serde(rename = "unanswered_questions", serialize_with = "number_of_questions")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub unanswered: UnansweredQuestions,
    /// The latest snapshot that the workspace saved on the main path.
    #[serde(skip)]
    pub snapshot: Option<Value>,
}

impl Session {
    /// Returns whether the run has not ended, and no process owns it. If the owner cannot be determined, the run may be
    /// in progress. So may one that a server executes, whose folder is a copy.
    pub(crate) fn is_abandoned(&self) -> bool {
        let is_free = |run: RunFolder| {
            let is_copy = run.manifest().exported_from.is_some();
            Ok(!is_copy && run.owner()?.is_none())
        };
        self.status.is_open() && matches!(RunFolder::open(&self.folder).and_then(is_free), Ok(true))
    }

    /// Returns the node at which the run failed, or `None` if it has not failed.
    pub fn failed_at(&self) -> Option<&str> {
        match self.status {
            SessionStatus::Fail => self.summary.node.as_deref(),
            _ => None,
        }
    }

    /// Returns the questions that wait for an answer, oldest first.
    pub fn questions(&self) -> Vec<QuestionRow> {
        self.unanswered.iter().map(QuestionRow::new).collect()
    }
}

/// The state of a stage attempt.
///
/// ```
/// assert_eq!(orchestra_sessions::StageState::Cancelled.word(), "cancelled");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StageState {
    /// The attempt is in progress, or its process is gone and the run was not resumed yet.
    Running,
    /// The attempt ended without a failure.
    Completed,
    /// The attempt failed.
    Failed,
    /// The attempt was cancelled.
    Cancelled,
    /// The run stopped or was resumed without the attempt.
    Interrupted,
}

impl StageState {
    pub(crate) const ALL: [StageState; 5] = [
        StageState::Running,
        StageState::Completed,
        StageState::Failed,
        StageState::Cancelled,
        StageState::Interrupted,
    ];

    pub(crate) const fn from_result(result: AttemptResult) -> StageState {
        match result {
            AttemptResult::Completed => StageState::Completed,
            AttemptResult::Failed => StageState::Failed,
            AttemptResult::Cancelled => StageState::Cancelled,
        }
    }

    /// Returns the machine-readable name.
    pub const fn word(self) -> &'static str {
        match self {
            StageState::Running => "running",
            StageState::Completed => "completed",
            StageState::Failed => "failed",
            StageState::Cancelled => "cancelled",
            StageState::Interrupted => "interrupted",
        }
    }
}

/// A page of the rows of a run.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::{Page, SessionIndex};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// # let text = "digraph hello { start -> say -> exit; say [shape=parallelogram, tool_command=true] }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// # engine.start(pipeline, ()).run_id("nightly").await?.wait().await?;
/// let index = SessionIndex::open(runs_dir)?;
/// let last = index.stages_in("nightly", Page::Last { most: 1 })?;
/// assert_eq!((last.len(), last[0].node.as_str()), (1, "exit"));
/// let first = index.stages_in("nightly", Page::After { seq: 0, most: 2 })?;
/// let rest = index.stages_in("nightly", Page::After { seq: first[1].seq, most: 2 })?;
/// assert_eq!((first[1].node.as_str(), rest), ("say", last));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The first rows after an event.
    After {
        /// The sequence number of that event; 0 for the beginning.
        seq: u64,
        /// The maximum number of rows.
        most: usize,
    },
    /// The last rows.
    Last {
        /// The maximum number of rows.
        most: usize,
    },
}

impl Page {
    pub(crate) const ALL: Page = Page::After {
        seq: 0,
        most: usize::MAX,
    };
}

/// A stage attempt.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::{SessionIndex, StageState};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// # engine.start(pipeline, ()).run_id("nightly").await?.wait().await?;
/// let stages = SessionIndex::open(runs_dir)?.stages("nightly")?;
/// let path: Vec<&str> = stages.iter().map(|stage| stage.node.as_str()).collect();
/// assert_eq!(path, ["start", "exit"]);
/// assert_eq!((stages[0].state, stages[0].outcome.as_deref()), (StageState::Completed, Some("success")));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct StageRow {
    /// The sequence number of the event that began the attempt.
    pub seq: u64,
    /// The sequence number of the last event that changed the row.
    pub changed: u64,
    /// The node.
    pub node: String,
    /// The branch of a parallel block; `None` on the main path.
    pub branch: Option<String>,
    /// The number of stages that began before it in the run.
    pub index: u64,
    /// The number of the visit of the node, starting at 1.
    pub visit: u32,
    /// The number of the attempt in the visit, starting at 1.
    pub attempt: u32,
    /// `true` if the attempt repeats one that an interruption of the run cut short.
    pub repeat: bool,
    /// The state.
    pub state: StageState,
    /// The name of the outcome, once there is one.
    pub outcome: Option<String>,
    /// The preferred label of the outcome.
    pub preferred_label: Option<String>,
    /// The reason of the failure.
    pub error: Option<String>,
    /// `true` if another attempt follows.
    pub will_retry: bool,
    /// A human-readable summary.
    pub notes: Option<String>,
    /// The time at which the attempt began; `None` if the event is lost.
    pub started: Option<Timestamp>,
    /// The time at which the attempt ended.
    pub ended: Option<Timestamp>,
    /// The duration; serialized as `duration_ms`.
    #[serde(rename = "duration_ms", serialize_with = "optional_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub duration: Option<Duration>,
    /// The model usage.
    #[serde(flatten)]
    pub usage: Usage,
}

impl StageRow {
    /// Returns the state of the node after this attempt, if it is the latest one, in a run with this status.
    pub(crate) fn node_state(&self, run: SessionStatus) -> NodeState {
        let has_ended = matches!(
            run,
            SessionStatus::Success | SessionStatus::Fail | SessionStatus::Cancelled
        );
        match self.state {
            StageState::Completed => NodeState::Done,
            StageState::Failed if self.will_retry => NodeState::Retrying,
            StageState::Failed => NodeState::Failed,
            // The attempt is in progress, or will be repeated when the run is resumed.
            _ if !has_ended => NodeState::Running,
            _ => NodeState::Skipped,
        }
    }
}

/// A transition: the next node that was chosen, or the fact that there was none (rule R8).
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::SessionIndex;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// # let text = r#"digraph hello { start -> exit [condition="outcome=success"] }"#;
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// # engine.start(pipeline, ()).run_id("nightly").await?.wait().await?;
/// let transitions = SessionIndex::open(runs_dir)?.transitions("nightly")?;
/// let first = &transitions[0];
/// assert_eq!((first.to.as_deref(), first.rule.as_str()), (Some("exit"), "condition"));
/// assert_eq!(first.tested[0].values, [("outcome".to_owned(), "success".to_owned())]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TransitionRow {
    /// The sequence number of the event.
    pub seq: u64,
    /// The time of the decision.
    pub time: Timestamp,
    /// The branch of a parallel block; `None` on the main path.
    pub branch: Option<String>,
    /// The node that was left.
    pub from: String,
    /// The next node; `None` if no edge leads on, and for a parallel block.
    pub to: Option<String>,
    /// The number of the edge among those that leave the node, in the order of the file, starting at 0; `None` for a
    /// jump, for a parallel block, or if no edge leads on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<u32>,
    /// The name of the rule that decided; `parallel` for a parallel block.
    pub rule: String,
    /// The number of branches of a parallel block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branches: Option<u32>,
    /// The conditions that were tested, with the values that they saw.
    pub tested: Vec<TestedCondition>,
}

/// A tool call of a stage.
///
/// ```
/// use orchestra_sessions::SessionIndex;
/// let directory = tempfile::tempdir()?;
/// let folder = directory.path().join("nightly");
/// std::fs::create_dir(&folder)?;
/// std::fs::write(folder.join("manifest.json"), "{}")?;
/// let line = r#"{"schema":"orchestra.event/1","seq":1,"time":"2026-11-21T15:30:00.042Z","run":"nightly",
///     "event":"ToolCallCompleted","node":"mend","tool":"grep","duration_ms":12.5}"#;
/// std::fs::write(folder.join("events.jsonl"), line.replace('\n', "") + "\n")?;
/// let calls = SessionIndex::open(directory.path())?.tool_calls("nightly")?;
/// assert_eq!((calls[0].tool.as_str(), calls[0].duration.as_micros()), ("grep", 12_500));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ToolCallRow {
    /// The sequence number of the event.
    pub seq: u64,
    /// The time at which the call ended.
    pub time: Timestamp,
    /// The node.
    pub node: String,
    /// The branch of a parallel block; `None` on the main path.
    pub branch: Option<String>,
    /// The name of the tool.
    pub tool: String,
    /// The duration; serialized as `duration_ms`.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub duration: Duration,
    /// The reason of the failure.
    pub error: Option<String>,
}

/// The number of times that an edge was tested and taken.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::SessionIndex;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// # let text = r#"digraph hello { start -> exit [condition="outcome=success"] }"#;
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// # engine.start(pipeline, ()).run_id("nightly").await?.wait().await?;
/// let counts = SessionIndex::open(runs_dir)?.edge_counts("nightly")?;
/// let first = &counts[0];
/// assert_eq!((first.from.as_str(), first.edge), ("start", 0));
/// assert_eq!((first.tested, first.held, first.taken), (1, 1, 1));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct EdgeCount {
    /// The node that the edge leaves.
    pub from: String,
    /// The number of the edge among those that leave the node, in the order of the file, starting at 0.
    pub edge: u32,
    /// The number of times that its condition was tested.
    pub tested: u64,
    /// The number of times that its condition was true.
    pub held: u64,
    /// The number of times that a run followed it.
    pub taken: u64,
}

/// The totals of all attempts at a node.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::SessionIndex;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// # engine.start(pipeline, ()).run_id("nightly").await?.wait().await?;
/// let totals = SessionIndex::open(runs_dir)?.node_totals("nightly")?;
/// assert_eq!((totals[0].node.as_str(), totals[0].attempts, totals[0].failures), ("start", 1, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct NodeTotals {
    /// The node.
    pub node: String,
    /// The state of the node according to its latest attempt.
    #[serde(serialize_with = "word")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub state: NodeState,
    /// The number of visits on all execution paths.
    pub visits: u64,
    /// The number of attempts that began.
    pub attempts: u64,
    /// The number of failed attempts.
    pub failures: u64,
    /// The number of attempts that were repeated because the run was interrupted.
    pub repeats: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The name of the latest outcome.
    pub outcome: Option<String>,
    /// The total duration of all attempts; serialized as `duration_ms`.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub duration: Duration,
    /// The model usage of all attempts.
    #[serde(flatten)]
    pub usage: Usage,
}

fn number_of_questions<S: Serializer>(
    questions: &UnansweredQuestions,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(questions.iter().count() as u64)
}

fn word<S: Serializer>(state: &NodeState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.word())
}

/// Serializes a duration as milliseconds with fractional microseconds, like events do.
pub(crate) fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_micros() as f64 / 1_000.0)
}

pub(crate) fn optional_millis<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => millis(duration, serializer),
        None => serializer.serialize_none(),
    }
}
