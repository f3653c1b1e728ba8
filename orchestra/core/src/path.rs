//! Execution paths, and the parallel blocks in which they branch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orchestra_graph::table::FanOut;
use orchestra_graph::{EdgeIndex, NodeIndex};
use serde_json::Value;

use crate::answer::Answer;
use crate::context::Context;
use crate::files::{Files, JoinedBranch, Joining, Snapshot};
use crate::history::{AttemptError, Counts, FailureStreak, LastStage, Outcomes};
use crate::id::{BranchPath, BranchStep, EffectId};
use crate::outcome::{BranchStatus, Status};
use crate::question::Question;
use crate::usage::Usage;

/// The phase of an execution path, named after the event that the path waits for.
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
    /// The path has not started yet, or it has ended.
    Idle,
    /// The path waits for a running stage.
    Running,
    /// The path waits before the next attempt of a stage.
    BackOff,
    /// The path waits for a person's answer.
    Asking(Box<Question>),
    /// The path waits for the branches of a parallel block.
    Parallel(Box<Block>),
}

/// The stage at which an execution path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StagePosition {
    pub(crate) node: NodeIndex,
    pub(crate) visit: u32,
    pub(crate) attempt: u32,
    pub(crate) index: u64,
    /// The edge by which the path came; `None` after a jump or the start.
    pub(crate) edge: Option<EdgeIndex>,
    /// The delay before the attempt, while the path backs off.
    pub(crate) delay: Duration,
}

/// The progress of an attempt that has not ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    pub(crate) notes: Vec<Value>,
    pub(crate) used: Usage,
    /// The answer to the attempt's question that arrived while no process executed the run.
    pub(crate) answer: Option<Answer>,
}

/// One execution path of a run: the main path, or a branch of a parallel block.
///
/// ```
/// use orchestra_core::{Context, Event, Machine, Outcome};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let id = machine.pending().pop().expect("it waits for a stage");
/// machine.on(Event::NodeFinished { id: id.clone(), outcome: Outcome::success().set("size", 7) }, &mut Vec::new());
/// let path = machine.into_state().main;
/// assert_eq!((path.completed.len(), path.visits.get(id.node)), (3, 1));
/// assert_eq!(path.context.get("size"), Some(&7.into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExecutionPath {
    /// The current phase.
    pub phase: Phase,
    /// The position of the path in the branches of the run; empty for the main path.
    pub branch: BranchPath,
    /// The named values that the stages share.
    pub context: Context,
    /// The number of visits of each node.
    pub visits: Counts,
    /// The latest outcome of each node.
    pub outcomes: Outcomes,
    /// The nodes that ended, in order; those of a parallel block in the order of its edges.
    pub completed: Vec<NodeIndex>,
    /// The stage that ran last, as routing sees it.
    pub last: LastStage,
    /// The stage that failed last and its reason, as a message; empty if no stage failed.
    pub last_failure: String,
    /// The stages whose latest visit failed, with the number of equal failures.
    pub failing: Vec<FailureStreak>,
    /// The failed attempts, in order.
    pub errors: Vec<AttemptError>,
    /// The number of retries of each node.
    pub retries: BTreeMap<u32, u32>,
    /// The number of times that each edge led back to a visited node, in first-match routing.
    pub revisits: BTreeMap<u32, u32>,
    pub(crate) at: StagePosition,
    /// The progress of the running attempt; `None` if it reported nothing.
    pub(crate) progress: Option<Box<Progress>>,
    /// The files that the stages of the path work on; `None` if nothing was reported about them.
    pub(crate) files: Option<Box<Files>>,
    /// The context updates of the stages of the path; recorded for branches only.
    pub(crate) updates: Option<BTreeMap<String, Value>>,
}

impl ExecutionPath {
    pub(crate) fn main(nodes: usize, context: Context) -> ExecutionPath {
        ExecutionPath {
            phase: Phase::Idle,
            branch: BranchPath::default(),
            context,
            visits: Counts::All(vec![0; nodes]),
            outcomes: Outcomes::All(vec![None; nodes]),
            completed: Vec::new(),
            last: LastStage::NOTHING,
            last_failure: String::new(),
            failing: Vec::new(),
            errors: Vec::new(),
            retries: BTreeMap::new(),
            revisits: BTreeMap::new(),
            progress: None,
            files: None,
            at: StagePosition {
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

    /// Creates a branch of this path.
    pub(crate) fn fork(
        &self,
        branch: BranchPath,
        visits: Arc<[u32]>,
        outcomes: Arc<[(u32, Status)]>,
    ) -> ExecutionPath {
        ExecutionPath {
            phase: Phase::Idle,
            branch,
            context: self.context.clone(),
            visits: Counts::Branch {
                base: visits,
                own: Vec::new(),
            },
            outcomes: Outcomes::Branch {
                base: outcomes,
                own: Vec::new(),
            },
            completed: Vec::new(),
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

    /// Returns the edge by which the path came to its current stage; `None` after a jump or the start.
    pub fn came_by(&self) -> Option<EdgeIndex> {
        self.at.edge
    }

    /// Returns the notes of the running attempt, in order. The attempt reads them if it is repeated.
    pub fn notes(&self) -> &[Value] {
        self.progress.as_ref().map_or(&[], |progress| &progress.notes)
    }

    /// Returns the answer to the question of the running attempt, if one arrived while no process executed the run and
    /// the attempt has noted nothing since.
    pub fn answer(&self) -> Option<&Answer> {
        self.progress.as_ref()?.answer.as_ref()
    }

    /// Returns the usage of the running attempt, as far as it was reported.
    pub fn used(&self) -> Usage {
        self.progress
            .as_ref()
            .map_or(Usage::default(), |progress| progress.used)
    }

    /// Removes what no later decision reads: the nodes that ended, notes, and failed attempts.
    pub(crate) fn forget_history(&mut self) {
        self.completed.clear();
        self.errors.clear();
        self.outcomes.forget_notes();
        if self.context.get("error_history").is_some() {
            self.context.remove("error_history");
        }
        if let Phase::Parallel(block) = &mut self.phase {
            let branches = block.branches.iter_mut();
            for path in branches.filter_map(|branch| branch.path.as_deref_mut()) {
                path.forget_history();
            }
        }
    }

    /// Returns the id of the effect that the path waits for.
    pub(crate) fn id(&self, restart: u32) -> EffectId {
        EffectId {
            restart,
            branch: self.branch.clone(),
            node: self.at.node,
            visit: self.at.visit,
            attempt: self.at.attempt,
        }
    }

    /// Returns the last stage that ran in a branch; `None` before the first stage, even if routing nodes were passed
    /// (rule R4).
    pub(crate) fn own_last(&self) -> Option<NodeIndex> {
        let last = self.last.node?;
        self.visits.own().any(|(node, _)| node == last).then_some(last)
    }

    /// Returns the latest state of the files of the path; `None` if nothing was changed since the run began.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.files.as_ref()?.snapshot.as_deref()
    }

    /// Returns the branches that ended before the current join, in the order of their edges. Returns an empty list as
    /// soon as their files are merged.
    pub fn joined(&self) -> &[JoinedBranch] {
        let joining = self.files.as_ref().and_then(|files| files.joining.as_ref());
        joining.map_or(&[], |joining| &joining.branches)
    }

    /// Returns a message about the work that must be finished before the path may end.
    pub(crate) fn unfinished(&self) -> Option<&str> {
        self.snapshot()?.unfinished.as_deref()
    }

    /// Stores a new snapshot. If files changed, no later failure of any stage counts as equal to an earlier one (rule
    /// R10).
    pub(crate) fn set_snapshot(&mut self, snapshot: Snapshot) {
        if self.snapshot().is_none_or(|known| known.value != snapshot.value) {
            self.failing.clear();
        }
        let files = self.files.get_or_insert_default();
        if snapshot.joined {
            files.joining = None;
        }
        files.snapshot = Some(Arc::new(snapshot));
    }

    /// Returns the files with which a branch begins.
    fn files_of_branch(&self) -> Option<Box<Files>> {
        let snapshot = self.files.as_ref()?.snapshot.clone()?;
        Some(Box::new(Files {
            snapshot: Some(snapshot),
            joining: None,
        }))
    }

    /// Records the branches that are joined at a node, if any of them has files.
    pub(crate) fn set_joined(&mut self, at: &str, branches: Vec<JoinedBranch>) {
        if branches.iter().any(|branch| branch.snapshot.is_some()) {
            self.files.get_or_insert_default().joining = Some(Box::new(Joining {
                at: at.to_owned(),
                branches,
            }));
        }
    }

    /// Drops the joined branches if the path has left their join.
    pub(crate) fn leave_join(&mut self, node: &str) {
        if let Some(files) = &mut self.files
            && files.joining.as_ref().is_some_and(|joining| joining.at != node)
        {
            files.joining = None;
        }
    }
}

/// An open parallel block with the state of its branches.
///
/// ```
/// use orchestra_core::{Context, Machine, Phase};
/// # use orchestra_graph::{Source, load};
/// let text = "digraph { start -> fan; fan [shape=component, max_parallel=1]; fan -> a -> join; fan -> b -> join
///     join [shape=tripleoctagon]; join -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let Phase::Parallel(block) = &machine.state().main.phase else { panic!("the branches run") };
/// assert_eq!((block.branches().len(), block.running().count()), (2, 1));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    pub(crate) fan_out: FanOut,
    pub(crate) branches: Vec<Branch>,
    /// The items of the fan-out's list; empty if it has none.
    pub(crate) items: Vec<Value>,
    /// The index at which to look for a branch that has not begun.
    pub(crate) next: usize,
    pub(crate) running: u32,
    pub(crate) succeeded: u32,
    pub(crate) failed: u32,
    pub(crate) visits: Arc<[u32]>,
    /// The statuses of the nodes from before the block began.
    pub(crate) outcomes: Arc<[(u32, Status)]>,
    pub(crate) began: Duration,
    /// The time limit of the block (rule Y6).
    pub(crate) timeout: Option<Duration>,
}

/// A branch of an open block.
///
/// ```
/// use orchestra_core::{Context, Machine, Phase};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> fan; fan [shape=component, max_parallel=1]; fan -> a -> join; fan -> b -> join
/// #     join [shape=tripleoctagon]; join -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let Phase::Parallel(block) = &machine.state().main.phase else { panic!("the branches run") };
/// let [a, b] = block.branches() else { panic!("there are two") };
/// assert!(a.path().is_some() && b.path().is_none(), "one at a time");
/// assert_eq!((a.status(), b.status()), (None, None), "neither has ended");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    pub(crate) edge: EdgeIndex,
    /// The index of its item, if the fan-out has a list.
    pub(crate) item: Option<u32>,
    pub(crate) id: String,
    pub(crate) began: Duration,
    /// The path of the branch; `None` if the branch has not begun, or never did.
    pub(crate) path: Option<Box<ExecutionPath>>,
    pub(crate) ended: Option<BranchEnd>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BranchEnd {
    pub(crate) status: BranchStatus,
    pub(crate) reason: Option<String>,
    pub(crate) duration: Duration,
}

impl Branch {
    /// Returns the edge of the branch.
    pub fn edge(&self) -> EdgeIndex {
        self.edge
    }

    /// Returns the id of the branch: the id of the edge's target, with a number if several edges lead there, or with the
    /// index of the branch's item.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the execution path of the branch; `None` if the branch has not begun.
    pub fn path(&self) -> Option<&ExecutionPath> {
        self.path.as_deref()
    }

    /// Returns the status with which the branch ended; `None` if it has not ended.
    pub fn status(&self) -> Option<BranchStatus> {
        self.ended.as_ref().map(|ended| ended.status)
    }

    fn is_running(&self) -> bool {
        self.path.is_some() && self.ended.is_none()
    }
}

impl Block {
    /// Returns the branches, in the order of their edges.
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// Iterates over the execution paths of the running branches.
    pub fn running(&self) -> impl Iterator<Item = &ExecutionPath> {
        let running = self.branches.iter().filter(|branch| branch.is_running());
        running.filter_map(|branch| branch.path.as_deref())
    }

    /// Returns `true` if the block has a timer of its own.
    pub(crate) fn is_timed(&self) -> bool {
        self.timeout.is_some()
    }

    /// Returns the time limit of the block (rule Y6).
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    pub(crate) fn running_paths_mut(&mut self) -> impl Iterator<Item = &mut ExecutionPath> {
        let running = self.branches.iter_mut().filter(|branch| branch.is_running());
        running.filter_map(|branch| branch.path.as_deref_mut())
    }

    /// Returns the index of a step's branch.
    pub(crate) fn position(&self, step: &BranchStep) -> Option<usize> {
        let key = |branch: &Branch| (branch.edge, branch.item);
        self.branches
            .binary_search_by_key(&(step.edge, step.item), key)
            .ok()
    }

    /// Returns the execution path of a step's branch; `None` unless the branch is running.
    pub(crate) fn running_at(&self, step: &BranchStep) -> Option<&ExecutionPath> {
        let branch = self
            .branches
            .get(self.position(step)?)
            .filter(|branch| branch.is_running());
        branch.and_then(|branch| branch.path.as_deref())
    }

    pub(crate) fn running_mut(&mut self, position: usize) -> Option<&mut ExecutionPath> {
        let branch = self
            .branches
            .get_mut(position)
            .filter(|branch| branch.is_running());
        branch.and_then(|branch| branch.path.as_deref_mut())
    }
}
