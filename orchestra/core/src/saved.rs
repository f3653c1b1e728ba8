//! The serialized state of a run, from which another process can resume the run (Attractor 5.3, rule D1).

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use orchestra_graph::{EdgeIndex, NodeIndex, Pipeline};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::Context;
use crate::effect::BranchPath;
use crate::files::SavedFiles;
use crate::human::Answer;
use crate::outcome::Status;
use crate::saved_block::SavedBlock;
use crate::state::{
    At, AttemptError, Counts, ExecutionPath, Failing, Last, NodeOutcome, Outcomes, Phase, Progress, State,
    Totals,
};
use crate::transition::retry_count_key;
use crate::usage::Usage;

/// A [`State`] in serializable form. Everything that follows from the pipeline is left out, and a branch contains only
/// the differences from its parent path.
///
/// ```
/// use orchestra_core::{Context, Machine, SavedState};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// # let pipeline = orchestra_core::SharedPipeline::from(pipeline);
/// let machine = Machine::start(pipeline.clone(), Context::new(), 7, &mut Vec::new());
/// let written = serde_json::to_string(&machine.saved())?;
/// let read: SavedState = serde_json::from_str(&written)?;
/// assert_eq!(&read.restore(&pipeline)?, machine.state());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedState {
    pub(crate) main: SavedPath,
    pub(crate) totals: SavedTotals,
}

/// An error about a saved state that does not match a pipeline.
///
/// ```
/// use orchestra_core::{Context, Machine};
/// # use orchestra_graph::{Source, load};
/// # let of = |text: &str| load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let long = of("digraph { a -> exit; start -> a }");
/// let saved = Machine::start(long, Context::new(), 7, &mut Vec::new()).saved();
/// let fault = saved.restore(&of("digraph { start -> exit }")).unwrap_err();
/// assert_eq!(fault.to_string(), "the state names edge 1, but the pipeline has 1 edges");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedStateError(String);

impl std::fmt::Display for SavedStateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SavedStateError {}

impl SavedStateError {
    pub(crate) fn new(told: impl Into<String>) -> SavedStateError {
        SavedStateError(told.into())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedTotals {
    finished: bool,
    begun: u64,
    restarts: u32,
    reroutes: u32,
    /// The edges that were taken, with the number of times.
    pub(crate) taken: Vec<(u32, u32)>,
    #[serde(rename = "elapsed_ns", with = "crate::nanos")]
    elapsed: Duration,
    seed: u64,
    usage: Usage,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) spent: Vec<(u32, Usage)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedPath {
    pub(crate) phase: SavedPhase,
    pub(crate) at: SavedAt,
    /// The values of the main path; for a branch, those that may differ from its parent path.
    pub(crate) context: SavedContext,
    pub(crate) visits: Vec<(u32, u32)>,
    pub(crate) outcomes: Vec<SavedOutcome>,
    pub(crate) completed: Vec<u32>,
    pub(crate) last: SavedLast,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) last_failure: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failing: Vec<SavedFailing>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) errors: Vec<(u32, u32, u32, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) retries: Vec<(u32, u32)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) revisits: Vec<(u32, u32)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<Value>,
    #[serde(default, skip_serializing_if = "Usage::is_empty")]
    used: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<Answer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<Box<SavedFiles>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) updates: Option<BTreeMap<String, Value>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SavedContext {
    All(Context),
    /// A list with one value, or an empty list if the key is absent: a value may itself be `null`.
    Changed(BTreeMap<String, Vec<Value>>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SavedPhase {
    Idle,
    Running,
    BackOff,
    Asking,
    Parallel(Box<SavedBlock>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedAt {
    pub(crate) node: u32,
    visit: u32,
    attempt: u32,
    index: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) edge: Option<u32>,
    #[serde(rename = "delay_ns", with = "crate::nanos")]
    delay: Duration,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedOutcome(
    pub(crate) u32,
    Status,
    Option<String>,
    #[serde(default)] u32,
    #[serde(default)] pub(crate) Vec<[u32; 4]>,
);

/// A repeatedly failing stage: its node, the number of failures, the reason, and the digest of the output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedFailing(pub(crate) u32, u32, String, #[serde(default)] Option<NonZeroU64>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedLast {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<u32>,
    status: Status,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    preferred_label: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    suggested_next_ids: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    failure_reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    failure_code: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    output: BTreeMap<String, Value>,
}

impl SavedState {
    pub(crate) fn new(pipeline: &Pipeline, state: &State) -> SavedState {
        let State { main, totals } = state;
        let taken = totals.taken.iter().enumerate();
        SavedState {
            main: SavedPath::new(pipeline, main),
            totals: SavedTotals {
                finished: totals.finished,
                begun: totals.begun,
                restarts: totals.restarts,
                reroutes: totals.reroutes,
                taken: taken
                    .filter(|(_, taken)| **taken > 0)
                    .map(|(edge, taken)| (edge as u32, *taken))
                    .collect(),
                elapsed: totals.elapsed,
                seed: totals.seed,
                usage: totals.usage,
                spent: totals.spent.iter().map(|(node, usage)| (*node, *usage)).collect(),
            },
        }
    }

    /// Returns `true` if the run has ended.
    pub fn is_finished(&self) -> bool {
        self.totals.finished
    }

    /// Restores the state.
    ///
    /// # Errors
    /// Returns an error if the state does not match the pipeline, for example because it names a node or an edge that
    /// the pipeline does not have.
    pub fn restore(self, pipeline: &Pipeline) -> Result<State, SavedStateError> {
        let SavedState { main, totals } = self;
        let mut taken = vec![0; pipeline.edges.len()];
        for (edge, times) in totals.taken {
            match taken.get_mut(edge as usize) {
                Some(slot) => *slot = times,
                None => return Err(no_edge(pipeline, edge)),
            }
        }
        Ok(State {
            main: main.restore(pipeline, BranchPath::default(), None, totals.restarts)?,
            totals: Totals {
                finished: totals.finished,
                begun: totals.begun,
                restarts: totals.restarts,
                reroutes: totals.reroutes,
                taken,
                elapsed: totals.elapsed,
                seed: totals.seed,
                usage: totals.usage,
                spent: totals.spent.into_iter().collect(),
            },
        })
    }
}

pub(crate) fn no_node(pipeline: &Pipeline, node: u32) -> SavedStateError {
    let nodes = pipeline.nodes.len();
    SavedStateError(format!(
        "the state names node {node}, but the pipeline has {nodes} nodes"
    ))
}

pub(crate) fn no_edge(pipeline: &Pipeline, edge: u32) -> SavedStateError {
    let edges = pipeline.edges.len();
    SavedStateError(format!(
        "the state names edge {edge}, but the pipeline has {edges} edges"
    ))
}

/// Returns the keys in the context of a branch that the engine changes, and those that its stages set.
fn own_keys(pipeline: &Pipeline, path: &ExecutionPath) -> Vec<String> {
    let engine = [
        "current_node",
        "error_history",
        "last_stage",
        "outcome",
        "preferred_label",
    ];
    let counted = path.visits.own();
    let counts = counted.map(|(node, _)| retry_count_key(pipeline.stage(node)));
    let set = path.updates.iter().flat_map(BTreeMap::keys).cloned();
    engine
        .into_iter()
        .map(str::to_owned)
        .chain(counts)
        .chain(set)
        .collect()
}

fn pairs(counts: &BTreeMap<u32, u32>) -> Vec<(u32, u32)> {
    counts.iter().map(|(key, count)| (*key, *count)).collect()
}

/// The context of a parent path, and the visits and outcomes with which a branch of it began.
type Around<'c> = (&'c Context, Arc<[u32]>, Arc<[(u32, Status)]>);

impl SavedPath {
    pub(crate) fn new(pipeline: &Pipeline, path: &ExecutionPath) -> SavedPath {
        let is_branch = !path.branch.is_empty();
        let context = if is_branch {
            let keys = own_keys(pipeline, path).into_iter();
            SavedContext::Changed(
                keys.map(|key| {
                    let value = path.context.get(&key).cloned();
                    (key, value.into_iter().collect())
                })
                .collect(),
            )
        } else {
            SavedContext::All(path.context.clone())
        };
        let visits = match &path.visits {
            Counts::All(counts) => {
                let counts = counts.iter().enumerate();
                let counts = counts.filter(|(_, count)| **count > 0);
                counts.map(|(node, count)| (node as u32, *count)).collect()
            }
            Counts::Branch { own, .. } => own.clone(),
        };
        let last = &path.last;
        SavedPath {
            phase: match &path.phase {
                Phase::Idle => SavedPhase::Idle,
                Phase::Running => SavedPhase::Running,
                Phase::BackOff => SavedPhase::BackOff,
                Phase::Asking(_) => SavedPhase::Asking,
                Phase::Parallel(block) => SavedPhase::Parallel(Box::new(SavedBlock::new(pipeline, block))),
            },
            at: SavedAt {
                node: path.at.node.0,
                visit: path.at.visit,
                attempt: path.at.attempt,
                index: path.at.index,
                edge: path.at.edge.map(|edge| edge.0),
                delay: path.at.delay,
            },
            context,
            visits,
            outcomes: path
                .outcomes
                .iter()
                .map(|(node, outcome)| {
                    let NodeOutcome { status, notes, .. } = outcome.clone();
                    SavedOutcome(node.0, status, notes, outcome.visit, outcome.branch.written())
                })
                .collect(),
            completed: path.completed.iter().map(|node| node.0).collect(),
            last: SavedLast {
                node: last.node.map(|node| node.0),
                status: last.status.clone(),
                preferred_label: last.preferred_label.clone(),
                suggested_next_ids: last.suggested_next_ids.clone(),
                failure_reason: last.failure_reason.clone(),
                failure_code: last.failure_code.clone(),
                output: last.output.clone(),
            },
            last_failure: path.last_failure.clone(),
            failing: path
                .failing
                .iter()
                .map(|failing| {
                    let Failing {
                        node,
                        reason,
                        output,
                        count,
                    } = failing.clone();
                    SavedFailing(node.0, count, reason, output)
                })
                .collect(),
            errors: path
                .errors
                .iter()
                .map(|error| (error.node.0, error.visit, error.attempt, error.reason.clone()))
                .collect(),
            retries: pairs(&path.retries),
            revisits: pairs(&path.revisits),
            notes: path.notes().to_vec(),
            used: path.used(),
            answer: path.answer().cloned(),
            files: path
                .files
                .as_deref()
                .map(|files| Box::new(SavedFiles::from_files(files))),
            updates: path.updates.clone(),
        }
    }

    /// Restores the path. For a branch, `around` holds the context of the parent path, and the visits and outcomes with
    /// which the branch began.
    pub(crate) fn restore(
        self,
        pipeline: &Pipeline,
        branch: BranchPath,
        around: Option<Around<'_>>,
        restarts: u32,
    ) -> Result<ExecutionPath, SavedStateError> {
        let nodes = pipeline.nodes.len();
        let node = |node: u32| {
            if (node as usize) < nodes {
                Ok(NodeIndex(node))
            } else {
                Err(no_node(pipeline, node))
            }
        };
        let context = match (self.context, &around) {
            (SavedContext::All(context), None) => context,
            (SavedContext::Changed(changed), Some((context, ..))) => {
                let mut context = Context::clone(context);
                for (key, value) in changed {
                    match value.into_iter().next() {
                        Some(value) => context.set(key, value),
                        None => {
                            context.remove(&key);
                        }
                    }
                }
                context
            }
            _ => {
                return Err(SavedStateError::new(
                    "the context of a branch stands where the run's should, or the reverse",
                ));
            }
        };
        let (visits, mut outcomes) = match around {
            None => {
                let mut counts = vec![0; nodes];
                for (at, count) in self.visits {
                    counts[node(at)?.at()] = count;
                }
                (Counts::All(counts), Outcomes::All(vec![None; nodes]))
            }
            Some((_, base, around)) => {
                let mut own = self.visits;
                own.sort_by_key(|(node, _)| *node);
                own.iter().try_for_each(|(at, _)| node(*at).map(drop))?;
                let outcomes = Vec::new();
                let visits = Counts::Branch { base, own };
                (
                    visits,
                    Outcomes::Branch {
                        around,
                        own: outcomes,
                    },
                )
            }
        };
        for SavedOutcome(at, status, notes, visit, steps) in self.outcomes {
            let outcome = NodeOutcome {
                status,
                notes,
                visit,
                branch: BranchPath::read(&steps),
            };
            outcomes.set(node(at)?, outcome);
        }
        let last = self.last;
        let mut path = ExecutionPath {
            phase: Phase::Idle,
            branch,
            context,
            visits,
            outcomes,
            completed: self.completed.into_iter().map(node).collect::<Result<_, _>>()?,
            last: Last {
                node: last.node.map(node).transpose()?,
                status: last.status,
                preferred_label: last.preferred_label,
                suggested_next_ids: last.suggested_next_ids,
                failure_reason: last.failure_reason,
                failure_code: last.failure_code,
                output: last.output,
            },
            last_failure: self.last_failure,
            failing: self
                .failing
                .into_iter()
                .map(|SavedFailing(at, count, reason, output)| {
                    let node = node(at)?;
                    Ok(Failing {
                        node,
                        reason,
                        output,
                        count,
                    })
                })
                .collect::<Result<_, _>>()?,
            errors: self
                .errors
                .into_iter()
                .map(|(at, visit, attempt, reason)| {
                    let node = node(at)?;
                    Ok(AttemptError {
                        node,
                        visit,
                        attempt,
                        reason,
                    })
                })
                .collect::<Result<_, _>>()?,
            retries: self.retries.into_iter().collect(),
            revisits: self.revisits.into_iter().collect(),
            progress: None,
            files: self.files.map(|files| Box::new(files.restore())),
            at: At {
                node: node(self.at.node)?,
                visit: self.at.visit,
                attempt: self.at.attempt,
                index: self.at.index,
                edge: match self.at.edge {
                    Some(edge) if edge as usize >= pipeline.edges.len() => {
                        return Err(no_edge(pipeline, edge));
                    }
                    edge => edge.map(EdgeIndex),
                },
                delay: self.at.delay,
            },
            updates: self.updates,
        };
        if !self.notes.is_empty() || !self.used.is_empty() || self.answer.is_some() {
            path.progress = Some(Box::new(Progress {
                notes: self.notes,
                used: self.used,
                answer: self.answer,
            }));
        }
        path.phase = match self.phase {
            SavedPhase::Idle => Phase::Idle,
            SavedPhase::Running => Phase::Running,
            SavedPhase::BackOff => Phase::BackOff,
            SavedPhase::Asking => {
                let name = path.id(restarts).name(pipeline);
                Phase::Asking(Box::new(path.question(pipeline, name)))
            }
            SavedPhase::Parallel(block) => {
                Phase::Parallel(Box::new(block.restore(pipeline, &path, restarts)?))
            }
        };
        Ok(path)
    }
}
