//! The steps of a pipeline as lists, with the edges that a run can take only so often.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::condition::{Comparison, Expression};
use crate::flow::steps::{Step, Steps};
use crate::kind;
use crate::model::NodeIndex;
use crate::table::{End, ErrorPolicy, JoinPolicy, Pipeline, Role, Routing, Stage};

/// The prefix of keys that read the number of visits of a node.
const VISITS: &str = "visits.";

/// The number of blocks around each node, on average, up to which they are distinguished.
const MAX_BLOCKS: usize = 64;

/// The steps of a pipeline, by the indices of its nodes.
pub(super) struct Relation {
    /// The nodes that may follow each node on its path, without duplicates.
    pub(super) next: Vec<Vec<u32>>,
    /// The targets of the branches of each node, one for each edge and item.
    pub(super) branches: Vec<Vec<u32>>,
    /// The nodes at which a run may restart after each node.
    pub(super) restarts: Vec<Vec<u32>>,
    /// The nodes at which a run may end as a success, except the exit.
    pub(super) ends: Vec<bool>,
    /// The nodes to which an unsatisfied goal gate may send a run.
    pub(super) reroutes: Vec<u32>,
    /// The steps that a path can take only so often, each with an edge that is the reason.
    pub(super) capacities: BTreeMap<(u32, u32), (u64, u32)>,
    /// The maximum number of times that edges enter each node, in first-match routing. `None` if a jump may lead there.
    pub(super) entries: Vec<Option<u64>>,
}

impl Relation {
    pub(super) fn new(steps: &mut Steps, conditions: &[Expression]) -> Relation {
        let count = steps.pipeline().nodes.len();
        let mut relation = Relation {
            next: vec![Vec::new(); count],
            branches: vec![Vec::new(); count],
            restarts: vec![Vec::new(); count],
            ends: vec![false; count],
            reroutes: Vec::new(),
            capacities: BTreeMap::new(),
            entries: vec![None; count],
        };
        for at in (0..count as u32).map(NodeIndex) {
            relation.add(steps, at);
            if steps.are_incomplete() {
                relation.add_all(steps.pipeline());
                break;
            }
        }
        if let Some(success) = steps.end("success") {
            let exit = steps.pipeline().exit;
            let reroutes = steps.after(exit, success);
            let reroutes = reroutes.iter().filter_map(|step| match step {
                Step::To { node, .. } => Some(node.0),
                _ => None,
            });
            relation.reroutes = reroutes.collect();
        }
        if steps.pipeline().settings.max_goal_gate_reroutes == 0 {
            relation.reroutes.clear();
        }
        relation.add_capacities(steps.pipeline(), conditions);
        relation
    }

    /// Adds the steps of a node.
    fn add(&mut self, steps: &mut Steps, node: NodeIndex) {
        let row = *steps.stage(node).row();
        let ends = match row.role {
            Role::Routing => steps.any_end(),
            _ => steps.ends(node),
        };
        // Without conditions, all that matters is whether the stage failed, and the answer at a gate.
        let is_plain = row.fan_out.is_some()
            || steps
                .stage(node)
                .edges()
                .all(|(_, edge)| edge.condition.is_none());
        let success = steps.end("success");
        let (mut next, mut restarts) = (BTreeSet::new(), BTreeSet::new());
        for end in ends {
            if is_plain && end.answer.is_none() && Some(end) != success && !steps.is_failure(end) {
                continue;
            }
            let after = steps.after(node, end);
            // The other steps after a success are those of goal gates.
            let is_end = after.contains(&Step::Success);
            if is_end {
                self.ends[node.at()] |= row.role != Role::Exit;
                continue;
            }
            for step in after.iter() {
                if let Step::To {
                    node,
                    restarts: again,
                } = step
                {
                    if *again {
                        restarts.insert(node.0);
                    } else {
                        next.insert(node.0);
                    }
                }
            }
        }
        self.next[node.at()] = next.into_iter().collect();
        self.restarts[node.at()] = restarts.into_iter().collect();
        if row.fan_out.is_some() {
            self.branches[node.at()] = branches(steps.stage(node));
        }
    }

    /// Adds all steps that the edges and the attributes allow, whatever the router would choose.
    fn add_all(&mut self, pipeline: &Pipeline) {
        let first_match = pipeline.settings.routing == Routing::FirstMatch;
        for stage in pipeline.stages() {
            let (row, at) = (stage.row(), stage.index().at());
            let jumps = [row.retry_target, row.fallback_retry_target];
            let mut next: BTreeSet<u32> = jumps.into_iter().flatten().map(|node| node.0).collect();
            let mut restarts = BTreeSet::new();
            let targets: Vec<u32> = stage.edges().map(|(_, edge)| edge.to.0).collect();
            if let Some(fan_out) = row.fan_out {
                next.insert(fan_out.join.0);
                self.branches[at] = branches(stage);
            } else {
                for (_, edge) in stage.edges() {
                    let known = if edge.loop_restart {
                        &mut restarts
                    } else {
                        &mut next
                    };
                    known.insert(edge.to.0);
                }
                let ends = row.end == End::Success || first_match && row.end == End::Unstated;
                self.ends[at] = targets.is_empty() && ends && row.role != Role::Exit;
            }
            self.next[at] = next.into_iter().collect();
            self.restarts[at] = restarts.into_iter().collect();
        }
    }

    fn add_capacities(&mut self, pipeline: &Pipeline, conditions: &[Expression]) {
        let first_match = pipeline.settings.routing == Routing::FirstMatch;
        let jumps = jumps(pipeline);
        let mut entries: Vec<Option<u64>> = vec![first_match.then_some(1); pipeline.nodes.len()];
        for (_, to) in &jumps {
            if let Some(entries) = entries.get_mut(*to as usize) {
                *entries = None;
            }
        }
        // A goal gate may send a run back before it visits the exit, which then is no revisit.
        let exit = pipeline.exit;
        for node in self.reroutes.iter().chain([&exit.0]) {
            if let Some(entries) = entries.get_mut(*node as usize) {
                *entries = None;
            }
        }
        // `None` for a step that at least one way may take any number of times.
        let mut capacities: BTreeMap<(u32, u32), Option<(u64, u32)>> = BTreeMap::new();
        let plain = pipeline.stages().filter(|stage| stage.row().fan_out.is_none());
        for (at, edge) in plain.flat_map(|stage| stage.edges()) {
            let condition = edge.condition.and_then(|at| conditions.get(at as usize));
            let from = pipeline.stage(edge.from).id();
            let to = Some(edge.to).filter(|to| *to != exit);
            let to = to.map(|to| pipeline.stage(to).id());
            let visits = condition.and_then(|condition| takes(condition, from, to));
            let revisits = match (edge.allow_revisit, edge.max_revisits) {
                _ if !first_match || to.is_none() => None,
                (false, _) => Some(0),
                (true, limit) => limit.map(u64::from),
            };
            if let Some(entries) = entries.get_mut(edge.to.at()) {
                *entries = entries.zip(revisits).map(|(sum, more)| sum.saturating_add(more));
            }
            // The first visit of a node is no revisit.
            let once_more = revisits.map(|revisits| revisits.saturating_add(1));
            let own = [visits, once_more].into_iter().flatten().min();
            let known = capacities.entry((edge.from.0, edge.to.0));
            let known = known.or_insert(Some((0, at.0)));
            *known = known
                .zip(own)
                .map(|((sum, at), own)| (sum.saturating_add(own), at));
        }
        for jump in &jumps {
            capacities.remove(jump);
        }
        self.capacities = capacities
            .into_iter()
            .filter_map(|(step, capacity)| Some((step, capacity?)))
            .collect();
        self.entries = entries;
    }

    /// Returns the nodes that a run may reach from some nodes, and the nodes at which it may restart.
    pub(super) fn reach(&self, starts: &[u32]) -> BTreeSet<u32> {
        let mut seen = vec![false; self.next.len()];
        let mut restarts = BTreeSet::new();
        let mut ahead: Vec<u32> = starts.iter().chain(&self.reroutes).copied().collect();
        while let Some(at) = ahead.pop() {
            let at = at as usize;
            if seen.get(at).is_none_or(|seen| *seen) {
                continue;
            }
            seen[at] = true;
            restarts.extend(self.restarts[at].iter().copied());
            let after = self.next[at].iter().chain(&self.branches[at]);
            ahead.extend(after.chain(&self.restarts[at]).copied());
        }
        restarts
    }
}

impl Relation {
    /// Returns `true` for each node that a path may visit before it restarts the run. The others are visited only by the last
    /// path.
    pub(super) fn before_restarts(&self, pipeline: &Pipeline) -> Vec<bool> {
        let count = self.next.len();
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut connect = |from: u32, to: &[u32]| {
            for to in to {
                before[*to as usize].push(from);
            }
        };
        for (at, ends) in (0..).zip(&self.ends) {
            connect(at, &self.next[at as usize]);
            connect(at, &self.branches[at as usize]);
            if *ends {
                connect(at, &self.reroutes);
            }
        }
        connect(pipeline.exit.0, &self.reroutes);
        let mut marked = vec![false; count];
        let mut ahead: Vec<u32> = (0..count as u32)
            .filter(|at| !self.restarts[*at as usize].is_empty())
            .collect();
        while let Some(at) = ahead.pop() {
            if !std::mem::replace(&mut marked[at as usize], true) {
                ahead.extend(&before[at as usize]);
            }
        }
        // While one branch restarts the run, the others have run too.
        let mut work = 0;
        let fan_outs: Vec<usize> = (0..count).filter(|at| marked[*at]).collect();
        for fan_out in fan_outs {
            let Some(settings) = pipeline.nodes.get(fan_out).and_then(|row| row.fan_out) else {
                continue;
            };
            let mut seen = HashSet::from([settings.join.0]);
            let mut ahead = self.branches[fan_out].clone();
            while let Some(at) = ahead.pop() {
                if seen.insert(at) {
                    work += 1;
                    marked[at as usize] = true;
                    ahead.extend(self.next[at as usize].iter().chain(&self.branches[at as usize]));
                }
            }
            if work > MAX_BLOCKS * count {
                marked.fill(true);
                break;
            }
        }
        // A visit of the exit ends the run.
        let exit = pipeline.stage(pipeline.exit);
        if exit.kind() == kind::EXIT {
            marked[pipeline.exit.at()] = false;
        }
        marked
    }
}

/// Returns the targets of the branches of a fan-out: one for each edge, or one for each item that a list may have.
fn branches(fan_out: Stage<'_>) -> Vec<u32> {
    let most = fan_out.row().fan_out.and_then(|settings| settings.foreach_max);
    let each = most.unwrap_or(1) as usize;
    let targets = fan_out.edges().map(|(_, edge)| edge.to.0);
    targets
        .flat_map(|target| std::iter::repeat_n(target, each))
        .collect()
}

/// Returns the steps from a node to another that are no edges.
fn jumps(pipeline: &Pipeline) -> BTreeSet<(u32, u32)> {
    let of_stage = |stage: Stage<'_>| {
        let row = stage.row();
        let join = row.fan_out.map(|fan_out| fan_out.join);
        let targets = [row.retry_target, row.fallback_retry_target, join];
        let from = stage.index().0;
        targets.map(|to| to.map(|to| (from, to.0))).into_iter().flatten()
    };
    pipeline.stages().flat_map(of_stage).collect()
}

/// Returns how often a path can take an edge with a condition on the visits of its ends. Each time, one of them has one
/// visit more.
fn takes(condition: &Expression, from: &str, to: Option<&str>) -> Option<u64> {
    match condition {
        Expression::All(parts) => parts.iter().filter_map(|part| takes(part, from, to)).min(),
        Expression::Any(parts) => parts.iter().try_fold(0_u64, |sum, part| {
            Some(sum.saturating_add(takes(part, from, to)?))
        }),
        Expression::Compare {
            key,
            comparison,
            literal,
        } => {
            let node = key.strip_prefix(VISITS)?;
            // Before the edge is taken, its source has been visited at least once.
            let least = match node {
                node if node == from => 1,
                node if Some(node) == to => 0,
                _ => return None,
            };
            if *comparison == Comparison::Equal {
                return Some(1);
            }
            let bound: f64 = literal
                .trim()
                .parse()
                .ok()
                .filter(|bound: &f64| bound.is_finite())?;
            let most = match comparison {
                Comparison::Less => bound.ceil() - 1.0,
                Comparison::LessOrEqual => bound.floor(),
                _ => return None,
            };
            // The cast saturates.
            Some((most - f64::from(least) + 1.0).max(0.0) as u64)
        }
        _ => None,
    }
}

/// Returns how often a visit of a stage may be attempted.
pub(super) fn attempts(stage: Stage<'_>) -> u64 {
    let row = stage.row();
    let decided_at_once = match row.role {
        Role::Routing => true,
        Role::Start => stage.kind() == kind::START,
        Role::Exit => stage.kind() == kind::EXIT,
        Role::Work => false,
    };
    if decided_at_once || row.fan_out.is_some() && !block_may_fail(stage) {
        return 1;
    }
    u64::from(row.retry.attempts.max(1))
}

/// Returns whether a parallel block may fail, and so may be attempted again.
fn block_may_fail(fan_out: Stage<'_>) -> bool {
    let Some(settings) = fan_out.row().fan_out else {
        return true;
    };
    let joins_at_fan_in = fan_out.pipeline().stage(settings.join).kind() == kind::FAN_IN;
    let counts_failures = settings.error_policy == ErrorPolicy::Ignore
        || settings.error_policy == ErrorPolicy::Continue && joins_at_fan_in;
    let always_branches = fan_out.edges().any(|(_, edge)| edge.condition.is_none());
    !(settings.join_policy == JoinPolicy::WaitAll
        && counts_failures
        && always_branches
        && fan_out.duration("timeout").is_none())
}
