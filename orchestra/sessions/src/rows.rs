//! What the index tells of runs.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use orchestra_engine::{ReplayedFrom, RunId, TestedCondition, Timestamp, Usage};
use serde::{Serialize, Serializer};

/// How a run stands, as its events say.
///
/// ```
/// use orchestra_sessions::SessionStatus;
/// assert!(SessionStatus::Running.is_open() && !SessionStatus::Fail.is_open());
/// assert_eq!(serde_json::to_string(&SessionStatus::Cancelled)?, r#""cancelled""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionStatus {
    /// It has a folder, and nothing has happened yet.
    #[default]
    Accepted,
    /// It goes on.
    Running,
    /// It has stopped so that it can be resumed.
    Paused,
    /// It succeeded.
    Success,
    /// It failed.
    Fail,
    /// Somebody ended it.
    Cancelled,
    /// It did not end, but its process is gone. No event tells this, so it is never in the index: whoever has looked at
    /// the owner's lock says it, by [`Session::owner_is_gone`].
    Interrupted,
}

impl SessionStatus {
    pub(crate) const STORED: [SessionStatus; 6] = [
        SessionStatus::Accepted,
        SessionStatus::Running,
        SessionStatus::Paused,
        SessionStatus::Success,
        SessionStatus::Fail,
        SessionStatus::Cancelled,
    ];

    /// As one word, for machines.
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

    /// Whether a process should be at it.
    pub const fn is_open(self) -> bool {
        matches!(self, SessionStatus::Accepted | SessionStatus::Running)
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
/// # let place = tempfile::tempdir()?;
/// # let runs_dir = place.path();
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// engine.start_loaded(pipeline, ()).run_id("nightly").await?.wait().await?;
/// let session = SessionIndex::open(runs_dir)?.run("nightly")?;
/// assert_eq!((session.name.as_str(), session.status), ("hello", SessionStatus::Success));
/// assert_eq!((session.stages, session.transitions), (2, 1));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Session {
    /// Its name.
    pub run: RunId,
    /// The name of the pipeline.
    pub name: String,
    /// The pipeline's goal; may be empty.
    pub goal: String,
    /// The pipeline's file; may be empty.
    pub file: String,
    /// The run's folder.
    pub folder: PathBuf,
    /// How it stands.
    pub status: SessionStatus,
    /// Whether no stage was really run.
    pub simulated: bool,
    /// When it began.
    pub started: Option<Timestamp>,
    /// When something happened last.
    pub updated: Option<Timestamp>,
    /// When it ended; a paused run has not.
    pub ended: Option<Timestamp>,
    /// Why it failed or paused, as one word.
    pub code: Option<String>,
    /// Why it failed, paused or was cancelled, in words.
    pub reason: Option<String>,
    /// The node at which it failed, or the gate that waits.
    pub node: Option<String>,
    /// How often it was opened for writing.
    pub epoch: u64,
    /// How many checkpoints it saved.
    pub checkpoints: u64,
    /// The last of them, such as `cp_000012`.
    pub checkpoint: Option<String>,
    /// The checkpoint that it was begun from, where it is a replay.
    pub replayed_from: Option<ReplayedFrom>,
    /// How often it began anew.
    pub restarts: u64,
    /// How many attempts at stages began.
    pub stages: u64,
    /// How many of them failed.
    pub failures: u64,
    /// How many ran again because the run was interrupted.
    pub repeats: u64,
    /// How many ways on were chosen.
    pub transitions: u64,
    /// How many tools were called.
    pub tool_calls: u64,
    /// What all stages used of models.
    #[serde(flatten)]
    pub usage: Usage,
    /// The number of its last event.
    pub events: u64,
    /// How many lines of `events.jsonl` could not be read, or are of a newer version.
    pub skipped_lines: u64,
}

impl Session {
    /// The run as it stands when nobody owns it any more: one that did not end was interrupted.
    #[must_use]
    pub fn owner_is_gone(mut self) -> Session {
        if self.status.is_open() {
            self.status = SessionStatus::Interrupted;
        }
        self
    }
}

/// How an attempt at a stage stands.
///
/// ```
/// assert_eq!(orchestra_sessions::StageState::Cancelled.word(), "cancelled");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StageState {
    /// It goes on, or its process is gone and the run was not resumed yet.
    Running,
    /// It ended otherwise than by a failure.
    Completed,
    /// It failed.
    Failed,
    /// It was cut short.
    Cancelled,
    /// The run stopped or was resumed without it.
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

    /// As one word, for machines.
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

/// Which of many rows of a run are read.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::{Page, SessionIndex};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let runs_dir = place.path();
/// # let text = "digraph hello { start -> say -> exit; say [shape=parallelogram, tool_command=true] }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// # engine.start_loaded(pipeline, ()).run_id("nightly").await?.wait().await?;
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
    /// The first rows behind an event.
    After {
        /// The number of that event; 0 for the beginning.
        seq: u64,
        /// How many rows at most.
        most: usize,
    },
    /// The last rows.
    Last {
        /// How many rows at most.
        most: usize,
    },
}

impl Page {
    pub(crate) const ALL: Page = Page::After {
        seq: 0,
        most: usize::MAX,
    };
}

/// An attempt at a stage.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::{SessionIndex, StageState};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let runs_dir = place.path();
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// # engine.start_loaded(pipeline, ()).run_id("nightly").await?.wait().await?;
/// let stages = SessionIndex::open(runs_dir)?.stages("nightly")?;
/// let path: Vec<&str> = stages.iter().map(|stage| stage.node.as_str()).collect();
/// assert_eq!(path, ["start", "exit"]);
/// assert_eq!((stages[0].state, stages[0].outcome.as_deref()), (StageState::Completed, Some("success")));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StageRow {
    /// The number of the event by which it began.
    pub seq: u64,
    /// The stage.
    pub node: String,
    /// The branch of a parallel block; `None` on the main line.
    pub branch: Option<String>,
    /// How many stages began before it in the run.
    pub index: u64,
    /// Which visit of the node, from 1.
    pub visit: u32,
    /// Which attempt of the visit, from 1.
    pub attempt: u32,
    /// Whether it had begun before the run was interrupted.
    pub repeat: bool,
    /// How it stands.
    pub state: StageState,
    /// The outcome word, once it has one.
    pub outcome: Option<String>,
    /// The label that it preferred.
    pub preferred_label: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// Whether it is tried again.
    pub will_retry: bool,
    /// A summary for people.
    pub notes: Option<String>,
    /// When it began; `None` where the event is lost.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// How long it took; written as `duration_ms`.
    #[serde(rename = "duration_ms", serialize_with = "optional_millis")]
    pub duration: Option<Duration>,
    /// What it used of models.
    #[serde(flatten)]
    pub usage: Usage,
}

/// A decision: which way the run went, or that there was none (rule R8).
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::SessionIndex;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let runs_dir = place.path();
/// # let text = r#"digraph hello { start -> exit [condition="outcome=success"] }"#;
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// # engine.start_loaded(pipeline, ()).run_id("nightly").await?.wait().await?;
/// let transitions = SessionIndex::open(runs_dir)?.transitions("nightly")?;
/// let first = &transitions[0];
/// assert_eq!((first.to.as_deref(), first.rule.as_str()), (Some("exit"), "condition"));
/// assert_eq!(first.tested[0].values, [("outcome".to_owned(), "success".to_owned())]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TransitionRow {
    /// The number of its event.
    pub seq: u64,
    /// When it was decided.
    pub time: Timestamp,
    /// The branch of a parallel block; `None` on the main line.
    pub branch: Option<String>,
    /// The node whose edges were chosen from.
    pub from: String,
    /// Where the run went; `None` where nothing leads on, and for a parallel block.
    pub to: Option<String>,
    /// The rule that decided, as one word; `parallel` for a parallel block.
    pub rule: String,
    /// How many branches a parallel block has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branches: Option<u32>,
    /// The conditions that were tested, with the values that they saw.
    pub tested: Vec<TestedCondition>,
}

/// A tool that a stage called.
///
/// ```
/// use orchestra_sessions::SessionIndex;
/// let place = tempfile::tempdir()?;
/// let folder = place.path().join("nightly");
/// std::fs::create_dir(&folder)?;
/// std::fs::write(folder.join("manifest.json"), "{}")?;
/// let line = r#"{"schema":"orchestra.event/1","seq":1,"time":"2026-11-21T15:30:00.042Z","run":"nightly",
///     "event":"ToolCallCompleted","node":"mend","tool":"grep","duration_ms":12.5}"#;
/// std::fs::write(folder.join("events.jsonl"), line.replace('\n', "") + "\n")?;
/// let calls = SessionIndex::open(place.path())?.tool_calls("nightly")?;
/// assert_eq!((calls[0].tool.as_str(), calls[0].duration.as_micros()), ("grep", 12_500));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolCallRow {
    /// The number of its event.
    pub seq: u64,
    /// When it ended.
    pub time: Timestamp,
    /// The stage.
    pub node: String,
    /// The branch of a parallel block; `None` on the main line.
    pub branch: Option<String>,
    /// The tool.
    pub tool: String,
    /// How long it took; written as `duration_ms`.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    pub duration: Duration,
    /// Why it failed.
    pub error: Option<String>,
}

/// What all attempts at a node did together.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::SessionIndex;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let runs_dir = place.path();
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// # engine.start_loaded(pipeline, ()).run_id("nightly").await?.wait().await?;
/// let totals = SessionIndex::open(runs_dir)?.node_totals("nightly")?;
/// assert_eq!((totals[0].node.as_str(), totals[0].attempts, totals[0].failures), ("start", 1, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NodeTotals {
    /// The node.
    pub node: String,
    /// How many attempts began.
    pub attempts: u64,
    /// How many of them failed.
    pub failures: u64,
    /// How many ran again because the run was interrupted.
    pub repeats: u64,
    /// How many tools it called.
    pub tool_calls: u64,
    /// The latest outcome word.
    pub outcome: Option<String>,
    /// How long all attempts took together; written as `duration_ms`.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    pub duration: Duration,
    /// What they used of models.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Which runs are wanted.
///
/// ```
/// use orchestra_sessions::{RunFilter, SessionIndex, SessionStatus};
/// let place = tempfile::tempdir()?;
/// let index = SessionIndex::open(place.path())?;
/// let failed = index.list(&RunFilter::all().status(SessionStatus::Fail).name("release").limit(10))?;
/// assert!(failed.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    pub(crate) statuses: Vec<SessionStatus>,
    pub(crate) name: Option<String>,
    pub(crate) started_before: Option<Timestamp>,
    pub(crate) started_after: Option<Timestamp>,
    pub(crate) limit: Option<usize>,
}

impl RunFilter {
    /// All runs.
    pub fn all() -> RunFilter {
        RunFilter::default()
    }

    /// Only those that stand so; called again, those that stand in any of these ways.
    #[must_use]
    pub fn status(mut self, status: SessionStatus) -> RunFilter {
        self.statuses.push(status);
        self
    }

    /// Only those of the pipeline of that name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> RunFilter {
        self.name = Some(name.into());
        self
    }

    /// Only those that began before a moment.
    #[must_use]
    pub fn started_before(mut self, moment: Timestamp) -> RunFilter {
        self.started_before = Some(moment);
        self
    }

    /// Only those that began at a moment or after it.
    #[must_use]
    pub fn started_after(mut self, moment: Timestamp) -> RunFilter {
        self.started_after = Some(moment);
        self
    }

    /// At most so many, the latest ones.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> RunFilter {
        self.limit = Some(limit);
        self
    }
}

/// Milliseconds, with the microseconds behind the point, as events have them.
fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_micros() as f64 / 1_000.0)
}

fn optional_millis<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => millis(duration, serializer),
        None => serializer.serialize_none(),
    }
}
