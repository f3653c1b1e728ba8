//! Parallel blocks: branches begin, end, are joined (Attractor 4.8, rules P1 to P4).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use orchestra_graph::table::{ErrorPolicy, FanOut};
use orchestra_graph::{EdgeIndex, NodeIndex, Pipeline, Stage, branch_id, branches, format_duration, kind};
use serde_json::{Map, Value, json};

use crate::effect::{BranchPath, BranchStatus, BranchStep, Effect, EffectId, Observation};
use crate::files::JoinedBranch;
use crate::line::{Flow, LineEnd, Move, Records, Step, facts};
use crate::outcome::{Outcome, Status};
use crate::state::{Line, NodeOutcome, Phase};

/// How many blocks may be inside one another; the check `parallel_nesting` finds more before the run.
const MAX_NESTING: usize = 32;

/// A parallel block that is open: its branches, and how they stand.
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
    /// Where to look for a branch that has yet to begin.
    pub(crate) next: usize,
    pub(crate) running: u32,
    pub(crate) succeeded: u32,
    pub(crate) failed: u32,
    pub(crate) first_failure: String,
    pub(crate) visits: Arc<[u32]>,
    /// How nodes had ended before it began.
    pub(crate) outcomes: Arc<[(u32, Status)]>,
    pub(crate) began: Duration,
    /// How long the block may take (rule Y6).
    pub(crate) timeout: Option<Duration>,
}

/// A branch of a block that is open.
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
/// assert!(a.line().is_some() && b.line().is_none(), "one at a time");
/// assert_eq!((a.status(), b.status()), (None, None), "neither has ended");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    pub(crate) edge: EdgeIndex,
    pub(crate) id: String,
    pub(crate) began: Duration,
    /// `None` before it begins, and for one that never did.
    pub(crate) line: Option<Box<Line>>,
    pub(crate) ended: Option<Ended>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ended {
    pub(crate) status: BranchStatus,
    pub(crate) reason: Option<String>,
    pub(crate) duration: Duration,
}

impl Branch {
    /// Its edge.
    pub fn edge(&self) -> EdgeIndex {
        self.edge
    }

    /// Its id: that of the edge's target, with a number where several edges lead there.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its line; `None` where it has yet to begin.
    pub fn line(&self) -> Option<&Line> {
        self.line.as_deref()
    }

    /// How it ended; `None` where it has not.
    pub fn status(&self) -> Option<BranchStatus> {
        self.ended.as_ref().map(|ended| ended.status)
    }

    fn is_running(&self) -> bool {
        self.line.is_some() && self.ended.is_none()
    }
}

impl Block {
    /// The branches, in the order of their edges.
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// The lines of the branches that run.
    pub fn running(&self) -> impl Iterator<Item = &Line> {
        let running = self.branches.iter().filter(|branch| branch.is_running());
        running.filter_map(|branch| branch.line.as_deref())
    }

    /// Whether a timer of the block itself runs.
    pub(crate) fn is_timed(&self) -> bool {
        self.timeout.is_some()
    }

    /// How long the block may take (rule Y6).
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    pub(crate) fn running_lines_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        let running = self.branches.iter_mut().filter(|branch| branch.is_running());
        running.filter_map(|branch| branch.line.as_deref_mut())
    }

    /// The place of an edge's branch.
    pub(crate) fn place(&self, edge: EdgeIndex) -> Option<usize> {
        self.branches
            .binary_search_by_key(&edge, |branch| branch.edge)
            .ok()
    }

    /// The branch of an edge, while it runs.
    pub(crate) fn running_at(&self, edge: EdgeIndex) -> Option<&Line> {
        let branch = self
            .branches
            .get(self.place(edge)?)
            .filter(|branch| branch.is_running());
        branch.and_then(|branch| branch.line.as_deref())
    }

    pub(crate) fn running_mut(&mut self, place: usize) -> Option<&mut Line> {
        let branch = self.branches.get_mut(place).filter(|branch| branch.is_running());
        branch.and_then(|branch| branch.line.as_deref_mut())
    }

    fn count(&self) -> u32 {
        self.branches.len() as u32
    }

    /// Whether the branches that have not ended can change nothing any more (rule P4).
    fn is_decided(&self) -> bool {
        if self.fan_out.error_policy == ErrorPolicy::FailFast && self.failed > 0 {
            return true;
        }
        let Some(needed) = self.fan_out.join_policy.needed(self.count()) else {
            return false;
        };
        self.succeeded >= needed || self.count() - self.failed < needed
    }

    /// What the block amounts to (rule P4).
    fn outcome(&self, joins_at_fan_in: bool) -> Outcome {
        let (count, succeeded, failed) = (self.count(), self.succeeded, self.failed);
        let counted = format!("{succeeded} of {count} branches succeeded");
        let first = || self.first_failure.as_str();
        if self.fan_out.error_policy == ErrorPolicy::FailFast && failed > 0 {
            return Outcome::fail(first());
        }
        match self.fan_out.join_policy.needed(count) {
            Some(needed) if succeeded >= needed => Outcome::success().notes(counted),
            Some(needed) if failed == 0 => Outcome::fail(format!("{counted}, {needed} must")),
            Some(needed) => Outcome::fail(format!("{counted}, {needed} must; {}", first())),
            None if failed == 0 || self.fan_out.error_policy == ErrorPolicy::Ignore => {
                Outcome::success().notes(counted)
            }
            // Nothing behind the join would notice; a fan-in fails by itself then.
            None if succeeded == 0 && !joins_at_fan_in => {
                Outcome::fail(format!("all branches failed; {}", first()))
            }
            None => Outcome::new(Status::PartialSuccess).notes(counted),
        }
    }
}

impl Step<'_> {
    /// Opens a block at a fan-out.
    pub(crate) fn fork(&mut self, line: &mut Line, id: EffectId, fan_out: FanOut) -> Result<Move, Flow> {
        let stage = self.pipeline.stage(line.at.node);
        if line.branch.steps().len() >= MAX_NESTING {
            let reason = format!("more than {MAX_NESTING} parallel blocks are inside one another");
            return Ok(Move::Ended(Outcome::fail_terminal(reason)));
        }
        let records = Records::new(self.pipeline, line);
        let facts = facts(self.pipeline, line, stage, &records);
        let (edges, tested) = branches(self.pipeline, stage.index(), &facts);
        let count = edges.len() as u32;
        self.tell(|| Observation::ParallelStarted {
            id,
            branches: count,
            tested,
        });
        if edges.is_empty() {
            return Ok(Move::Ended(Outcome::fail(
                "the condition of every branch is false",
            )));
        }
        let mut names = branch_ids(self.pipeline, stage, &edges).into_iter();
        let branches = edges.into_iter().map(|edge| Branch {
            edge,
            id: names.next().unwrap_or_default(),
            began: Duration::ZERO,
            line: None,
            ended: None,
        });
        let block = Box::new(Block {
            fan_out,
            branches: branches.collect(),
            next: 0,
            running: 0,
            succeeded: 0,
            failed: 0,
            first_failure: String::new(),
            visits: line.visits.fork(),
            outcomes: line.outcomes.fork(),
            began: self.totals.elapsed,
            timeout: stage.duration("timeout"),
        });
        if let Some(delay) = block.timeout {
            let id = line.id(self.totals.restarts);
            self.effects.push(Effect::StartTimer { id, delay });
        }
        self.drive(line, block)
    }

    /// The time of a block is up (rule Y6): it is cancelled, and fails.
    pub(crate) fn block_timed_out(&mut self, line: &mut Line) -> Flow {
        match std::mem::replace(&mut line.phase, Phase::Idle) {
            Phase::Parallel(mut block) => {
                self.cancel_rest(line, &mut block);
                let limit = format_duration(block.timeout.unwrap_or_default());
                let counted = self.join(line, *block);
                let mut outcome = Outcome::fail(format!("timed out after {limit}")).with_code("timeout");
                outcome.context_updates = counted.context_updates;
                self.go(line, Move::Ended(outcome))
            }
            other => {
                line.phase = other;
                Flow::Wait
            }
        }
    }

    /// Takes the end of a branch, and goes on with its block.
    pub(crate) fn branch_ended(&mut self, line: &mut Line, place: usize, end: LineEnd) -> Result<Move, Flow> {
        match std::mem::replace(&mut line.phase, Phase::Idle) {
            Phase::Parallel(mut block) => {
                block.running -= 1;
                self.close(&mut block, place, end);
                self.drive(line, block)
            }
            other => {
                line.phase = other;
                Err(Flow::Wait)
            }
        }
    }

    /// Begins branches as long as there is room, and joins them when nothing more can change.
    fn drive(&mut self, line: &mut Line, mut block: Box<Block>) -> Result<Move, Flow> {
        loop {
            if block.is_decided() {
                self.cancel_rest(line, &mut block);
                return Ok(Move::Ended(self.join(line, *block)));
            }
            let place = block.next;
            if place < block.branches.len() && block.running < block.fan_out.max_parallel {
                block.next += 1;
                let branch = self.begin(line, &mut block, place);
                let target = self.pipeline.edge(block.branches[place].edge).to;
                let flow = self.go(block.branches[place].line.insert(branch), Move::Enter(target));
                match flow {
                    Flow::Wait => block.running += 1,
                    Flow::Ended(end) => self.close(&mut block, place, end),
                    other => {
                        line.phase = Phase::Parallel(block);
                        return Err(other);
                    }
                }
            } else if block.running == 0 {
                return Ok(Move::Ended(self.join(line, *block)));
            } else {
                line.phase = Phase::Parallel(block);
                return Err(Flow::Wait);
            }
        }
    }

    /// The line of a branch that begins.
    fn begin(&mut self, line: &Line, block: &mut Block, place: usize) -> Box<Line> {
        let branch = &mut block.branches[place];
        branch.began = self.totals.elapsed;
        self.take(branch.edge);
        let mut begun = Box::new(line.fork(
            path_of(line, branch.edge),
            block.visits.clone(),
            block.outcomes.clone(),
        ));
        begun.at.edge = Some(branch.edge);
        self.tell(|| Observation::ParallelBranchStarted {
            branch: begun.branch.clone(),
            index: place as u32,
        });
        begun
    }

    /// Keeps how a branch ended.
    fn close(&mut self, block: &mut Block, place: usize, end: LineEnd) {
        let branch = &mut block.branches[place];
        let Some(line) = branch.line.as_deref_mut() else {
            return;
        };
        line.phase = Phase::Idle;
        // A branch without stages has no outcome of its own, only that of the stage before the block.
        let ran = line.own_last().is_some();
        let (status, reason) = match end {
            LineEnd::Failed(failure) => (BranchStatus::Fail, Some(failure.to_string())),
            _ if line.unfinished().is_some() => (BranchStatus::Fail, line.unfinished().map(str::to_owned)),
            _ if !ran => (BranchStatus::Success, None),
            _ => match line.last.status {
                Status::Fail => (BranchStatus::Fail, Some(line.last.failure_reason.clone())),
                Status::PartialSuccess => (BranchStatus::PartialSuccess, None),
                _ => (BranchStatus::Success, None),
            },
        };
        match status {
            BranchStatus::Fail => {
                block.failed += 1;
                if block.failed == 1 {
                    let name = &branch.id;
                    let told = reason.as_deref().unwrap_or_default();
                    block.first_failure = format!("branch `{name}`: {}", crate::line::or_unsaid(told));
                }
            }
            _ => block.succeeded += 1,
        }
        let duration = self.totals.elapsed.saturating_sub(branch.began);
        let path = line.branch.clone();
        branch.ended = Some(Ended {
            status,
            reason: reason.clone(),
            duration,
        });
        self.tell(|| Observation::ParallelBranchCompleted {
            branch: path,
            index: place as u32,
            status,
            reason,
            duration,
        });
    }

    /// Cancels the branches that are not needed any more.
    fn cancel_rest(&mut self, line: &Line, block: &mut Block) {
        for place in 0..block.branches.len() {
            let branch = &mut block.branches[place];
            if branch.ended.is_some() {
                continue;
            }
            let mut duration = Duration::ZERO;
            if let Some(running) = branch.line.as_deref_mut() {
                self.cancel(running);
                running.flush();
                duration = self.totals.elapsed.saturating_sub(branch.began);
            }
            branch.ended = Some(Ended {
                status: BranchStatus::Cancelled,
                reason: None,
                duration,
            });
            let path = path_of(line, branch.edge);
            self.tell(|| Observation::ParallelBranchCompleted {
                branch: path,
                index: place as u32,
                status: BranchStatus::Cancelled,
                reason: None,
                duration,
            });
        }
        block.running = 0;
    }

    /// Brings the branches of a block together in the line around it.
    fn join(&mut self, line: &mut Line, mut block: Block) -> Outcome {
        let join = self.pipeline.stage(block.fan_out.join);
        let mut outcome = block.outcome(join.kind() == kind::FAN_IN);
        let duration = self.totals.elapsed.saturating_sub(block.began);
        let id = line.id(self.totals.restarts);
        if block.timeout.is_some() {
            self.effects.push(Effect::CancelEffect { id: id.clone() });
        }
        self.tell(|| Observation::ParallelCompleted {
            id,
            succeeded: block.succeeded,
            failed: block.failed,
            duration,
        });
        let joined = joined_branches(self.pipeline, &block);
        let ignored = block.fan_out.error_policy == ErrorPolicy::Ignore;
        let mut results = Vec::with_capacity(block.branches.len());
        let mut updates = Vec::with_capacity(block.branches.len());
        for branch in &mut block.branches {
            let Some(status) = branch.status() else {
                continue;
            };
            let key = ["parallel.branch.", &branch.id, ".status"].concat();
            updates.push((key, Value::from(status.word())));
            if !(ignored && status == BranchStatus::Fail) {
                results.extend(result(self.pipeline, branch));
            }
        }
        // Made of a list at once: thousands of single insertions would cost three times as much.
        outcome.context_updates = updates.into_iter().collect();
        outcome = outcome
            .set("parallel.results", Value::Array(results))
            .set("parallel.success_count", block.succeeded)
            .set("parallel.fail_count", block.failed);
        line.merge(block);
        line.joins(join.id(), joined);
        outcome
    }
}

/// The ids of branches. Looking at all edges before each would cost the square of their number.
pub(crate) fn branch_ids(pipeline: &Pipeline, stage: Stage<'_>, edges: &[EdgeIndex]) -> Vec<String> {
    let mut earlier: HashMap<NodeIndex, u32> = HashMap::new();
    let mut counted = stage.edges().map(|(at, row)| {
        let count = earlier.entry(row.to).or_default();
        *count += 1;
        (at, *count)
    });
    let names = edges.iter().map(|edge| match counted.find(|(at, _)| at == edge) {
        Some((_, 1)) => pipeline.stage(pipeline.edge(*edge).to).id().to_owned(),
        _ => branch_id(pipeline, *edge),
    });
    names.collect()
}

pub(crate) fn path_of(line: &Line, edge: EdgeIndex) -> BranchPath {
    line.branch.then(BranchStep {
        fan_out: line.at.node,
        visit: line.at.visit,
        attempt: line.at.attempt,
        edge,
    })
}

/// The branches whose files may have to be brought together.
fn joined_branches(pipeline: &Pipeline, block: &Block) -> Vec<JoinedBranch> {
    let mut joined = Vec::new();
    for branch in &block.branches {
        let (Some(line), Some(status)) = (branch.line.as_deref(), branch.status()) else {
            continue;
        };
        if line.files.is_none() {
            continue;
        }
        joined.push(JoinedBranch {
            id: branch.id.clone(),
            name: line.branch.name(pipeline),
            status,
            snapshot: line.snapshot().cloned(),
        });
        // One node may close a block and that around it: what came together nowhere else does so here.
        for inner in line.joined() {
            joined.push(JoinedBranch {
                id: format!("{}/{}", branch.id, inner.id),
                status: if status.is_success() { inner.status } else { status },
                ..inner.clone()
            });
        }
    }
    joined
}

/// A branch as an entry of `parallel.results` (rule P3); what its stages set is moved there.
fn result(pipeline: &Pipeline, branch: &mut Branch) -> Option<Value> {
    let ended = branch.ended.as_ref()?;
    let mut fields = Map::new();
    fields.insert("id".to_owned(), Value::String(branch.id.clone()));
    fields.insert("status".to_owned(), ended.status.word().into());
    let millis = u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX);
    fields.insert("duration_ms".to_owned(), millis.into());
    let line = branch.line.as_deref_mut();
    let word = match (ended.status, &line) {
        (BranchStatus::Success, Some(line)) if line.own_last().is_some() => line.last.status.word(),
        _ => ended.status.word(),
    };
    fields.insert("outcome".to_owned(), word.into());
    if let Some(reason) = &ended.reason {
        fields.insert("failure_reason".to_owned(), reason.as_str().into());
    }
    if let Some(line) = line {
        if let Some(snapshot) = line.snapshot() {
            fields.insert("workspace".to_owned(), snapshot.value.clone());
        }
        let stages = stages(pipeline, line);
        if !stages.is_empty() {
            fields.insert("stages".to_owned(), Value::Array(stages));
        }
        let last = line.own_last().and_then(|node| line.outcomes.get(node));
        if let Some(notes) = last.and_then(|outcome| outcome.notes.as_deref()) {
            fields.insert("notes".to_owned(), notes.into());
        }
        let updates: Map<String, Value> = line.updates.take().into_iter().flatten().collect();
        if let Some(score) = updates.get("score").filter(|score| score.is_number()) {
            fields.insert("score".to_owned(), score.clone());
        }
        if !updates.is_empty() {
            fields.insert("context_updates".to_owned(), Value::Object(updates));
        }
    }
    Some(Value::Object(fields))
}

/// The stages of a branch in the order in which they ended last, with the names of their visits, by which their responses
/// are found (rule F2).
fn stages(pipeline: &Pipeline, line: &Line) -> Vec<Value> {
    let mut seen = HashSet::new();
    let latest = line.path.iter().rev().filter(|node| seen.insert(**node));
    let mut stages: Vec<Value> = latest
        .filter_map(|node| {
            let outcome = line.outcomes.get(*node)?;
            Some(json!({
                "id": pipeline.stage(*node).id(),
                "outcome": outcome.status.word(),
                "record": outcome.record(pipeline, *node),
            }))
        })
        .collect();
    stages.reverse();
    stages
}

impl Line {
    /// The stage that ran last in a branch; `None` before the first, even if routing nodes were passed (rule R4).
    fn own_last(&self) -> Option<NodeIndex> {
        let last = self.last.node?;
        self.visits.own().any(|(node, _)| node == last).then_some(last)
    }

    /// Keeps what the branches of an open block did so far, and forgets the block.
    pub(crate) fn flush(&mut self) {
        if let Phase::Parallel(mut block) = std::mem::replace(&mut self.phase, Phase::Idle) {
            block.running_lines_mut().for_each(Line::flush);
            self.merge(*block);
        }
    }

    /// Keeps what branches did, in the order of their edges, so that it does not matter which ended first.
    fn merge(&mut self, block: Block) {
        let mut outcomes: BTreeMap<u32, NodeOutcome> = BTreeMap::new();
        let revisits = self.revisits.clone();
        for line in block.branches.into_iter().filter_map(|branch| branch.line) {
            self.path.extend(line.path);
            for (node, outcome) in line.outcomes.iter() {
                // Where branches ran one node, a success does not hide a failure.
                let hidden = outcomes
                    .get(&node.0)
                    .is_some_and(|known| !known.status.is_success());
                if !hidden {
                    outcomes.insert(node.0, outcome.clone());
                }
            }
            for (node, visits) in line.visits.own() {
                self.visits.add(node, visits);
                self.failing.retain(|failing| failing.node != node);
                let failing = line.failing.iter().filter(|failing| failing.node == node);
                self.failing.extend(failing.cloned());
            }
            if let Some(Value::Array(errors)) = line.context.get("error_history") {
                for error in &errors[errors.len().saturating_sub(line.errors.len())..] {
                    self.context
                        .append("error_history", error.as_str().unwrap_or_default().to_owned());
                }
            }
            self.errors.extend(line.errors);
            for (node, retries) in line.retries {
                *self.retries.entry(node).or_default() += retries;
            }
            for (edge, taken) in line.revisits {
                let before = revisits.get(&edge).copied().unwrap_or_default();
                *self.revisits.entry(edge).or_default() += taken.saturating_sub(before);
            }
            if !line.last_failure.is_empty() {
                self.last_failure = line.last_failure;
            }
        }
        for (node, outcome) in outcomes {
            self.outcomes.set(NodeIndex(node), outcome);
        }
    }
}
