//! The history of a stage: what came before it in its run, and how much of that its model may see (Attractor 5.4).

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use orchestra_core::{EffectId, ExecutionPath, Machine, NodeOutcome, Status};
use orchestra_graph::table::Constant;
use orchestra_graph::{EdgeIndex, Known, NodeIndex, Pipeline, Stage};
use serde::{Deserialize, Serialize};

/// Maximum number of past stages in a history. The number of all past stages is included too.
const MOST_STAGES: usize = 200;
/// Maximum number of failed attempts in a history.
const MOST_FAILURES: usize = 50;

/// The amount of history that the model of a stage receives (Attractor 5.4).
///
/// ```
/// use orchestra_engine::Fidelity;
/// assert_eq!("summary:high".parse(), Ok(Fidelity::SummaryHigh));
/// assert_eq!(Fidelity::default().to_string(), "compact");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Fidelity {
    /// The whole conversation of the thread, which continues.
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
    /// Returns the name in pipelines.
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

impl From<Fidelity> for &'static str {
    fn from(fidelity: Fidelity) -> &'static str {
        fidelity.word()
    }
}

impl TryFrom<String> for Fidelity {
    type Error = UnknownFidelity;

    fn try_from(word: String) -> Result<Fidelity, UnknownFidelity> {
        word.parse()
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

/// The error of an unknown fidelity name.
///
/// ```
/// use orchestra_engine::Fidelity;
/// let error = "compct".parse::<Fidelity>().unwrap_err();
/// assert!(error.to_string().starts_with("unknown fidelity `compct`"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown fidelity `{0}`; expected one of `full`, `truncate`, `compact`, `summary:low`, `summary:medium`, `summary:high`"
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
///         let before = request.stage.history().await.stages;
///         Ok(before.iter().map(|stage| format!("{} ", stage.node)).collect::<String>().into())
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph { start -> plan -> write -> exit; plan [prompt=a]; write [prompt=b] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let engine = Engine::builder().backend(Look).build()?;
/// let result = engine.start(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.context.text("last_response"), "start plan ");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PastStage {
    /// The id of the node.
    pub node: String,
    /// The name of the visit, such as `fan#1:left/build#2`, for [`stage_text`](crate::StageContext::stage_text). `None`
    /// if the node was visited again, because only its latest visit is known.
    pub record: Option<String>,
    /// The status; `None` if the node was visited again.
    pub status: Option<Status>,
    /// A summary, or the reason of a failure.
    pub notes: Option<String>,
    /// The reason of the failure; `None` if the stage did not fail.
    pub failure_reason: Option<String>,
}

/// The number of calls of a tool by the stages of a node.
///
/// ```
/// use orchestra_engine::{CodergenBackend, CodergenReply, CodergenRequest, BackendError, Engine};
/// # use orchestra_graph::{Source, load};
/// struct Look;
/// impl CodergenBackend for Look {
///     async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
///         let stage = request.stage;
///         stage.record_tool_call("grep", None, std::time::Duration::ZERO, Some("no match"));
///         let tools = stage.history().await.tools;
///         Ok(format!("{}: {} of {} failed", tools[0].tool, tools[0].failures, tools[0].calls).into())
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph { start -> find -> exit; find [prompt=a] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let engine = Engine::builder().backend(Look).build()?;
/// let result = engine.start(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.context.text("last_response"), "grep: 1 of 1 failed");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolTally {
    /// The id of the node.
    pub node: String,
    /// The name of the tool.
    pub tool: String,
    /// The number of calls.
    pub calls: u64,
    /// The number of calls that failed.
    pub failures: u64,
}

/// The position of a stage in its run and what came before it; see
/// [`StageContext::history`](crate::StageContext::history).
///
/// ```
/// use orchestra_engine::{CodergenBackend, CodergenReply, CodergenRequest, BackendError, Engine};
/// # use orchestra_graph::{Source, load};
/// struct Look;
/// impl CodergenBackend for Look {
///     async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
///         let around = request.stage.history().await;
///         Ok(format!("{} in {}", around.fidelity, around.thread).into())
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = "digraph { start -> plan -> write -> exit
///     plan [prompt=a]; write [prompt=b, fidelity=full] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let engine = Engine::builder().backend(Look).build()?;
/// let result = engine.start(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.context.text("last_response"), "full in plan");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StageHistory {
    /// The amount of history that the model receives. It is set by the edge that led here, else by the node, else by
    /// the graph, else it is `compact`. After a resume, the first stage with `full` gets `summary:high` instead
    /// (rule D7).
    pub fidelity: Fidelity,
    /// `true` if the run was resumed and [`fidelity`](StageHistory::fidelity) is lower than the pipeline requests.
    pub degraded: bool,
    /// The thread, which is the conversation that continues under `full`. It is set by the node, else by the edge, the
    /// graph or the subgraph of the node; else it is the thread of the previous model stage on this execution path
    /// (rule F5). Under another fidelity it is empty if no thread is named.
    pub thread: String,
    /// The latest model stage of the thread on this execution path; `None` if the thread begins here.
    pub thread_stage: Option<PastStage>,
    /// The number of stages that have ended since then.
    pub since_thread: usize,
    /// The failure that led here: that of the previous attempt or stage, else that of a goal gate that sent the run
    /// back.
    pub handled: Option<PastStage>,
    /// The stages that have ended, in order. Of an open parallel block, only the stages of this branch are included. If
    /// there are very many stages, only the last ones are.
    pub stages: Vec<PastStage>,
    /// The number of all stages that have ended, including those that are not in `stages`.
    pub stages_in_all: usize,
    /// The tool calls of stages since this process took the run, by node and tool.
    pub tools: Vec<ToolTally>,
    /// The attempts that failed, as `node: reason`. If there are very many, only the last ones are included.
    pub failures: Vec<String>,
}

impl StageHistory {
    /// Returns the history of a stage about which nothing is known.
    pub(crate) fn unknown() -> StageHistory {
        StageHistory {
            fidelity: Fidelity::default(),
            degraded: false,
            thread: String::new(),
            thread_stage: None,
            since_thread: 0,
            handled: None,
            stages: Vec::new(),
            stages_in_all: 0,
            tools: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Returns the history of a stage that a machine has started. The tool calls and the effects of a resume are not in
    /// it.
    pub fn from_machine(machine: &Machine, id: &EffectId) -> StageHistory {
        let pipeline: &Pipeline = machine.pipeline();
        let stage = pipeline.stage(id.node);
        let paths = machine.paths_to(id);
        let came_by = paths.last().and_then(|path| path.came_by());
        let path: Vec<NodeIndex> = paths
            .iter()
            .flat_map(|path| path.completed.iter().copied())
            .collect();
        let past = |at: usize| past_stage(pipeline, &paths, &path, at);
        let skipped = path.len().saturating_sub(MOST_STAGES);
        let recent = (skipped..path.len()).map(past);
        let stages: Vec<PastStage> = recent.collect();
        let failures: Vec<String> = paths
            .iter()
            .flat_map(|path| path.errors.iter())
            .map(|error| format!("{}: {}", pipeline.stage(error.node).id(), error.reason))
            .collect();
        let cut = failures.len().saturating_sub(MOST_FAILURES);
        let fidelity = fidelity(pipeline, stage, came_by);
        // Search for a conversation only if it is to be continued.
        let walk = (fidelity == Fidelity::Full).then(|| Thread::find(pipeline, stage, came_by, &path));
        let (thread, from) = match walk {
            Some(Thread { name, from }) => (name, from),
            None => (named_thread(pipeline, stage, came_by).unwrap_or_default(), None),
        };
        StageHistory {
            fidelity,
            degraded: false,
            thread,
            thread_stage: from.map(past),
            since_thread: path.len() - from.map_or(0, |from| from + 1),
            handled: own_failure(pipeline, &paths, id).or_else(|| handled(pipeline, &paths, came_by)),
            stages,
            stages_in_all: path.len(),
            tools: Vec::new(),
            failures: failures.into_iter().skip(cut).collect(),
        }
    }
}

/// Returns a text attribute of an edge. Returns `None` if it is blank.
fn of_edge<'p>(pipeline: &'p Pipeline, edge: Option<EdgeIndex>, name: &str) -> Option<&'p str> {
    text(pipeline.attribute_in(pipeline.edge(edge?).attributes, name))
}

fn text(value: Option<Constant<&str>>) -> Option<&str> {
    let text = value.and_then(Constant::text)?.trim();
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the fidelity of a stage. An unknown name counts as the default, but the checks of the pipeline reject it.
fn fidelity(pipeline: &Pipeline, stage: Stage<'_>, came_by: Option<EdgeIndex>) -> Fidelity {
    of_edge(pipeline, came_by, "fidelity")
        .or_else(|| text(stage.attribute("fidelity")))
        .or_else(|| text(pipeline.attribute("default_fidelity")))
        .unwrap_or(Known::DefaultFidelity.default_text())
        .parse()
        .unwrap_or_default()
}

/// Returns the thread that is named for a stage.
fn named_thread(pipeline: &Pipeline, stage: Stage<'_>, came_by: Option<EdgeIndex>) -> Option<String> {
    text(stage.attribute("thread_id"))
        .or_else(|| of_edge(pipeline, came_by, "thread_id"))
        .or_else(|| text(pipeline.attribute("default_thread_id")))
        .or_else(|| text(stage.attribute("subgraph")))
        .map(str::to_owned)
}

/// Returns the stage at an index of the path. Only the latest visit of a node has an outcome.
fn past_stage(pipeline: &Pipeline, paths: &[&ExecutionPath], path: &[NodeIndex], at: usize) -> PastStage {
    let node = path.get(at).copied().unwrap_or(pipeline.start);
    let is_latest = !path.get(at + 1..).is_some_and(|later| later.contains(&node));
    let known = paths.iter().rev().find_map(|path| path.outcomes.get(node));
    match known {
        Some(known) if is_latest => PastStage::ended(pipeline, paths, node, known),
        _ => PastStage {
            node: pipeline.stage(node).id().to_owned(),
            record: None,
            status: None,
            notes: None,
            failure_reason: None,
        },
    }
}

impl PastStage {
    /// Returns the latest outcomes of nodes as a stage sees them: those of its branch, else those of the outer execution
    /// paths. Returns those of all nodes if `nodes` is `None`.
    pub fn latest(machine: &Machine, id: &EffectId, nodes: Option<&[String]>) -> Vec<PastStage> {
        let pipeline = machine.pipeline();
        let paths = machine.paths_to(id);
        let all = || (0..pipeline.nodes.len() as u32).map(NodeIndex).collect();
        let wanted: Vec<NodeIndex> = match nodes {
            Some(names) => names.iter().filter_map(|name| pipeline.find(name)).collect(),
            None => all(),
        };
        let found = wanted.into_iter().filter_map(|node| {
            let outcome = paths.iter().rev().find_map(|path| path.outcomes.get(node))?;
            Some(PastStage::ended(pipeline, &paths, node, outcome))
        });
        found.collect()
    }

    /// Creates the record of the latest visit of a node.
    pub(crate) fn ended(
        pipeline: &Pipeline,
        paths: &[&ExecutionPath],
        node: NodeIndex,
        outcome: &NodeOutcome,
    ) -> PastStage {
        let errors = paths.iter().rev().flat_map(|path| path.errors.iter().rev());
        let mut errors = errors.filter(|error| error.node == node && error.visit == outcome.visit);
        let failed = outcome.status == Status::Fail;
        PastStage {
            node: pipeline.stage(node).id().to_owned(),
            record: Some(outcome.record(pipeline, node)),
            status: Some(outcome.status.clone()),
            notes: outcome.notes.clone(),
            failure_reason: if failed {
                errors.next().map(|error| error.reason.clone())
            } else {
                None
            },
        }
    }
}

/// Returns the failure of the previous attempt of this visit.
fn own_failure(pipeline: &Pipeline, paths: &[&ExecutionPath], id: &EffectId) -> Option<PastStage> {
    let mut errors = paths.last()?.errors.iter().rev();
    let error = errors.find(|error| error.node == id.node && error.visit == id.visit)?;
    let outcome = NodeOutcome {
        status: Status::Fail,
        notes: None,
        visit: id.visit,
        branch: id.branch.clone(),
    };
    Some(PastStage {
        node: pipeline.stage(id.node).id().to_owned(),
        record: Some(outcome.record(pipeline, id.node)),
        status: Some(Status::Fail),
        notes: None,
        failure_reason: Some(error.reason.clone()),
    })
}

/// Returns the failure that led to a stage.
fn handled(pipeline: &Pipeline, paths: &[&ExecutionPath], came_by: Option<EdgeIndex>) -> Option<PastStage> {
    let path = paths.last()?;
    let ended = |node: NodeIndex| {
        let outcome = paths.iter().rev().find_map(|path| path.outcomes.get(node))?;
        let failed = outcome.status == Status::Fail;
        failed.then(|| PastStage::ended(pipeline, paths, node, outcome))
    };
    if let Some(failed) = path.last.node.and_then(ended) {
        return Some(failed);
    }
    // Without an edge it was a jump, and after a success only goal gates jump.
    if came_by.is_some() || path.completed.is_empty() {
        return None;
    }
    let mut gates = pipeline.nodes.iter().zip(0..).filter(|(row, _)| row.goal_gate);
    gates.find_map(|(_, at)| ended(NodeIndex(at)))
}

/// A conversation that continues from stage to stage.
struct Thread {
    name: String,
    /// The index of its latest stage in the path.
    from: Option<usize>,
}

impl Thread {
    /// Finds the thread of a stage by walking back along the path. If no thread is named, it is that of the previous
    /// model stage.
    fn find(pipeline: &Pipeline, stage: Stage<'_>, came_by: Option<EdgeIndex>, path: &[NodeIndex]) -> Thread {
        let mut wanted = named_thread(pipeline, stage, came_by);
        // The latest of the stages without a named thread. They belong to the next thread that is found.
        let mut unnamed: Option<usize> = None;
        let mut first = None;
        let mut at = path.len();
        while let Some(before) = at.checked_sub(1) {
            at = before;
            let Some(node) = path.get(at).copied() else {
                break;
            };
            if pipeline.stage(node).row().fan_out.is_some() {
                // Conversations of branches do not continue outside of them.
                let inside = branches_of(pipeline, node);
                while at
                    .checked_sub(1)
                    .and_then(|at| path.get(at))
                    .is_some_and(|node| inside.contains(node))
                {
                    at -= 1;
                }
                continue;
            }
            let earlier = pipeline.stage(node);
            if !earlier.calls_model() {
                continue;
            }
            let edge = at
                .checked_sub(1)
                .and_then(|from| edge_between(pipeline, *path.get(from)?, node));
            let name = named_thread(pipeline, earlier, edge);
            first = Some(at);
            match (&wanted, name) {
                (Some(name), Some(own)) if *name == own => {
                    return Thread {
                        name: own,
                        from: Some(unnamed.unwrap_or(at)),
                    };
                }
                (Some(_), Some(_)) => unnamed = None,
                (None, Some(own)) => {
                    return Thread {
                        name: own,
                        from: Some(unnamed.unwrap_or(at)),
                    };
                }
                (_, None) => {
                    unnamed.get_or_insert(at);
                }
            }
        }
        let root = if unnamed.is_some() {
            first.and_then(|at| path.get(at))
        } else {
            None
        };
        let root = root
            .map_or(stage.id(), |node| pipeline.stage(*node).id())
            .to_owned();
        match wanted.take() {
            Some(name) if name == root => Thread { name, from: unnamed },
            Some(name) => Thread { name, from: None },
            None => Thread {
                name: root,
                from: unnamed,
            },
        }
    }
}

/// Returns the edge between two nodes that follow each other in a path, if one names a thread.
fn edge_between(pipeline: &Pipeline, from: NodeIndex, to: NodeIndex) -> Option<EdgeIndex> {
    let mut edges = pipeline.stage(from).edges().filter(|(_, row)| row.to == to);
    edges.find_map(|(edge, _)| of_edge(pipeline, Some(edge), "thread_id").map(|_| edge))
}

/// Returns the nodes in the branches of a fan-out.
fn branches_of(pipeline: &Pipeline, fan_out: NodeIndex) -> HashSet<NodeIndex> {
    let mut inside = HashSet::new();
    let Some(join) = pipeline.stage(fan_out).row().fan_out.map(|fan_out| fan_out.join) else {
        return inside;
    };
    let mut ahead = vec![fan_out];
    while let Some(node) = ahead.pop() {
        let stage = pipeline.stage(node);
        let jumps = [stage.row().retry_target, stage.row().fallback_retry_target];
        let jumps = jumps.into_iter().flatten().filter(|_| node != fan_out);
        for next in stage.edges().map(|(_, row)| row.to).chain(jumps) {
            if next != join && next != fan_out && inside.insert(next) {
                ahead.push(next);
            }
        }
    }
    inside
}
