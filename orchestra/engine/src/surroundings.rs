//! Where in its run a stage is: what came before, and how much of that its model may see (Attractor 5.4).

use std::fmt;
use std::str::FromStr;

use orchestra_core::{EffectId, Machine, Status};
use orchestra_graph::table::Constant;
use orchestra_graph::{EdgeIndex, NodeIndex, Pipeline, Stage};

/// How many of the stages that ran before are told; how many there were is told too.
const MOST_STAGES: usize = 200;
/// How many failed attempts are told.
const MOST_FAILURES: usize = 50;

/// How much of what came before a stage its model is told (Attractor 5.4).
///
/// ```
/// use orchestra_engine::Fidelity;
/// assert_eq!("summary:high".parse(), Ok(Fidelity::SummaryHigh));
/// assert_eq!(Fidelity::default().to_string(), "compact");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fidelity {
    /// The whole conversation of the thread, which goes on.
    Full,
    /// Only the goal and the run.
    Truncate,
    /// A list of stages, outcomes and values.
    #[default]
    Compact,
    /// A short text of about 600 tokens.
    SummaryLow,
    /// A text of about 1,500 tokens.
    SummaryMedium,
    /// A text of about 3,000 tokens.
    SummaryHigh,
}

impl Fidelity {
    /// The word in pipelines.
    pub const fn word(self) -> &'static str {
        match self {
            Fidelity::Full => "full",
            Fidelity::Truncate => "truncate",
            Fidelity::Compact => "compact",
            Fidelity::SummaryLow => "summary:low",
            Fidelity::SummaryMedium => "summary:medium",
            Fidelity::SummaryHigh => "summary:high",
        }
    }
}

impl fmt::Display for Fidelity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Fidelity {
    type Err = UnknownFidelity;

    fn from_str(word: &str) -> Result<Fidelity, UnknownFidelity> {
        let all = [
            Fidelity::Full,
            Fidelity::Truncate,
            Fidelity::Compact,
            Fidelity::SummaryLow,
            Fidelity::SummaryMedium,
            Fidelity::SummaryHigh,
        ];
        let found = all.into_iter().find(|fidelity| fidelity.word() == word.trim());
        found.ok_or_else(|| UnknownFidelity(word.to_owned()))
    }
}

/// A word that is no fidelity.
///
/// ```
/// use orchestra_engine::Fidelity;
/// let fault = "compct".parse::<Fidelity>().unwrap_err();
/// assert!(fault.to_string().starts_with("`compct` is no fidelity"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no fidelity; it is one of `full`, `truncate`, `compact`, `summary:low`, `summary:medium`, `summary:high`"
)]
pub struct UnknownFidelity(String);

/// A stage that ran before.
///
/// ```
/// use orchestra_engine::{CodergenBackend, CodergenReply, CodergenRequest, BackendError, Engine, Status};
/// # use orchestra_graph::{Source, load};
/// struct Look;
/// impl CodergenBackend for Look {
///     async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
///         let before = request.stage.surroundings().await.stages;
///         Ok(before.iter().map(|stage| format!("{} ", stage.node)).collect::<String>().into())
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph { start -> plan -> write -> exit; plan [prompt=a]; write [prompt=b] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let engine = Engine::builder().backend(Look).build()?;
/// let result = engine.start_loaded(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.context.text("last_response"), "start plan ");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastStage {
    /// The node.
    pub node: String,
    /// How it ended; `None` where only its latest visit is known, which is another.
    pub status: Option<Status>,
    /// A summary, or the reason of a failure.
    pub notes: Option<String>,
}

/// How often the stages of a node called a tool.
///
/// ```
/// use orchestra_engine::{CodergenBackend, CodergenReply, CodergenRequest, BackendError, Engine};
/// # use orchestra_graph::{Source, load};
/// struct Look;
/// impl CodergenBackend for Look {
///     async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
///         let stage = request.stage;
///         stage.record_tool_call("grep", std::time::Duration::ZERO, Some("no match"));
///         let tools = stage.surroundings().await.tools;
///         Ok(format!("{}: {} of {} failed", tools[0].tool, tools[0].failures, tools[0].calls).into())
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph { start -> find -> exit; find [prompt=a] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let engine = Engine::builder().backend(Look).build()?;
/// let result = engine.start_loaded(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.context.text("last_response"), "grep: 1 of 1 failed");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolTally {
    /// The node.
    pub node: String,
    /// The tool.
    pub tool: String,
    /// How often it was called.
    pub calls: u64,
    /// How often it failed.
    pub failures: u64,
}

/// Where in its run a stage is; see [`StageContext::surroundings`](crate::StageContext::surroundings).
///
/// ```
/// use orchestra_engine::{CodergenBackend, CodergenReply, CodergenRequest, BackendError, Engine};
/// # use orchestra_graph::{Source, load};
/// struct Look;
/// impl CodergenBackend for Look {
///     async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
///         let around = request.stage.surroundings().await;
///         Ok(format!("{} in {}", around.fidelity, around.thread).into())
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = "digraph { start -> plan -> write -> exit
///     plan [prompt=a]; write [prompt=b, fidelity=full] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let engine = Engine::builder().backend(Look).build()?;
/// let result = engine.start_loaded(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.context.text("last_response"), "full in plan");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Surroundings {
    /// How much of what came before the stage's model is told: by the edge that led here, the node, the graph, else
    /// `compact`. After a resume the first stage that would see all sees `summary:high` (rule D7).
    pub fidelity: Fidelity,
    /// Whether the run was resumed and [`fidelity`](Surroundings::fidelity) is less than what the pipeline says.
    pub degraded: bool,
    /// Which conversation goes on under `full`: by the node, the edge, the graph, the subgraph around the node, else
    /// the stage before.
    pub thread: String,
    /// The stages that ended, in order; those of a parallel block that is open are those of this branch. Of very many
    /// the last ones.
    pub stages: Vec<PastStage>,
    /// How many stages ended, those that are not told included.
    pub stages_in_all: usize,
    /// The tools that stages called since this process has the run, by node and tool.
    pub tools: Vec<ToolTally>,
    /// The attempts that failed, as `node: reason`; of very many the last ones.
    pub failures: Vec<String>,
}

impl Surroundings {
    /// What is there when nobody knows.
    pub(crate) fn unknown() -> Surroundings {
        Surroundings {
            fidelity: Fidelity::default(),
            degraded: false,
            thread: String::new(),
            stages: Vec::new(),
            stages_in_all: 0,
            tools: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(crate) fn of(machine: &Machine, id: &EffectId) -> Surroundings {
        let pipeline: &Pipeline = machine.pipeline();
        let stage = pipeline.stage(id.node);
        let lines = machine.lines_to(id);
        let came_by = lines.last().and_then(|line| line.came_by());
        let previous = lines.last().and_then(|line| line.last.node);
        let path: Vec<NodeIndex> = lines.iter().flat_map(|line| line.path.iter().copied()).collect();
        let skipped = path.len().saturating_sub(MOST_STAGES);
        let told = path.iter().skip(skipped).enumerate().map(|(at, node)| {
            // An outcome is that of the latest visit.
            let is_latest = !path[skipped + at + 1..].contains(node);
            let known = lines.iter().rev().find_map(|line| line.outcomes.get(*node));
            let known = known.filter(|_| is_latest);
            PastStage {
                node: pipeline.stage(*node).id().to_owned(),
                status: known.map(|known| known.status.clone()),
                notes: known.and_then(|known| known.notes.clone()),
            }
        });
        let stages: Vec<PastStage> = told.collect();
        let failures: Vec<String> = lines
            .iter()
            .flat_map(|line| line.errors.iter())
            .map(|error| format!("{}: {}", pipeline.stage(error.node).id(), error.reason))
            .collect();
        let cut = failures.len().saturating_sub(MOST_FAILURES);
        Surroundings {
            fidelity: fidelity(pipeline, stage, came_by),
            degraded: false,
            thread: thread(pipeline, stage, came_by, previous),
            stages,
            stages_in_all: path.len(),
            tools: Vec::new(),
            failures: failures.into_iter().skip(cut).collect(),
        }
    }
}

/// A text of an edge, where it is not blank.
fn of_edge<'p>(pipeline: &'p Pipeline, edge: Option<EdgeIndex>, name: &str) -> Option<&'p str> {
    let rows = pipeline.attributes(pipeline.edge(edge?).attributes);
    text(rows.iter().find(|row| row.key == name).map(|row| &row.value))
}

fn text(value: Option<&Constant>) -> Option<&str> {
    match value {
        Some(Constant::String(text)) => Some(text.trim()).filter(|text| !text.is_empty()),
        _ => None,
    }
}

/// What the checks let through is known.
fn fidelity(pipeline: &Pipeline, stage: Stage<'_>, came_by: Option<EdgeIndex>) -> Fidelity {
    of_edge(pipeline, came_by, "fidelity")
        .or_else(|| text(stage.attribute("fidelity")))
        .or_else(|| text(pipeline.attribute("default_fidelity")))
        .and_then(|word| word.parse().ok())
        .unwrap_or_default()
}

fn thread(
    pipeline: &Pipeline,
    stage: Stage<'_>,
    came_by: Option<EdgeIndex>,
    previous: Option<NodeIndex>,
) -> String {
    text(stage.attribute("thread_id"))
        .or_else(|| of_edge(pipeline, came_by, "thread_id"))
        .or_else(|| text(pipeline.attribute("default_thread_id")))
        .or_else(|| text(stage.attribute("subgraph")))
        .or_else(|| previous.map(|node| pipeline.stage(node).id()))
        .unwrap_or_else(|| stage.id())
        .to_owned()
}
