//! The state of a run: one plain struct.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orchestra_graph::{EdgeIndex, NodeIndex, Pipeline};
use serde_json::Value;

use crate::block::Block;
use crate::context::Context;
use crate::effect::{BranchPath, EffectId};
use crate::files::Files;
use crate::human::{Answer, Question};
use crate::outcome::Status;
use crate::usage::Usage;

/// What a line of a run waits for.
///
/// ```
/// use orchestra_core::{Context, Event, Machine, Outcome, Phase};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// assert_eq!(machine.state().main.phase, Phase::Running);
/// let id = machine.pending().pop().expect("it waits for a stage");
/// machine.on(Event::NodeFinished { id, outcome: Outcome::success() }, &mut Vec::new());
/// assert_eq!(machine.state().main.phase, Phase::Idle);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Phase {
    /// It has yet to begin, or it has ended.
    Idle,
    /// It waits for a stage.
    Running,
    /// It waits before the next attempt of a stage.
    BackOff,
    /// It waits for a person.
    Asking(Box<Question>),
    /// It waits for the branches of a parallel block.
    Parallel(Box<Block>),
}

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
    /// How it ended.
    pub status: Status,
    /// A summary, or the reason of a failure.
    pub notes: Option<String>,
    /// Which visit of the node it was, from 1.
    pub visit: u32,
    /// The branch in which the node ran; a line keeps the outcomes of its branches when they come together.
    pub branch: BranchPath,
}

impl NodeOutcome {
    /// Names the visit that ended so, such as `build#2` or `fan#1:left/build#1`.
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

/// What routing sees of the stage that ran last (rule R4).
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
pub struct Last {
    /// The stage; `None` before the first.
    pub node: Option<NodeIndex>,
    /// How it ended.
    pub status: Status,
    /// The label that it prefers.
    pub preferred_label: String,
    /// The nodes that it suggests.
    pub suggested_next_ids: Vec<String>,
    /// Why it failed.
    pub failure_reason: String,
    /// The failure as one word, for machines; empty where the stage gave none.
    pub failure_code: String,
    /// What it gave, for first-match routing.
    pub output: BTreeMap<String, Value>,
}

impl Last {
    pub(crate) const NOTHING: Last = Last {
        node: None,
        status: Status::Success,
        preferred_label: String::new(),
        suggested_next_ids: Vec::new(),
        failure_reason: String::new(),
        failure_code: String::new(),
        output: BTreeMap::new(),
    };
}

/// A stage that keeps failing in the same way (rule R10).
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
pub struct Failing {
    /// The stage.
    pub node: NodeIndex,
    /// How it fails.
    pub reason: String,
    /// The digest of its exit code and output; `None` where it gave none.
    pub output: Option<String>,
    /// How often running.
    pub count: u32,
}

/// An attempt that failed (rule Y7).
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
    /// Which visit of the node, from 1.
    pub visit: u32,
    /// Which attempt of the visit, from 1.
    pub attempt: u32,
    /// Why it failed.
    pub reason: String,
}

/// A number for each node of a pipeline. A branch counts on top of what its parent counted, without a copy.
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
    /// One number a node, in the order of the table.
    All(Vec<u32>),
    /// What a branch counted itself, and what was counted before it began.
    Branch {
        /// Before it began.
        base: Arc<[u32]>,
        /// By itself, in the order of the table.
        own: Vec<(u32, u32)>,
    },
}

impl Counts {
    /// The number of a node; 0 for one that the pipeline does not have.
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

    /// What is known when branches begin.
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

    /// What a branch counted itself.
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

/// The latest outcomes of nodes.
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
    /// A place for each node, in the order of the table.
    All(Vec<Option<NodeOutcome>>),
    /// Those of a branch.
    Branch {
        /// How nodes had ended before it began, in the order of the table.
        around: Arc<[(u32, Status)]>,
        /// By itself, in the order of the table.
        own: Vec<(u32, NodeOutcome)>,
    },
}

impl Outcomes {
    /// The outcome of a node on this line alone; `None` where it has none.
    pub fn get(&self, node: NodeIndex) -> Option<&NodeOutcome> {
        match self {
            Outcomes::All(outcomes) => outcomes.get(node.at())?.as_ref(),
            Outcomes::Branch { own, .. } => find(own, node.0).map(|at| &own[at].1),
        }
    }

    /// Returns how a node ended last, on this line or on those around it; `None` where it has not.
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
            Outcomes::Branch { around, .. } => find(around, node.0).map(|at| &around[at].1),
        })
    }

    /// What is known when branches begin.
    pub(crate) fn fork(&self) -> Arc<[(u32, Status)]> {
        let own = self
            .iter()
            .map(|(node, outcome)| (node.0, outcome.status.clone()));
        match self {
            Outcomes::Branch { around, own } if own.is_empty() => around.clone(),
            Outcomes::Branch { around, .. } => {
                let mut all: BTreeMap<u32, Status> = around.iter().cloned().collect();
                all.extend(own);
                all.into_iter().collect()
            }
            Outcomes::All(_) => own.collect(),
        }
    }

    /// The nodes that have an outcome, in the order of the table.
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

    pub(crate) fn set(&mut self, node: NodeIndex, outcome: NodeOutcome) {
        match self {
            Outcomes::All(outcomes) => {
                if let Some(place) = outcomes.get_mut(node.at()) {
                    *place = Some(outcome);
                }
            }
            Outcomes::Branch { own, .. } => match own.binary_search_by_key(&node.0, |(node, _)| *node) {
                Ok(at) => own[at].1 = outcome,
                Err(at) => own.insert(at, (node.0, outcome)),
            },
        }
    }
}

/// The place of a node in a list that is in the order of the table.
fn find<T>(list: &[(u32, T)], node: u32) -> Option<usize> {
    list.binary_search_by_key(&node, |(node, _)| *node).ok()
}

/// The stage at which a line of a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) node: NodeIndex,
    pub(crate) visit: u32,
    pub(crate) attempt: u32,
    pub(crate) index: u64,
    /// The edge by which the line came; `None` where a jump or a start brought it.
    pub(crate) edge: Option<EdgeIndex>,
    /// How long is waited before the attempt, where the line waits.
    pub(crate) delay: Duration,
}

/// What an attempt has done before it ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    pub(crate) notes: Vec<Value>,
    pub(crate) used: Usage,
    /// The answer to its question that came while nobody executed the run.
    pub(crate) answer: Option<Answer>,
}

/// One line of a run: the main line, or a branch of a parallel block.
///
/// ```
/// use orchestra_core::{Context, Event, Machine, Outcome};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let id = machine.pending().pop().expect("it waits for a stage");
/// machine.on(Event::NodeFinished { id: id.clone(), outcome: Outcome::success().set("size", 7) }, &mut Vec::new());
/// let line = machine.into_state().main;
/// assert_eq!((line.path.len(), line.visits.get(id.node)), (3, 1));
/// assert_eq!(line.context.get("size"), Some(&7.into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Line {
    /// What it waits for.
    pub phase: Phase,
    /// Where it is in the run.
    pub branch: BranchPath,
    /// The named values.
    pub context: Context,
    /// How often each node was visited.
    pub visits: Counts,
    /// The latest outcome of each node.
    pub outcomes: Outcomes,
    /// The nodes that ended, in order; those of a parallel block in the order of its edges.
    pub path: Vec<NodeIndex>,
    /// What routing sees of the stage that ran last.
    pub last: Last,
    /// The stage that failed last and why, in words; empty where none failed.
    pub last_failure: String,
    /// The stages that keep failing.
    pub failing: Vec<Failing>,
    /// The attempts that failed, in order.
    pub errors: Vec<AttemptError>,
    /// How often each node was run again after a failed attempt.
    pub retries: BTreeMap<u32, u32>,
    /// How often each edge led back, in first-match routing.
    pub revisits: BTreeMap<u32, u32>,
    pub(crate) at: At,
    /// What the attempt that runs has done so far; `None` where it told nothing.
    pub(crate) progress: Option<Box<Progress>>,
    /// The files that its stages work on; `None` where nothing was told of them.
    pub(crate) files: Option<Box<Files>>,
    /// What its stages set; kept for branches alone.
    pub(crate) updates: Option<BTreeMap<String, Value>>,
}

impl Line {
    pub(crate) fn main(nodes: usize, context: Context) -> Line {
        Line {
            phase: Phase::Idle,
            branch: BranchPath::default(),
            context,
            visits: Counts::All(vec![0; nodes]),
            outcomes: Outcomes::All(vec![None; nodes]),
            path: Vec::new(),
            last: Last::NOTHING,
            last_failure: String::new(),
            failing: Vec::new(),
            errors: Vec::new(),
            retries: BTreeMap::new(),
            revisits: BTreeMap::new(),
            progress: None,
            files: None,
            at: At {
                node: NodeIndex(0),
                visit: 0,
                attempt: 0,
                index: 0,
                edge: None,
                delay: Duration::ZERO,
            },
            updates: None,
        }
    }

    /// A branch of this line.
    pub(crate) fn fork(&self, branch: BranchPath, base: Arc<[u32]>, around: Arc<[(u32, Status)]>) -> Line {
        Line {
            phase: Phase::Idle,
            branch,
            context: self.context.clone(),
            visits: Counts::Branch {
                base,
                own: Vec::new(),
            },
            outcomes: Outcomes::Branch {
                around,
                own: Vec::new(),
            },
            path: Vec::new(),
            last: self.last.clone(),
            last_failure: String::new(),
            failing: self.failing.clone(),
            errors: Vec::new(),
            retries: BTreeMap::new(),
            revisits: self.revisits.clone(),
            progress: None,
            files: self.files_of_branch(),
            at: self.at,
            updates: Some(BTreeMap::new()),
        }
    }

    /// The edge by which it came to the stage where it is; `None` where a jump or the start brought it there.
    pub fn came_by(&self) -> Option<EdgeIndex> {
        self.at.edge
    }

    /// What the attempt that runs has noted for the case that it is repeated, in order.
    pub fn notes(&self) -> &[Value] {
        self.progress.as_ref().map_or(&[], |progress| &progress.notes)
    }

    /// Returns the answer to the question of the attempt that runs, where one came while nobody executed the run and the
    /// attempt has noted nothing since.
    pub fn answer(&self) -> Option<&Answer> {
        self.progress.as_ref()?.answer.as_ref()
    }

    /// What the attempt that runs has used, as far as it was told.
    pub fn used(&self) -> Usage {
        self.progress
            .as_ref()
            .map_or(Usage::default(), |progress| progress.used)
    }

    /// The name of the effect that it waits for.
    pub(crate) fn id(&self, restart: u32) -> EffectId {
        EffectId {
            restart,
            branch: self.branch.clone(),
            node: self.at.node,
            visit: self.at.visit,
            attempt: self.at.attempt,
        }
    }
}

/// What all lines of a run count together.
///
/// ```
/// use orchestra_core::{Context, Machine};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let machine = Machine::start(pipeline, Context::new(), 7, &mut Vec::new());
/// let totals = &machine.state().totals;
/// assert_eq!((totals.begun, totals.restarts, totals.seed), (2, 0, 7));
/// assert_eq!(totals.taken, [1, 0], "the first edge was taken");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Whether the run has ended.
    pub finished: bool,
    /// How many stages began.
    pub begun: u64,
    /// How often the run was restarted.
    pub restarts: u32,
    /// How often an unsatisfied goal gate sent the run back.
    pub reroutes: u32,
    /// How often each edge was taken, over all restarts.
    pub taken: Vec<u32>,
    /// How long the run has been going, as far as it was told.
    pub elapsed: Duration,
    /// The seed of every chance in the run.
    pub seed: u64,
    /// What all attempts used.
    pub usage: Usage,
    /// What all attempts at a node used, for nodes that have a budget of their own.
    pub spent: BTreeMap<u32, Usage>,
}

/// The state of a run.
///
/// ```
/// use orchestra_core::{Context, Machine};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let machine = Machine::start(pipeline, Context::new(), 7, &mut Vec::new());
/// let state = machine.state();
/// assert!(!state.totals.finished);
/// assert_eq!(state.main.path.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct State {
    /// The main line; branches are within it.
    pub main: Line,
    /// What all lines count together.
    pub totals: Totals,
}

impl State {
    /// Keeps in the main line what the branches of open blocks did so far, for those who look at a run that stopped.
    pub fn flush(&mut self) {
        self.main.flush();
    }
}
