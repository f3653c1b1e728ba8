//! The history of an execution path: the visits, outcomes and failures of its stages.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use orchestra_graph::{NodeIndex, Pipeline};
use serde_json::Value;

use crate::id::BranchPath;
use crate::outcome::Status;

/// The latest outcome of a node (Attractor 5.3).
///
/// ```
/// use orchestra_core::{Context, Event, Machine, Outcome, Status};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// # let build = pipeline.find("build").expect("an edge names it");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let id = machine.pending().pop().expect("it waits for a stage");
/// machine.on(Event::NodeFinished { id, outcome: Outcome::fail("no compiler") }, &mut Vec::new());
/// let kept = machine.state().main.outcomes.get(build).expect("it ended");
/// assert_eq!((&kept.status, kept.notes.as_deref()), (&Status::Fail, Some("no compiler")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOutcome {
    /// The status with which the node ended.
    pub status: Status,
    /// A summary, or the reason for the failure.
    pub notes: Option<String>,
    /// The number of the visit of the node, starting at 1.
    pub visit: u32,
    /// The branch in which the node ran. A path takes over the outcomes of its branches when they join.
    pub branch: BranchPath,
}

impl NodeOutcome {
    /// Returns the name of the visit that had this outcome, such as `build#2` or `fan#1:left/build#1`.
    ///
    /// ```
    /// use orchestra_core::{Context, Machine};
    /// # use orchestra_graph::{Source, load};
    /// # let text = "digraph { start -> build -> exit }";
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
    /// let (start, outcome) = machine.state().main.outcomes.iter().next().expect("the start has ended");
    /// assert_eq!(outcome.record(machine.pipeline(), start), "start#1");
    /// ```
    pub fn record(&self, pipeline: &Pipeline, node: NodeIndex) -> String {
        let mut record = self.branch.name(pipeline);
        if !record.is_empty() {
            record.push('/');
        }
        record.push_str(&format!("{}#{}", pipeline.stage(node).id(), self.visit));
        record
    }
}

/// The stage that ran last, as routing sees it (rule R4).
///
/// ```
/// use orchestra_core::{Context, Event, Machine, Outcome};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> review; review -> fix [label=Fix]; review -> exit [label=Ship]; fix -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let id = machine.pending().pop().expect("it waits for a stage");
/// machine.on(Event::NodeFinished { id: id.clone(), outcome: Outcome::success().prefer("Fix") }, &mut Vec::new());
/// let last = &machine.state().main.last;
/// assert_eq!((last.node, last.preferred_label.as_str()), (Some(id.node), "Fix"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LastStage {
    /// The stage; `None` before the first stage.
    pub node: Option<NodeIndex>,
    /// The status with which the stage ended.
    pub status: Status,
    /// The label of the edge that the stage prefers.
    pub preferred_label: String,
    /// The ids of the next nodes that the stage suggests.
    pub suggested_next_ids: Vec<String>,
    /// The reason for the failure; empty unless the stage failed.
    pub failure_reason: String,
    /// The machine-readable failure code; empty if the stage set none.
    pub failure_code: String,
    /// The context updates of the stage; only filled in first-match routing.
    pub output: BTreeMap<String, Value>,
}

impl LastStage {
    pub(crate) const NOTHING: LastStage = LastStage {
        node: None,
        status: Status::Success,
        preferred_label: String::new(),
        suggested_next_ids: Vec::new(),
        failure_reason: String::new(),
        failure_code: String::new(),
        output: BTreeMap::new(),
    };
}

/// A stage that repeatedly fails in the same way (rule R10).
///
/// ```
/// use orchestra_core::{Context, Event, Machine, Outcome};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { failure_breaker=3; start -> build -> exit; build [retry_target=build] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// for _ in 0..2 {
///     let id = machine.pending().pop().expect("it waits for a stage");
///     machine.on(Event::NodeFinished { id, outcome: Outcome::fail("no compiler") }, &mut Vec::new());
/// }
/// let failing = &machine.state().main.failing[0];
/// assert_eq!((failing.reason.as_str(), failing.count), ("no compiler", 2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureStreak {
    /// The stage.
    pub node: NodeIndex,
    /// The reason for the failure.
    pub reason: String,
    /// The digest of the exit code and the output; `None` if the stage provided none.
    pub output: Option<NonZeroU64>,
    /// The number of consecutive equal failures.
    pub count: u32,
}

/// A failed attempt (rule Y7).
///
/// ```
/// use orchestra_core::{Context, Event, Machine, Outcome};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit; build [max_retries=1] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let id = machine.pending().pop().expect("it waits for a stage");
/// machine.on(Event::NodeFinished { id, outcome: Outcome::fail("no network") }, &mut Vec::new());
/// let error = &machine.state().main.errors[0];
/// assert_eq!((error.attempt, error.reason.as_str()), (1, "no network"));
/// assert_eq!(machine.state().main.context.get("error_history"), Some(&serde_json::json!(["build: no network"])));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptError {
    /// The stage.
    pub node: NodeIndex,
    /// The number of the visit of the node, starting at 1.
    pub visit: u32,
    /// The number of the attempt within the visit, starting at 1.
    pub attempt: u32,
    /// The reason for the failure.
    pub reason: String,
}

/// A counter for each node of a pipeline. A branch counts on top of the counters of its parent path, without a copy.
///
/// ```
/// use orchestra_core::{Context, Machine};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let visits = &machine.state().main.visits;
/// let counts: Vec<u32> = (0..3).map(|at| visits.get(orchestra_graph::NodeIndex(at))).collect();
/// assert_eq!(counts, [1, 1, 0]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counts {
    /// One counter per node, in the order of the node table.
    All(Vec<u32>),
    /// The counters of a branch, on top of those from before the branch began.
    Branch {
        /// The counters from before the branch began, in the order of the node table.
        base: Arc<[u32]>,
        /// The counters of the branch itself: pairs of node and count, in the order of the node table.
        own: Vec<(u32, u32)>,
    },
}

impl Counts {
    /// Returns the counter of a node; 0 if the pipeline does not have the node.
    pub fn get(&self, node: NodeIndex) -> u32 {
        match self {
            Counts::All(counts) => counts.get(node.at()).copied().unwrap_or_default(),
            Counts::Branch { base, own } => {
                let before = base.get(node.at()).copied().unwrap_or_default();
                before.saturating_add(find(own, node.0).map_or(0, |at| own[at].1))
            }
        }
    }

    pub(crate) fn add(&mut self, node: NodeIndex, more: u32) {
        match self {
            Counts::All(counts) => {
                if let Some(count) = counts.get_mut(node.at()) {
                    *count = count.saturating_add(more);
                }
            }
            Counts::Branch { own, .. } => match own.binary_search_by_key(&node.0, |(node, _)| *node) {
                Ok(at) => own[at].1 = own[at].1.saturating_add(more),
                Err(at) => own.insert(at, (node.0, more)),
            },
        }
    }

    /// Returns the counters with which branches begin.
    pub(crate) fn fork(&self) -> Arc<[u32]> {
        match self {
            Counts::All(counts) => counts.as_slice().into(),
            Counts::Branch { base, own } if own.is_empty() => base.clone(),
            Counts::Branch { base, own } => {
                let mut all: Vec<u32> = base.to_vec();
                for (node, more) in own {
                    if let Some(count) = all.get_mut(*node as usize) {
                        *count = count.saturating_add(*more);
                    }
                }
                all.into()
            }
        }
    }

    /// Iterates over the counters of the branch itself; empty for the main path.
    pub(crate) fn own(&self) -> impl Iterator<Item = (NodeIndex, u32)> + '_ {
        let own = match self {
            Counts::All(_) => None,
            Counts::Branch { own, .. } => Some(own),
        };
        own.into_iter()
            .flatten()
            .map(|(node, count)| (NodeIndex(*node), *count))
    }
}

/// The latest outcomes of the nodes.
///
/// ```
/// use orchestra_core::{Context, Machine};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let outcomes = &machine.state().main.outcomes;
/// assert_eq!(outcomes.iter().count(), 1, "the start has ended");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcomes {
    /// One entry per node, in the order of the node table.
    All(Vec<Option<NodeOutcome>>),
    /// The outcomes of a branch.
    Branch {
        /// The statuses of the nodes from before the branch began, in the order of the node table.
        base: Arc<[(u32, Status)]>,
        /// The outcomes of the branch itself, in the order of the node table.
        own: Vec<(u32, NodeOutcome)>,
    },
}

impl Outcomes {
    /// Returns the outcome of a node on this path alone; `None` if it has none.
    pub fn get(&self, node: NodeIndex) -> Option<&NodeOutcome> {
        match self {
            Outcomes::All(outcomes) => outcomes.get(node.at())?.as_ref(),
            Outcomes::Branch { own, .. } => find(own, node.0).map(|at| &own[at].1),
        }
    }

    /// Returns the latest status of a node on this path or its parent paths; `None` if the node has not ended.
    ///
    /// ```
    /// use orchestra_core::{Context, Machine, Status};
    /// # use orchestra_graph::{Source, load};
    /// # let text = "digraph { start -> build -> exit }";
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
    /// let start = machine.pipeline().find("start").expect("it is there");
    /// assert_eq!(machine.state().main.outcomes.latest(start), Some(&Status::Success));
    /// ```
    pub fn latest(&self, node: NodeIndex) -> Option<&Status> {
        let own = self.get(node).map(|outcome| &outcome.status);
        own.or_else(|| match self {
            Outcomes::All(_) => None,
            Outcomes::Branch { base, .. } => find(base, node.0).map(|at| &base[at].1),
        })
    }

    /// Returns the statuses with which branches begin.
    pub(crate) fn fork(&self) -> Arc<[(u32, Status)]> {
        let own = self
            .iter()
            .map(|(node, outcome)| (node.0, outcome.status.clone()));
        match self {
            Outcomes::Branch { base, own } if own.is_empty() => base.clone(),
            Outcomes::Branch { base, .. } => {
                let mut all: BTreeMap<u32, Status> = base.iter().cloned().collect();
                all.extend(own);
                all.into_iter().collect()
            }
            Outcomes::All(_) => own.collect(),
        }
    }

    /// Iterates over the nodes that have an outcome, in the order of the node table.
    pub fn iter(&self) -> impl Iterator<Item = (NodeIndex, &NodeOutcome)> {
        let (all, branch) = match self {
            Outcomes::All(outcomes) => (Some(outcomes), None),
            Outcomes::Branch { own, .. } => (None, Some(own)),
        };
        let all = all.into_iter().flatten().enumerate();
        let all = all.filter_map(|(at, outcome)| Some((NodeIndex(at as u32), outcome.as_ref()?)));
        let branch = branch.into_iter().flatten();
        all.chain(branch.map(|(node, outcome)| (NodeIndex(*node), outcome)))
    }

    /// Removes the notes of all outcomes.
    pub(crate) fn forget_notes(&mut self) {
        match self {
            Outcomes::All(outcomes) => {
                for outcome in outcomes.iter_mut().flatten() {
                    outcome.notes = None;
                }
            }
            Outcomes::Branch { own, .. } => {
                for (_, outcome) in own {
                    outcome.notes = None;
                }
            }
        }
    }

    pub(crate) fn set(&mut self, node: NodeIndex, outcome: NodeOutcome) {
        match self {
            Outcomes::All(outcomes) => {
                if let Some(slot) = outcomes.get_mut(node.at()) {
                    *slot = Some(outcome);
                }
            }
            Outcomes::Branch { own, .. } => match own.binary_search_by_key(&node.0, |(node, _)| *node) {
                Ok(at) => own[at].1 = outcome,
                Err(at) => own.insert(at, (node.0, outcome)),
            },
        }
    }
}

/// Returns the index of a node in a list that is sorted by node.
fn find<T>(list: &[(u32, T)], node: u32) -> Option<usize> {
    list.binary_search_by_key(&node, |(node, _)| *node).ok()
}
