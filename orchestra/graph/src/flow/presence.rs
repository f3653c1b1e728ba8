//! The presence of declared context values: which of them may be missing when a run enters a node.
//!
//! A value is missing until a stage has set it, or the run has started with it. A run is followed from node to node with
//! the set of keys that may be missing. Where several steps lead to one node, a key may be missing after any of them.
//! The branches of a block work on copies of the context, so nothing that they set reaches the join (rule P3).

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use super::guards::{Declared, Keys, Seen};
use super::requires::Path;
use super::steps::{End, Step, Steps};
use crate::condition::Expression;
use crate::contract::{Contract, may_have_outputs};
use crate::model::{EdgeIndex, NodeIndex};
use crate::table::Role;

/// A node that a run has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Point {
    pub(crate) node: NodeIndex,
    /// The end of the stage before a routing node.
    before: Option<End>,
    /// The index of the block that the run is in.
    block: usize,
}

/// A block, as the fan-outs around a point: the innermost one, and the block around it. The first entry of the list
/// stands for the main path.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Block {
    join: Option<NodeIndex>,
    fan_out: Option<NodeIndex>,
    around: usize,
}

/// The index of the main path in the list of blocks.
const MAIN: usize = 0;
/// Maximum number of blocks. Nested blocks are limited, so only an invalid pipeline has more.
const MAX_BLOCKS: usize = 100_000;

/// A step to another node.
struct Move {
    to: Point,
    missing: Keys,
    end: Option<End>,
    restarts: bool,
}

/// The declared values of a pipeline that may be missing at each node.
pub(crate) struct Presence {
    steps: Steps,
    contract: Contract,
    declared: Declared,
    /// The inputs that every run has from the start.
    given: Keys,
    /// The keys that a restart keeps.
    kept: Keys,
    blocks: Vec<Block>,
    points: HashMap<Point, Keys>,
    /// The points of each node, in the order in which they were first entered.
    by_node: HashMap<NodeIndex, Vec<Point>>,
    /// The keys that may be missing at any point of a node.
    entries: HashMap<NodeIndex, Keys>,
    at_success: Keys,
}

impl Presence {
    /// Follows all runs of a pipeline.
    pub(crate) fn new(steps: Steps, contract: Contract) -> Presence {
        let declared = Declared::new(contract.keys().map(|(key, _)| key));
        let (mut given, mut kept) = (declared.none(), declared.none());
        for input in contract.inputs().iter().filter(|input| !input.optional) {
            declared
                .position(&input.key)
                .into_iter()
                .for_each(|key| given.insert(key));
        }
        let keep = steps.pipeline().attribute("restart_keep");
        let keep = keep.and_then(|keep| keep.text()).unwrap_or_default();
        for key in keep.split(',').map(str::trim) {
            declared
                .position(key)
                .into_iter()
                .for_each(|key| kept.insert(key));
        }
        let at_success = declared.none();
        let main = Block {
            join: None,
            fan_out: None,
            around: MAIN,
        };
        let mut presence = Presence {
            steps,
            contract,
            declared,
            given,
            kept,
            blocks: vec![main],
            points: HashMap::new(),
            by_node: HashMap::new(),
            entries: HashMap::new(),
            at_success,
        };
        presence.follow();
        presence
    }

    /// Returns whether the pipeline needs too much work, so that the result is incomplete.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.steps.are_incomplete()
    }

    pub(crate) fn declared(&self) -> &Declared {
        &self.declared
    }

    pub(crate) fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Returns the outcome of an end.
    pub(crate) fn word(&self, end: End) -> &str {
        self.steps.word(end)
    }

    /// Returns the point at which all runs begin, and the keys that are missing there.
    fn start(&self) -> (Point, Keys) {
        let mut missing = self.declared.none();
        (0..self.declared.len()).for_each(|key| missing.insert(key));
        missing.subtract(&self.given);
        let start = Point {
            node: self.steps.pipeline().start,
            before: None,
            block: MAIN,
        };
        (start, missing)
    }

    fn follow(&mut self) {
        let (start, missing) = self.start();
        let mut queue = VecDeque::from([start]);
        let mut queued = HashSet::from([start]);
        self.points.insert(start, missing);
        let mut order = vec![start];
        while let Some(point) = queue.pop_front() {
            queued.remove(&point);
            let Some(missing) = self.points.get(&point).cloned() else {
                continue;
            };
            for step in self.moves(point, &missing) {
                match self.points.entry(step.to) {
                    Entry::Vacant(entry) => {
                        entry.insert(step.missing);
                        order.push(step.to);
                        queued.insert(step.to);
                        queue.push_back(step.to);
                    }
                    Entry::Occupied(mut entry) => {
                        if entry.get_mut().add(&step.missing) && queued.insert(step.to) {
                            queue.push_back(step.to);
                        }
                    }
                }
            }
        }
        for point in order {
            self.by_node.entry(point.node).or_default().push(point);
            if let Some(missing) = self.points.get(&point) {
                let none = self.declared.none();
                self.entries.entry(point.node).or_insert(none).add(missing);
            }
            if point.block != MAIN {
                continue;
            }
            for (end, missing) in self.after(point) {
                if self.steps.after(point.node, end).contains(&Step::Success) {
                    self.at_success.add(&missing);
                }
            }
        }
    }

    /// Returns the ways in which the node of a point may end.
    fn ends(&mut self, point: Point) -> Vec<End> {
        match (self.steps.stage(point.node).row().role, point.before) {
            (Role::Routing, Some(before)) => vec![before],
            (Role::Routing, None) => self.steps.any_end(),
            _ => self.steps.ends(point.node),
        }
    }

    /// Returns the ways in which the node of a point may end, each with the keys that may be missing then.
    pub(crate) fn after(&mut self, point: Point) -> Vec<(End, Keys)> {
        let Some(missing) = self.points.get(&point).cloned() else {
            return Vec::new();
        };
        let ends = self.ends(point);
        ends.into_iter()
            .map(|end| (end, self.missing_after(point.node, end, &missing)))
            .collect()
    }

    /// Returns the keys that may be missing after a stage has ended.
    fn missing_after(&self, node: NodeIndex, end: End, before: &Keys) -> Keys {
        let mut missing = before.clone();
        let stage = self.steps.stage(node);
        if stage.row().role == Role::Routing || !may_have_outputs(stage.kind()) {
            return missing;
        }
        let word = self.steps.word(end);
        // Exhausted retries may have left the outputs of a failure.
        let may_be_exhausted = word == "partial_success" && stage.row().allow_partial;
        let words: &[&str] = if may_be_exhausted {
            &[word, "fail"]
        } else {
            &[word]
        };
        let is_proof = crate::contract::is_success(word) && !may_be_exhausted;
        for field in words.iter().flat_map(|word| self.contract.outputs(node, word)) {
            let Some(key) = self.declared.position(&field.key) else {
                continue;
            };
            if field.optional {
                missing.insert(key);
            } else if is_proof {
                missing.remove(key);
            }
        }
        missing
    }

    /// Returns the steps after a point.
    fn moves(&mut self, point: Point, missing: &Keys) -> Vec<Move> {
        let mut moves = self.branches(point, missing);
        let node = point.node;
        let from_exit = self.steps.stage(node).row().role == Role::Exit;
        let ends = self.ends(point);
        if !self.steps.may_work(ends.len()) {
            return Vec::new();
        }
        for end in ends {
            let after = self.missing_after(node, end, missing);
            for step in self.steps.after(node, end).iter() {
                let Step::To { node: to, restarts } = *step else {
                    continue;
                };
                if !restarts && self.is_join(point.block, to) {
                    continue;
                }
                let mut missing = after.clone();
                if restarts {
                    (0..self.declared.len())
                        .filter(|key| !self.kept.contains(*key))
                        .for_each(|key| missing.insert(key));
                } else if let Some(proved) = self.proved_by_step(node, to, end) {
                    missing.subtract(&proved);
                }
                let routes = self.steps.stage(to).row().role == Role::Routing;
                let to = Point {
                    node: to,
                    before: (routes && !restarts && !from_exit).then_some(end),
                    block: if restarts { MAIN } else { point.block },
                };
                moves.push(Move {
                    to,
                    missing,
                    end: (point.before.is_none()).then_some(end),
                    restarts,
                });
            }
        }
        moves
    }

    /// Returns the first steps of the branches of a fan-out.
    fn branches(&mut self, point: Point, missing: &Keys) -> Vec<Move> {
        let node = point.node;
        let Some(fan_out) = self.steps.stage(node).row().fan_out else {
            return Vec::new();
        };
        let Some(block) = self.enter_block(node, fan_out.join, point.block) else {
            return Vec::new();
        };
        let edges: Vec<(EdgeIndex, NodeIndex)> = self
            .steps
            .stage(node)
            .edges()
            .map(|(at, edge)| (at, edge.to))
            .collect();
        let mut moves = Vec::new();
        for (edge, to) in edges {
            if self.is_join(block, to) {
                continue;
            }
            let mut missing = missing.clone();
            if let Some(condition) = self.steps.condition(edge)
                && let Some(proved) = self.declared.implied(condition, true, Seen::Any)
            {
                missing.subtract(&proved);
            }
            moves.push(Move {
                to: Point {
                    node: to,
                    before: None,
                    block,
                },
                missing,
                end: None,
                restarts: false,
            });
        }
        moves
    }

    /// Returns the index of a block inside another one. Returns `None` inside itself, which is an error of another rule.
    fn enter_block(&mut self, fan_out: NodeIndex, join: NodeIndex, around: usize) -> Option<usize> {
        if self.around(around).any(|block| block.fan_out == Some(fan_out)) || self.blocks.len() > MAX_BLOCKS {
            return None;
        }
        let block = Block {
            join: Some(join),
            fan_out: Some(fan_out),
            around,
        };
        let known = self.blocks.iter().position(|known| *known == block);
        Some(known.unwrap_or_else(|| {
            self.blocks.push(block);
            self.blocks.len() - 1
        }))
    }

    /// Iterates over the blocks around a point, from the innermost one.
    fn around(&self, block: usize) -> impl Iterator<Item = Block> {
        let mut at = Some(block).filter(|block| *block != MAIN);
        std::iter::from_fn(move || {
            let block = *self.blocks.get(at?)?;
            at = Some(block.around).filter(|block| *block != MAIN);
            Some(block)
        })
    }

    /// Returns whether a branch ends before a node.
    fn is_join(&self, block: usize, node: NodeIndex) -> bool {
        self.around(block).any(|block| block.join == Some(node))
    }

    /// Returns the keys that are set because a run took a step: what the conditions of all edges that it may have taken
    /// imply. A jump proves nothing.
    fn proved_by_step(&self, from: NodeIndex, to: NodeIndex, end: End) -> Option<Keys> {
        let stage = self.steps.stage(from);
        let settings = &self.steps.pipeline().settings;
        let row = stage.row();
        let jumps = [
            row.retry_target,
            row.fallback_retry_target,
            settings.retry_target,
            settings.fallback_retry_target,
        ];
        // The conditions of a fan-out decide about its branches, not about the step to the join.
        if row.role == Role::Exit || row.fan_out.is_some() || jumps.contains(&Some(to)) {
            return None;
        }
        let word = self.steps.word(end);
        let mut proved: Option<Keys> = None;
        for (at, edge) in stage.edges().filter(|(_, edge)| edge.to == to) {
            let keys = match edge.condition {
                None => self.declared.none(),
                Some(_) => match self.implied(at, word) {
                    Some(keys) => keys,
                    None => continue,
                },
            };
            proved = Some(match proved {
                None => keys,
                Some(mut proved) => {
                    proved.intersect(&keys);
                    proved
                }
            });
        }
        proved
    }

    /// Returns the keys that are set if the condition of an edge holds after an outcome. Returns `None` if it never does.
    fn implied(&self, edge: EdgeIndex, word: &str) -> Option<Keys> {
        let Some(condition) = self.steps.condition(edge) else {
            return Some(self.declared.none());
        };
        let mut found: Option<Keys> = None;
        for word in self.steps.seen_words(word) {
            if let Some(keys) = self.declared.implied(condition, true, word) {
                found = Some(match found {
                    None => keys,
                    Some(mut found) => {
                        found.intersect(&keys);
                        found
                    }
                });
            }
        }
        found
    }

    /// Returns the keys that a condition needs after an outcome, although they may be missing. Without an outcome, it may
    /// be any.
    pub(crate) fn needed(&self, condition: &Expression, word: Option<&str>, missing: &Keys) -> Keys {
        let mut present = self.declared.none();
        (0..self.declared.len())
            .filter(|key| !missing.contains(*key))
            .for_each(|key| present.insert(key));
        let mut needed = self.declared.none();
        let words = word.map_or_else(|| vec![Seen::Any], |word| self.steps.seen_words(word));
        for word in words {
            needed.add(&self.declared.needed(condition, word, &present));
        }
        needed
    }

    /// Returns the points of a node, in the order in which runs reach them.
    pub(crate) fn points_of(&self, node: NodeIndex) -> Vec<Point> {
        self.by_node.get(&node).cloned().unwrap_or_default()
    }

    /// Returns the keys that may be missing when a run enters a node. Returns `None` if no run does.
    pub(crate) fn missing_at(&self, node: NodeIndex) -> Option<&Keys> {
        self.entries.get(&node)
    }

    /// Returns whether a key may be missing when a run enters a node.
    pub(crate) fn may_be_missing(&self, key: usize, node: NodeIndex) -> bool {
        self.missing_at(node).is_some_and(|missing| missing.contains(key))
    }

    /// Returns whether a key may be missing when a run ends as a success.
    pub(crate) fn may_be_missing_at_end(&self, key: usize) -> bool {
        self.at_success.contains(key)
    }

    /// Returns a shortest path of a run on which a key is missing when the run enters a node. With an end, the key is
    /// missing after that end of the node.
    pub(crate) fn path(&mut self, key: usize, node: NodeIndex, end: Option<End>) -> Option<Path> {
        let (start, missing) = self.start();
        let first = (start, missing.contains(key));
        let mut before: HashMap<(Point, bool), Option<Before>> = HashMap::from([(first, None)]);
        let mut queue = VecDeque::from([first]);
        while let Some(at) = queue.pop_front() {
            let (point, is_missing) = at;
            let mut missing = self.declared.none();
            if is_missing {
                missing.insert(key);
            }
            let found = point.node == node
                && match end {
                    None => is_missing,
                    Some(end) => {
                        self.ends(point).contains(&end)
                            && self.missing_after(node, end, &missing).contains(key)
                    }
                };
            if found {
                return Some(self.path_to(&before, at, end));
            }
            for step in self.moves(point, &missing) {
                let to = (step.to, step.missing.contains(key));
                if let Entry::Vacant(entry) = before.entry(to) {
                    entry.insert(Some(Before {
                        at,
                        end: step.end,
                        restarts: step.restarts,
                    }));
                    queue.push_back(to);
                }
            }
        }
        None
    }

    fn path_to(
        &mut self,
        before: &HashMap<(Point, bool), Option<Before>>,
        last: (Point, bool),
        end: Option<End>,
    ) -> Path {
        let own = |presence: &mut Presence, point: Point, end: Option<End>| {
            let routes = presence.steps.stage(point.node).row().role == Role::Routing;
            end.filter(|_| !routes)
                .and_then(|end| presence.steps.describe(point.node, end))
        };
        let left = own(self, last.0, end);
        let mut path = vec![(last.0.node, left)];
        let mut at = last;
        while let Some(Some(step)) = before.get(&at) {
            let mut left = own(self, step.at.0, step.end);
            if step.restarts {
                let prefix = left.map(|left| format!("{left}, ")).unwrap_or_default();
                left = Some(format!("{prefix}restart"));
            }
            path.push((step.at.0.node, left));
            at = step.at;
        }
        path.reverse();
        path
    }
}

/// The point before another one on a path.
struct Before {
    at: (Point, bool),
    end: Option<End>,
    restarts: bool,
}
