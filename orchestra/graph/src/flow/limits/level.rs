//! The visits of one path: the main path, or a branch with the blocks in it.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::bound::{Network, Sums};
use super::cause::Cause;
use super::relation::{Relation, attempts};
use crate::kind;
use crate::model::NodeIndex;
use crate::table::{Pipeline, Role};

/// The work for all paths of a pipeline, in nodes for each node, beyond which the branches of a block are bounded
/// together.
const SEPARATE: usize = 16;
/// The work beyond which there are no bounds.
const MOST: usize = 256;
/// The work for which each pipeline may use more.
const FREE: usize = 50_000;
/// The number of blocks inside one another that the machine runs.
const MAX_NESTING: usize = 32;

/// What is counted of a node on a path and in its blocks.
#[derive(Clone, Copy)]
pub(super) struct Count {
    pub(super) visits: u64,
    /// The number of branches that may visit the node at the same time.
    pub(super) width: u64,
    pub(super) cause: Cause,
}

/// The bounds of a path with its blocks.
#[derive(Default)]
pub(super) struct Path {
    pub(super) counts: BTreeMap<u32, Count>,
    pub(super) sums: Sums,
}

/// The bounds of the paths of a pipeline.
pub(super) struct Paths<'p> {
    pipeline: &'p Pipeline,
    relation: &'p Relation,
    blocks: HashMap<(u32, Vec<u32>), Rc<Path>>,
    work: usize,
}

impl<'p> Paths<'p> {
    pub(super) fn new(pipeline: &'p Pipeline, relation: &'p Relation) -> Paths<'p> {
        Paths {
            pipeline,
            relation,
            blocks: HashMap::new(),
            work: 0,
        }
    }

    /// Returns whether the branches are too many to be bounded.
    pub(super) fn are_too_many(&self) -> bool {
        self.work > FREE + MOST * self.pipeline.nodes.len()
    }

    /// Returns the maximum number of visits of a node on one path.
    fn capacity(&self, node: u32) -> u64 {
        let row = self.pipeline.stage(NodeIndex(node)).row();
        u64::from(row.max_visits.unwrap_or(self.pipeline.settings.max_node_visits))
    }

    /// Returns how often a path may enter a node.
    fn entries(&self, node: u32, in_branch: bool) -> u64 {
        let stage = self.pipeline.stage(NodeIndex(node));
        // A path ends with its visit of the exit, unless the exit has a handler, which may fail.
        if !in_branch && stage.row().role == Role::Exit && stage.kind() == kind::EXIT {
            return self.capacity(node).min(1);
        }
        let entries = self.relation.entries.get(node as usize).copied().flatten();
        entries.unwrap_or(u64::MAX).min(self.capacity(node))
    }

    /// Bounds a path that begins at one of some nodes, in a branch of the open fan-outs.
    pub(super) fn path(&mut self, starts: &[u32], open: &mut Vec<u32>) -> Path {
        let network = PathNetwork::new(self, starts, open);
        self.work += network.nodes.len();
        let PathNetwork {
            mut network,
            nodes,
            causes,
        } = network;
        let mut blocks: Vec<(u32, Rc<Path>)> = Vec::new();
        for (node, at) in &nodes {
            let stage = self.pipeline.stage(NodeIndex(*node));
            let attempts = attempts(stage);
            let mut weight = [1, attempts];
            if stage.row().fan_out.is_some() {
                let block = self.block(*node, open);
                let more = block.sums.map(|sum| sum.saturating_mul(attempts));
                weight = [
                    weight[0].saturating_add(more[0]),
                    weight[1].saturating_add(more[1]),
                ];
                blocks.push((*node, block));
            }
            network.weights[*at as usize] = weight;
        }
        let bounds = network.bounds();
        let cause = |at: u32| {
            let limited_by = bounds.limited_by.get(at as usize).copied().flatten();
            let cause = limited_by.and_then(|by| causes.get(by as usize).copied());
            cause.unwrap_or(Cause::Once)
        };
        let mut path = Path {
            sums: bounds.sums,
            ..Path::default()
        };
        for (node, at) in &nodes {
            let visits = bounds.visits[*at as usize];
            let count = Count {
                visits,
                width: 1,
                cause: if visits > 1 { cause(*at) } else { Cause::Once },
            };
            path.counts.insert(*node, count);
        }
        for (fan_out, block) in blocks {
            let Some(outer) = path.counts.get(&fan_out).copied() else {
                continue;
            };
            let attempts = attempts(self.pipeline.stage(NodeIndex(fan_out)));
            let executions = outer.visits.saturating_mul(attempts);
            for (node, inner) in &block.counts {
                let cause = match (inner.cause, outer.cause) {
                    (Cause::Once, Cause::Once) if attempts > 1 => Cause::Block(fan_out),
                    (Cause::Once, outer) => outer,
                    (inner, _) => inner,
                };
                let visits = inner.visits.saturating_mul(executions);
                path.add(*node, visits, inner.width, cause, false);
            }
        }
        let mut sums: Sums = [0; 2];
        for (node, count) in &mut path.counts {
            let most = self.capacity(*node).saturating_mul(count.width);
            if most < count.visits {
                count.visits = most;
                count.cause = Cause::Node(*node);
            }
            let attempts = attempts(self.pipeline.stage(NodeIndex(*node)));
            sums[0] = sums[0].saturating_add(count.visits);
            sums[1] = sums[1].saturating_add(count.visits.saturating_mul(attempts));
        }
        path.sums = [path.sums[0].min(sums[0]), path.sums[1].min(sums[1])];
        path
    }

    /// Bounds one execution of the branches of a fan-out.
    fn block(&mut self, fan_out: u32, open: &mut Vec<u32>) -> Rc<Path> {
        if open.len() >= MAX_NESTING || self.are_too_many() {
            return Rc::default();
        }
        let key = (fan_out, open.clone());
        if let Some(known) = self.blocks.get(&key) {
            return known.clone();
        }
        let targets: &[u32] = &self.relation.branches[fan_out as usize];
        let mut sorted = targets.to_vec();
        sorted.sort_unstable();
        let mut block = Path::default();
        open.push(fan_out);
        if self.work > FREE + SEPARATE * self.pipeline.nodes.len() {
            // Every branch is a path that begins at one of the targets.
            let all = targets.len() as u64;
            sorted.dedup();
            let one = self.path(&sorted, open);
            block.add_branches(&one, all);
        } else {
            for same in sorted.chunk_by(|one, other| one == other) {
                let one = self.path(&same[..1], open);
                block.add_branches(&one, same.len() as u64);
            }
        }
        open.pop();
        let block = Rc::new(block);
        self.blocks.insert(key, block.clone());
        block
    }
}

impl Path {
    fn add_branches(&mut self, branch: &Path, count: u64) {
        for (node, inner) in &branch.counts {
            let visits = inner.visits.saturating_mul(count);
            self.add(
                *node,
                visits,
                inner.width.saturating_mul(count),
                inner.cause,
                true,
            );
        }
        for (sum, more) in self.sums.iter_mut().zip(branch.sums) {
            *sum = sum.saturating_add(more.saturating_mul(count));
        }
    }

    /// Adds visits of a node, at the same time as the earlier ones or at another time.
    fn add(&mut self, node: u32, visits: u64, width: u64, cause: Cause, at_the_same_time: bool) {
        let count = self.counts.entry(node).or_insert(Count {
            visits: 0,
            width: 0,
            cause,
        });
        count.width = if at_the_same_time {
            count.width.saturating_add(width)
        } else {
            count.width.max(width)
        };
        if matches!(count.cause, Cause::Once) {
            count.cause = cause;
        }
        count.visits = count.visits.saturating_add(visits);
    }
}

/// The nodes of a path with their capacities. Capacities of steps, and that of all goal gates together, are nodes of their
/// own.
struct PathNetwork {
    network: Network,
    /// The nodes of the pipeline, each with its index in the network.
    nodes: Vec<(u32, u32)>,
    /// The reason for each capacity.
    causes: Vec<Cause>,
}

impl PathNetwork {
    fn new(paths: &Paths<'_>, starts: &[u32], open: &[u32]) -> PathNetwork {
        let (pipeline, relation) = (paths.pipeline, paths.relation);
        let in_branch = !open.is_empty();
        let exit = pipeline.exit.0;
        let ends_branch = |node: u32| {
            in_branch && node == exit
                || open.iter().any(|fan_out| {
                    let row = pipeline.stage(NodeIndex(*fan_out)).row();
                    *fan_out == node || row.fan_out.is_some_and(|settings| settings.join.0 == node)
                })
        };
        let mut built = PathNetwork {
            network: Network::default(),
            nodes: Vec::new(),
            causes: Vec::new(),
        };
        let mut known: HashMap<u32, u32> = HashMap::new();
        let mut ahead: Vec<u32> = Vec::new();
        let mut enter = |built: &mut PathNetwork, ahead: &mut Vec<u32>, node: u32| {
            *known.entry(node).or_insert_with(|| {
                ahead.push(node);
                let capacity = paths.entries(node, in_branch);
                built.add(capacity, Cause::Node(node))
            })
        };
        // Where the goal gates are tested, and where one of them sends the run back.
        let mut gates = None;
        if !in_branch && !relation.reroutes.is_empty() {
            let limit = u64::from(pipeline.settings.max_goal_gate_reroutes);
            let (test, reroute) = (
                built.add(u64::MAX, Cause::Once),
                built.add(limit, Cause::Reroutes),
            );
            let exit_at = enter(&mut built, &mut ahead, exit);
            built.network.connect(test, exit_at);
            built.network.connect(test, reroute);
            for to in &relation.reroutes {
                let to = if *to == exit {
                    test
                } else {
                    enter(&mut built, &mut ahead, *to)
                };
                built.network.connect(reroute, to);
            }
            gates = Some((test, reroute));
        }
        let test = |node: u32| gates.filter(|_| node == exit).map(|(test, _)| test);
        for start in starts.iter().filter(|start| !ends_branch(**start)) {
            let at = test(*start).unwrap_or_else(|| enter(&mut built, &mut ahead, *start));
            built.network.entries.push(at);
        }
        while let Some(node) = ahead.pop() {
            let at = enter(&mut built, &mut ahead, node);
            for to in relation.next[node as usize]
                .iter()
                .filter(|to| !ends_branch(**to))
            {
                let mut from = at;
                if let Some((capacity, edge)) = relation.capacities.get(&(node, *to)) {
                    if *capacity == 0 {
                        continue;
                    }
                    from = built.add(*capacity, Cause::Edge(*edge));
                    built.network.connect(at, from);
                }
                let to = test(*to).unwrap_or_else(|| enter(&mut built, &mut ahead, *to));
                built.network.connect(from, to);
            }
            if let Some((_, reroute)) = gates.filter(|_| relation.ends[node as usize]) {
                built.network.connect(at, reroute);
            }
        }
        built.nodes = known.into_iter().collect();
        built.nodes.sort_unstable();
        built
    }

    fn add(&mut self, capacity: u64, cause: Cause) -> u32 {
        self.causes.push(cause);
        self.network.add(capacity, [0; 2])
    }
}
