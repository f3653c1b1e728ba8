//! The comparison of two runs, as it is returned.

use std::time::Duration;

use orchestra_engine::{ReplayedFrom, RunId, Usage};
use serde::Serialize;

use crate::rows::{SessionStatus, millis};
use crate::run_step::RunStep;

/// Two runs, aligned to their first divergence.
///
/// The runs are compared step by step: the attempts at stages in the order of the main path, and each decision with the
/// values that its conditions read. The branches of a parallel block are compared by their ids, whichever was faster.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::{DivergenceKind, SessionIndex};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// let text = r#"digraph sizes {
///     start -> small [condition="context.lines<100"]
///     start -> large [condition="context.lines>=100"]
///     small [shape=parallelogram, tool_command="true"]
///     large [shape=parallelogram, tool_command="true"]
///     small -> exit
///     large -> exit
/// }"#;
/// # let pipeline = load(Source::new("sizes.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// for (run, lines) in [("monday", 12), ("tuesday", 120)] {
///     let start = engine.start(pipeline.clone(), ()).run_id(run).param("lines", lines);
///     start.await?.wait().await?;
/// }
/// let comparison = SessionIndex::open(runs_dir)?.compare("monday", "tuesday", &[])?;
/// assert_eq!((comparison.common, comparison.same_pipeline), (0, Some(true)));
/// let divergence = comparison.divergence.expect("the values differ");
/// assert_eq!(divergence.kind, DivergenceKind::Edge);
/// assert_eq!(divergence.values[0].key, "context.lines");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RunComparison {
    /// The first run.
    pub left: ComparedRun,
    /// The second run.
    pub right: ComparedRun,
    /// `true` if both runs have the same pipeline, apart from comments and layout; `None` if a manifest cannot be read.
    pub same_pipeline: Option<bool>,
    /// The changes from the pipeline of the first run to that of the second one, as lines of text, at most twenty;
    /// empty if there are none, or if a pipeline cannot be loaded.
    pub pipeline_changes: String,
    /// The number of steps before the first divergence.
    pub common: usize,
    /// The first divergence; `None` if there is none.
    pub divergence: Option<Divergence>,
    /// The steps of both runs. The rows before the first divergence contain a step of each run.
    pub rows: Vec<AlignedRow>,
    /// `true` if a run has too many steps: those beyond 10,000 attempts are missing, and those more than 2,000 steps
    /// after the first divergence are not aligned.
    pub more: bool,
}

/// A run in a comparison.
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
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// # for run in ["monday", "tuesday"] {
/// #     engine.start(pipeline.clone(), ()).run_id(run).await?.wait().await?;
/// # }
/// let right = SessionIndex::open(runs_dir)?.compare("monday", "tuesday", &[])?.right;
/// assert_eq!((&*right.run, right.name.as_str(), right.status), ("tuesday", "hello", SessionStatus::Success));
/// assert_eq!((right.steps, right.after.attempts), (2, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ComparedRun {
    /// The id of the run.
    pub run: RunId,
    /// The name of the pipeline.
    pub name: String,
    /// The status.
    pub status: SessionStatus,
    /// The run and the checkpoint from which the run was replayed.
    pub replayed_from: Option<ReplayedFrom>,
    /// The number of steps that were compared.
    pub steps: usize,
    /// The totals of the steps from the first divergence on.
    pub after: StepTotals,
}

/// The totals of steps of a run.
///
/// ```
/// let none = orchestra_sessions::StepTotals::default();
/// assert_eq!(serde_json::to_value(none)?["cost_micros"], 0);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct StepTotals {
    /// The number of attempts that began.
    pub attempts: u64,
    /// The duration of the attempts on the main path, during which branches run; serialized as `duration_ms`.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub duration: Duration,
    /// The model usage of all attempts.
    #[serde(flatten)]
    pub usage: Usage,
}

/// A row of a comparison: a step of each run, or a step that only one of them has.
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
/// # for run in ["monday", "tuesday"] {
/// #     engine.start(pipeline.clone(), ()).run_id(run).await?.wait().await?;
/// # }
/// let rows = SessionIndex::open(runs_dir)?.compare("monday", "tuesday", &[])?.rows;
/// assert!(rows.iter().all(|row| row.same && row.differs.is_none() && row.left.is_some() && row.right.is_some()));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AlignedRow {
    /// The step of the first run.
    pub left: Option<RunStep>,
    /// The step of the second run.
    pub right: Option<RunStep>,
    /// `true` if both steps are the same. After the first divergence, the numbers of visits and attempts may differ.
    pub same: bool,
    /// The kind of the difference of two steps at the same node.
    pub differs: Option<DivergenceKind>,
}

/// The first difference of two runs.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::{DivergenceKind, SessionIndex};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// # let working_dir = directory.path();
/// let text = r#"digraph probe { start -> probe -> exit; probe [shape=parallelogram, tool_command="test -f ready"] }"#;
/// # let pipeline = load(Source::new("probe.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir.join("runs")).working_dir(working_dir).build()?;
/// engine.start(pipeline.clone(), ()).run_id("monday").await?.wait().await?;
/// std::fs::write(working_dir.join("ready"), "")?;
/// engine.start(pipeline, ()).run_id("tuesday").await?.wait().await?;
/// let comparison = SessionIndex::open(runs_dir.join("runs"))?.compare("monday", "tuesday", &[])?;
/// let divergence = comparison.divergence.expect("the tool failed on Monday");
/// assert_eq!((divergence.kind, divergence.row), (DivergenceKind::Outcome, 1));
/// let outcomes = [divergence.left, divergence.right].map(|step| step.and_then(|step| step.outcome));
/// assert_eq!(outcomes, [Some("fail".to_owned()), Some("success".to_owned())]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Divergence {
    /// The kind of the difference.
    pub kind: DivergenceKind,
    /// The index of the first row that is not the same; the number of rows if only the ends of the runs differ.
    pub row: usize,
    /// The index of the first row from which the runs go different ways: the outcome, the edge or the node differs, or
    /// a run ends. Differs from `row` only if `kind` is `values`; `None` if no row does.
    pub parts_at: Option<usize>,
    /// The step of the first run; `None` if the run has no further step.
    pub left: Option<RunStep>,
    /// The step of the second run; `None` if the run has no further step.
    pub right: Option<RunStep>,
    /// The values that differ among those that the conditions of the two decisions read.
    pub values: Vec<ValueDifference>,
}

/// The kind of a difference between two runs.
///
/// ```
/// assert_eq!(orchestra_sessions::DivergenceKind::Edge.word(), "edge");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DivergenceKind {
    /// The attempts ended differently.
    Outcome,
    /// The decisions differ: the next node, the edge or the rule.
    Edge,
    /// The decisions are the same, but their conditions read different values.
    Values,
    /// The runs are at different nodes, visits or attempts.
    Node,
    /// One run goes on where the other one ends, stopped, or has not got further.
    End,
}

/// A value that two decisions read differently.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::{DivergenceKind, SessionIndex};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// let text = r#"digraph sizes { start -> exit [condition="context.lines>0"] }"#;
/// # let pipeline = load(Source::new("sizes.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// for (run, lines) in [("monday", 12), ("tuesday", 120)] {
///     let start = engine.start(pipeline.clone(), ()).run_id(run).param("lines", lines);
///     start.await?.wait().await?;
/// }
/// let comparison = SessionIndex::open(runs_dir)?.compare("monday", "tuesday", &[])?;
/// let divergence = comparison.divergence.expect("the values differ");
/// assert_eq!(divergence.kind, DivergenceKind::Values);
/// let value = &divergence.values[0];
/// assert_eq!((value.left.as_deref(), value.right.as_deref()), (Some("12"), Some("120")));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ValueDifference {
    /// The key, as conditions name it.
    pub key: String,
    /// The value in the first run; `None` if no tested condition read it.
    pub left: Option<String>,
    /// The value in the second run; `None` if no tested condition read it.
    pub right: Option<String>,
}

impl DivergenceKind {
    /// Returns the machine-readable name.
    pub const fn word(self) -> &'static str {
        match self {
            DivergenceKind::Outcome => "outcome",
            DivergenceKind::Edge => "edge",
            DivergenceKind::Values => "values",
            DivergenceKind::Node => "node",
            DivergenceKind::End => "end",
        }
    }
}
