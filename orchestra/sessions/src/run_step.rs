//! The steps of a run, in an order that does not depend on the timing of concurrent branches.

use std::collections::BTreeMap;
use std::time::Duration;

use orchestra_engine::Usage;
use serde::Serialize;

use crate::rows::{StageRow, StageState, TransitionRow, optional_millis};

/// Maximum nesting of parallel blocks whose branches are placed inside their block. Further branches come last.
const MAX_NESTING: usize = 64;

/// A step of a run: a stage attempt with the decision that follows it, or the beginning of a parallel block.
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
/// let comparison = SessionIndex::open(runs_dir)?.compare("monday", "tuesday", &[])?;
/// let first = comparison.rows[0].left.as_ref().expect("both runs have a first step");
/// assert_eq!((first.node.as_str(), first.visit, first.outcome.as_deref()), ("start", Some(1), Some("success")));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RunStep {
    /// The sequence number of the event that began the attempt, or of the decision if there is no attempt.
    pub seq: u64,
    /// The node.
    pub node: String,
    /// The branch of a parallel block; `None` on the main path.
    pub branch: Option<String>,
    /// The number of the visit of the node, starting at 1; `None` if there is no attempt.
    pub visit: Option<u32>,
    /// The number of the attempt in the visit, starting at 1; `None` if there is no attempt.
    pub attempt: Option<u32>,
    /// The state of the attempt; `None` if there is no attempt.
    pub state: Option<StageState>,
    /// The name of the outcome, once there is one.
    pub outcome: Option<String>,
    /// The preferred label of the outcome.
    pub preferred_label: Option<String>,
    /// The reason of the failure.
    pub error: Option<String>,
    /// `true` if another attempt follows.
    pub will_retry: bool,
    /// The decision after the attempt; `None` before a retry, and if the run has not decided.
    pub decision: Option<StepDecision>,
    /// The number of attempts that began: more than 1 if interruptions of the run cut attempts short.
    pub attempts: u64,
    /// The duration of these attempts; serialized as `duration_ms`.
    #[serde(rename = "duration_ms", serialize_with = "optional_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub duration: Option<Duration>,
    /// The model usage of these attempts.
    #[serde(flatten)]
    pub usage: Usage,
}

/// A decision of a step: the next node, or the beginning of the branches of a parallel block.
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
/// # for run in ["monday", "tuesday"] {
/// #     engine.start(pipeline.clone(), ()).run_id(run).await?.wait().await?;
/// # }
/// let comparison = SessionIndex::open(runs_dir)?.compare("monday", "tuesday", &[])?;
/// let first = comparison.rows[0].left.as_ref().expect("both runs have a first step");
/// let decision = first.decision.as_ref().expect("it has ended");
/// assert_eq!((decision.to.as_deref(), decision.rule.as_str()), (Some("exit"), "condition"));
/// assert_eq!(decision.values["outcome"], "success");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct StepDecision {
    /// The sequence number of the event.
    pub seq: u64,
    /// The next node; `None` if no edge leads on, and for a parallel block.
    pub to: Option<String>,
    /// The number of the edge among those that leave the node, in the order of the file, starting at 0.
    pub edge: Option<u32>,
    /// The name of the rule that decided; `parallel` for a parallel block.
    pub rule: String,
    /// The number of branches of a parallel block.
    pub branches: Option<u32>,
    /// The values that the tested conditions read, by their keys.
    pub values: BTreeMap<String, String>,
}

impl RunStep {
    fn from_attempt(row: StageRow) -> RunStep {
        RunStep {
            seq: row.seq,
            node: row.node,
            branch: row.branch,
            visit: Some(row.visit),
            attempt: Some(row.attempt),
            state: Some(row.state),
            outcome: row.outcome,
            preferred_label: row.preferred_label,
            error: row.error,
            will_retry: row.will_retry,
            decision: None,
            attempts: 1,
            duration: row.duration,
            usage: row.usage,
        }
    }

    fn from_decision(row: TransitionRow) -> RunStep {
        RunStep {
            seq: row.seq,
            node: row.from.clone(),
            branch: row.branch.clone(),
            visit: None,
            attempt: None,
            state: None,
            outcome: None,
            preferred_label: None,
            error: None,
            will_retry: false,
            decision: Some(StepDecision::from_row(row)),
            attempts: 0,
            duration: None,
            usage: Usage::default(),
        }
    }

    /// Returns whether the attempt was completed or failed. A step without an attempt counts as completed.
    pub fn has_ended(&self) -> bool {
        matches!(
            self.state,
            None | Some(StageState::Completed | StageState::Failed)
        )
    }

    /// Continues an attempt that was cut short with the one that repeats it.
    fn repeat(&mut self, row: StageRow) {
        let before = std::mem::replace(self, RunStep::from_attempt(row));
        self.attempts += before.attempts;
        self.usage += before.usage;
        self.duration = match (before.duration, self.duration) {
            (Some(before), Some(after)) => Some(before.saturating_add(after)),
            (before, after) => before.or(after),
        };
    }
}

impl StepDecision {
    fn from_row(row: TransitionRow) -> StepDecision {
        StepDecision {
            seq: row.seq,
            to: row.to,
            edge: row.edge,
            rule: row.rule,
            branches: row.branches,
            values: row.tested.into_iter().flat_map(|tested| tested.values).collect(),
        }
    }
}

/// Returns the steps of a run. The branches of a parallel block come one after the other, sorted by their ids, between
/// the beginning of the block and its attempt, so the order of the steps does not depend on which branch was faster. An
/// attempt that an interruption cut short is one step with the attempt that repeats it.
pub(crate) fn steps(stages: Vec<StageRow>, transitions: Vec<TransitionRow>) -> Vec<RunStep> {
    let mut items: Vec<(u64, Item)> = Vec::with_capacity(stages.len() + transitions.len());
    let mut cut_short: BTreeMap<(Option<String>, String, u32, u32), usize> = BTreeMap::new();
    for row in stages {
        let key = (row.branch.clone(), row.node.clone(), row.visit, row.attempt);
        let is_cut_short = matches!(row.state, StageState::Interrupted | StageState::Cancelled);
        let known = cut_short.remove(&key);
        let index = known.unwrap_or(items.len());
        match items.get_mut(index) {
            Some((_, Item::Attempt(step))) => step.repeat(row),
            _ => items.push((row.seq, Item::Attempt(RunStep::from_attempt(row)))),
        }
        if is_cut_short {
            cut_short.insert(key, index);
        }
    }
    items.extend(transitions.into_iter().map(|row| (row.seq, Item::Decision(row))));
    items.sort_by_key(|(order, _)| *order);
    Paths::new(items).steps()
}

enum Item {
    Attempt(RunStep),
    Decision(TransitionRow),
}

impl Item {
    fn branch(&self) -> Option<&String> {
        match self {
            Item::Attempt(step) => step.branch.as_ref(),
            Item::Decision(row) => row.branch.as_ref(),
        }
    }
}

/// The attempts and decisions of one execution path, as indices of items.
#[derive(Default)]
struct Path {
    items: Vec<usize>,
    /// The items of the branches that begin on this path, each with its branch.
    of_branches: Vec<(usize, String)>,
}

/// The attempts and decisions of a run by their execution paths. An item that has become a step is gone.
struct Paths {
    items: Vec<Option<Item>>,
    paths: BTreeMap<Option<String>, Path>,
    steps: Vec<RunStep>,
}

impl Paths {
    fn new(items: Vec<(u64, Item)>) -> Paths {
        let mut paths: BTreeMap<Option<String>, Path> = BTreeMap::new();
        for (at, (_, item)) in items.iter().enumerate() {
            let branch = item.branch().cloned();
            if let Some(branch) = &branch {
                // The id of a branch begins with that of the branch that contains its block.
                let outer = branch.rsplit_once('/').map(|(outer, _)| outer.to_owned());
                let outer = paths.entry(outer).or_default();
                outer.of_branches.push((at, branch.clone()));
            }
            paths.entry(branch).or_default().items.push(at);
        }
        Paths {
            steps: Vec::with_capacity(items.len()),
            items: items.into_iter().map(|(_, item)| Some(item)).collect(),
            paths,
        }
    }

    fn steps(mut self) -> Vec<RunStep> {
        let branches: Vec<Option<String>> = self.paths.keys().cloned().collect();
        // The main path is the first. The branches whose blocks are unknown remain.
        for branch in branches {
            self.walk(&branch, 0, self.items.len(), 0);
        }
        self.steps
    }

    /// Appends the steps of a path whose items are in a range, with those of the branches that begin on it.
    fn walk(&mut self, branch: &Option<String>, from: usize, to: usize, nesting: usize) {
        let Some(path) = self.paths.get(branch) else {
            return;
        };
        let first = path.items.partition_point(|item| *item < from);
        let last = path.items.partition_point(|item| *item < to);
        let indices: Vec<usize> = path.items.get(first..last).unwrap_or_default().to_vec();
        let mut pending: Option<RunStep> = None;
        for (at, index) in indices.iter().enumerate() {
            match self.items.get_mut(*index).and_then(Option::take) {
                None => {}
                Some(Item::Attempt(step)) => self.steps.extend(pending.replace(step)),
                Some(Item::Decision(row)) if row.branches.is_some() => {
                    if pending.as_ref().is_some_and(|step| step.node != row.from) {
                        self.steps.extend(pending.take());
                    }
                    self.steps.push(RunStep::from_decision(row));
                    let is_attempt = |index: &&usize| {
                        let item = self.items.get(**index).and_then(Option::as_ref);
                        matches!(item, Some(Item::Attempt(_)))
                    };
                    let end = indices.iter().skip(at + 1).find(is_attempt).copied();
                    self.walk_branches(branch, *index, end.unwrap_or(to), nesting);
                }
                Some(Item::Decision(row)) => match &mut pending {
                    Some(step) if step.node == row.from && step.decision.is_none() => {
                        step.decision = Some(StepDecision::from_row(row));
                    }
                    _ => {
                        self.steps.extend(pending.take());
                        self.steps.push(RunStep::from_decision(row));
                    }
                },
            }
        }
        self.steps.extend(pending);
    }

    /// Appends the steps of the branches whose items are in a range, sorted by the ids of the branches.
    fn walk_branches(&mut self, outer: &Option<String>, from: usize, to: usize, nesting: usize) {
        let Some(path) = self.paths.get(outer).filter(|_| nesting < MAX_NESTING) else {
            return;
        };
        let first = path.of_branches.partition_point(|(item, _)| *item < from);
        let last = path.of_branches.partition_point(|(item, _)| *item < to);
        let mut branches: Vec<Option<String>> = path
            .of_branches
            .get(first..last)
            .unwrap_or_default()
            .iter()
            .map(|(_, branch)| Some(branch.clone()))
            .collect();
        branches.sort();
        branches.dedup();
        for branch in branches {
            self.walk(&branch, from, to, nesting + 1);
        }
    }
}
