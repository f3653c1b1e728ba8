//! The presence of declared context values: which of them may be missing when a run enters a node.
//!
//! A value is missing until a stage has set it, or the run has started with it. A run is followed from node to node with
//! the keys that may be missing, and those that may be set; a key is in both sets only after an optional output. A run
//! takes no edge whose condition needs a value that is certainly missing. Different states at a node are followed
//! separately, because values are often set together; only if there are many are they merged into one. The branches of
//! a block work on copies of the context, so nothing that they set reaches the join (rule P3).

use std::collections::{HashMap, HashSet, VecDeque};

use super::guards::{Declared, Keys, Seen};
use super::requires::Path;
use super::state::{Before, Block, Entry, Known, Move, Point, State, with_proved};
use super::steps::{End, Step, Steps};
use crate::condition::Expression;
use crate::contract::{Contract, is_success, may_have_outputs};
use crate::model::{EdgeIndex, NodeIndex};
use crate::table::{Pipeline, Role};

/// The index of the main path in the list of blocks.
const MAIN: usize = 0;
/// Maximum number of blocks. Nested blocks are limited, so only an invalid pipeline has more.
const MAX_BLOCKS: usize = 100_000;
/// Maximum number of states at a point that are followed separately.
const MAX_STATES: usize = 16;

/// The declared values of a pipeline that may be missing at each node.
pub(crate) struct Presence {
    steps: Steps,
    contract: Contract,
    declared: Declared,
    /// The keys that a restart keeps.
    kept: Keys,
    blocks: Vec<Block>,
    /// The states, in the order in which they were first reached.
    states: Vec<State>,
    /// The states of each point. If there are more than [`MAX_STATES`], the last one stands for all later ones.
    by_point: HashMap<Point, Vec<usize>>,
    /// The states of each node.
    by_node: HashMap<NodeIndex, Vec<usize>>,
    at_success: Keys,
}

impl Presence {
    /// Follows all runs of a pipeline.
    pub(crate) fn new(steps: Steps, contract: Contract) -> Presence {
        let declared = Declared::new(contract.keys().map(|(key, _)| key));
        let mut kept = declared.none();
        let keep = steps.pipeline().attribute("restart_keep");
        let keep = keep.and_then(|keep| keep.text()).unwrap_or_default();
        for key in keep.split(',').filter_map(|key| declared.position(key.trim())) {
            kept.insert(key);
        }
        let main = Block {
            join: None,
            fan_out: None,
            around: MAIN,
        };
        let mut presence = Presence {
            at_success: declared.none(),
            steps,
            contract,
            declared,
            kept,
            blocks: vec![main],
            states: Vec::new(),
            by_point: HashMap::new(),
            by_node: HashMap::new(),
        };
        presence.follow();
        presence
    }

    /// Follows also the runs that go on in states of another version.
    pub(crate) fn enter(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            let mut block = Some(MAIN);
            for (fan_out, join) in entry.blocks {
                block = block.and_then(|around| self.enter_block(fan_out, join, around));
            }
            let Some(block) = block else {
                continue;
            };
            let entered = Move {
                to: Point {
                    node: entry.node,
                    before: None,
                    block,
                },
                known: Known {
                    missing: entry.missing,
                    set: entry.set,
                },
                end: None,
                restarts: false,
                is_open: entry.is_open,
            };
            let reached = self.reach(entered, None);
            self.follow_from(reached);
        }
    }

    /// Returns the states at a node, as entries of another version of the pipeline.
    pub(crate) fn entries(
        &self,
        node: NodeIndex,
        is_open: bool,
        other: &Declared,
        map: impl Fn(NodeIndex) -> Option<NodeIndex>,
    ) -> Vec<Entry> {
        let states = self.states_of(node).into_iter();
        let states = states.filter_map(|at| self.states.get(at));
        let entries = states.filter_map(|state| {
            let blocks = self.around(state.point.block).into_iter().rev();
            let blocks = blocks.map(|block| Some((map(block.fan_out?)?, map(block.join?)?)));
            let (mut missing, mut set) = (other.none(), other.none());
            for key in 0..other.len() {
                // Nothing is known about a key that this version does not declare.
                let own = self.declared.position(other.name(key));
                if own.is_none_or(|own| state.known.missing.contains(own)) {
                    missing.insert(key);
                }
                if own.is_none_or(|own| state.known.set.contains(own)) {
                    set.insert(key);
                }
            }
            Some(Entry {
                node: map(node)?,
                blocks: blocks.collect::<Option<_>>()?,
                missing,
                set,
                is_open,
            })
        });
        entries.collect()
    }

    /// Returns whether the pipeline needs too much work, so that the result is incomplete.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.steps.are_incomplete()
    }

    pub(crate) fn pipeline(&self) -> &Pipeline {
        self.steps.pipeline()
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

    /// Returns the state in which all runs begin.
    fn start(&self) -> Move {
        let mut known = Known {
            missing: self.declared.none(),
            set: self.declared.none(),
        };
        (0..self.declared.len()).for_each(|key| known.missing.insert(key));
        for input in self.contract.inputs() {
            if let Some(key) = self.declared.position(&input.key) {
                known.set.insert(key);
                if !input.optional {
                    known.missing.remove(key);
                }
            }
        }
        Move {
            to: Point {
                node: self.steps.pipeline().start,
                before: None,
                block: MAIN,
            },
            known,
            end: None,
            restarts: false,
            is_open: false,
        }
    }

    /// Follows all runs from a state on.
    fn follow_from(&mut self, first: Option<usize>) {
        let mut queue: VecDeque<usize> = first.into_iter().collect();
        let mut queued: HashSet<usize> = queue.iter().copied().collect();
        while let Some(at) = queue.pop_front() {
            queued.remove(&at);
            for step in self.moves(at) {
                if let Some(reached) = self.reach(step, Some(at))
                    && queued.insert(reached)
                {
                    queue.push_back(reached);
                }
            }
        }
    }

    fn follow(&mut self) {
        let start = self.start();
        let start = self.reach(start, None);
        self.follow_from(start);
        for at in 0..self.states.len() {
            for (end, known) in self.after(at) {
                let Some(point) = self.states.get(at).map(|state| state.point) else {
                    continue;
                };
                if point.block == MAIN && self.steps.after(point.node, end).contains(&Step::Success) {
                    self.at_success.add(&known.missing);
                }
            }
        }
    }

    /// Records that a run may take a step. Returns the state that has to be followed because of it.
    fn reach(&mut self, step: Move, from: Option<usize>) -> Option<usize> {
        let states = self.by_point.entry(step.to).or_default();
        let is_same = |at: &&usize| {
            let state = self.states.get(**at);
            state.is_some_and(|state| state.known == step.known)
        };
        if let Some(at) = states.iter().find(is_same).copied() {
            return self.begin_branches(at, step.is_open);
        }
        // The last state stands for itself and for all later ones.
        if states.len() > MAX_STATES
            && let Some(last) = states.last()
        {
            let last = *last;
            let is_new = self.states.get_mut(last)?.known.add(&step.known);
            let begins = self.begin_branches(last, step.is_open).is_some();
            return (is_new || begins).then_some(last);
        }
        let at = self.states.len();
        states.push(at);
        self.by_node.entry(step.to.node).or_default().push(at);
        self.states.push(State {
            point: step.to,
            known: step.known,
            before: from.map(|state| Before {
                state,
                end: step.end,
                restarts: step.restarts,
            }),
            is_open: step.is_open,
        });
        Some(at)
    }

    /// Records that runs enter a state, whose branches begin unless its block is open. Returns the state if that is new.
    fn begin_branches(&mut self, at: usize, is_open: bool) -> Option<usize> {
        let state = self.states.get_mut(at)?;
        let begins = state.is_open && !is_open;
        state.is_open &= is_open;
        begins.then_some(at)
    }

    /// Returns the ways in which the node of a point may end.
    fn ends(&mut self, point: Point) -> Vec<End> {
        match (self.steps.stage(point.node).row().role, point.before) {
            (Role::Routing, Some(before)) => vec![before],
            (Role::Routing, None) => self.steps.any_end(),
            _ => self.steps.ends(point.node),
        }
    }

    /// Returns the ways in which the node of a state may end, each with what is known then.
    pub(crate) fn after(&mut self, state: usize) -> Vec<(End, Known)> {
        let Some(State { point, known, .. }) = self.states.get(state) else {
            return Vec::new();
        };
        let (point, known) = (*point, known.clone());
        let ends = self.ends(point);
        ends.into_iter()
            .map(|end| (end, self.known_after(point.node, end, &known)))
            .collect()
    }

    /// Returns what is known after a stage has ended.
    fn known_after(&self, node: NodeIndex, end: End, before: &Known) -> Known {
        let mut known = before.clone();
        let stage = self.steps.stage(node);
        if stage.row().role == Role::Routing || !may_have_outputs(stage.kind()) {
            return known;
        }
        let word = self.steps.word(end);
        // Exhausted retries may have left the outputs of a failure.
        let may_be_exhausted = word == "partial_success" && stage.row().allow_partial;
        let words: &[&str] = if may_be_exhausted {
            &[word, "fail"]
        } else {
            &[word]
        };
        let is_proof = is_success(word) && !may_be_exhausted;
        for field in words.iter().flat_map(|word| self.contract.outputs(node, word)) {
            let Some(key) = self.declared.position(&field.key) else {
                continue;
            };
            if is_proof && !field.optional {
                known.set(key);
            } else {
                known.set.insert(key);
                if field.optional {
                    known.missing.insert(key);
                }
            }
        }
        known
    }

    /// Returns the steps after a state.
    fn moves(&mut self, state: usize) -> Vec<Move> {
        let Some(State {
            point,
            known,
            is_open,
            ..
        }) = self.states.get(state)
        else {
            return Vec::new();
        };
        let (point, known, is_open) = (*point, known.clone(), *is_open);
        let mut moves = if is_open {
            Vec::new()
        } else {
            self.branches(point, &known)
        };
        let node = point.node;
        let from_exit = self.steps.stage(node).row().role == Role::Exit;
        let ends = self.ends(point);
        if !self.steps.may_work(ends.len()) {
            return Vec::new();
        }
        for end in ends {
            let after = self.known_after(node, end, &known);
            for step in self.steps.after(node, end).iter() {
                let Step::To { node: to, restarts } = *step else {
                    continue;
                };
                if !restarts && self.is_join(point.block, to) {
                    continue;
                }
                let Some(mut known) = self.known_by_step(node, to, end, &after) else {
                    continue;
                };
                if restarts {
                    (0..self.declared.len())
                        .filter(|key| !self.kept.contains(*key))
                        .for_each(|key| known.unset(key));
                }
                let routes = self.steps.stage(to).row().role == Role::Routing;
                let to = Point {
                    node: to,
                    before: (routes && !restarts && !from_exit).then_some(end),
                    block: if restarts { MAIN } else { point.block },
                };
                moves.push(Move {
                    to,
                    known,
                    end: (point.before.is_none()).then_some(end),
                    restarts,
                    is_open: false,
                });
            }
        }
        moves
    }

    /// Returns the first steps of the branches of a fan-out.
    fn branches(&mut self, point: Point, known: &Known) -> Vec<Move> {
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
            let condition = self.steps.condition(edge);
            let proved = condition.and_then(|condition| self.declared.implied(condition, true, Seen::Any));
            let Some(known) = with_proved(known, &proved.unwrap_or_else(|| self.declared.none())) else {
                continue;
            };
            moves.push(Move {
                to: Point {
                    node: to,
                    before: None,
                    block,
                },
                known,
                end: None,
                restarts: false,
                is_open: false,
            });
        }
        moves
    }

    /// Returns the index of a block inside another one. Returns `None` inside itself, which is an error of another rule.
    fn enter_block(&mut self, fan_out: NodeIndex, join: NodeIndex, around: usize) -> Option<usize> {
        if self
            .around(around)
            .iter()
            .any(|block| block.fan_out == Some(fan_out))
            || self.blocks.len() > MAX_BLOCKS
        {
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

    /// Returns the blocks around a point, from the innermost one.
    fn around(&self, block: usize) -> Vec<Block> {
        let indices = self.around_indices(block).into_iter();
        indices.filter_map(|at| self.blocks.get(at).copied()).collect()
    }

    /// Returns whether a branch ends before a node.
    fn is_join(&self, block: usize, node: NodeIndex) -> bool {
        self.around(block).iter().any(|block| block.join == Some(node))
    }

    /// Returns what is known after a run has taken a step: what the conditions of all edges imply that it may have taken. A
    /// jump proves nothing. Returns `None` if no run takes the step, because all these edges need values that are missing.
    fn known_by_step(&self, from: NodeIndex, to: NodeIndex, end: End, known: &Known) -> Option<Known> {
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
            return Some(known.clone());
        }
        let word = self.steps.word(end);
        let mut found: Option<Known> = None;
        for (at, _) in stage.edges().filter(|(_, edge)| edge.to == to) {
            let Some(next) = self
                .implied(at, word)
                .and_then(|proved| with_proved(known, &proved))
            else {
                continue;
            };
            match &mut found {
                None => found = Some(next),
                Some(found) => {
                    found.add(&next);
                }
            }
        }
        found
    }

    /// Returns the keys that are set if the condition of an edge holds after an outcome. Returns `None` if it never does.
    fn implied(&self, edge: EdgeIndex, word: &str) -> Option<Keys> {
        let Some(condition) = self.steps.condition(edge) else {
            return Some(self.declared.none());
        };
        let mut found: Option<Keys> = None;
        let from = self.steps.pipeline().edge(edge).from;
        for word in self.steps.seen_words(from, word) {
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

    /// Returns the keys that a condition needs after an outcome of a node, although they may be missing. Without an
    /// outcome, it may be any.
    pub(crate) fn needed(
        &self,
        condition: &Expression,
        after: Option<(NodeIndex, &str)>,
        known: &Known,
    ) -> Keys {
        let mut present = self.declared.none();
        (0..self.declared.len())
            .filter(|key| !known.may_be_missing(*key))
            .for_each(|key| present.insert(key));
        let mut needed = self.declared.none();
        let words = after.map_or_else(
            || vec![Seen::Any],
            |(node, word)| self.steps.seen_words(node, word),
        );
        for word in words {
            needed.add(&self.declared.needed(condition, word, &present));
        }
        needed
    }

    /// Returns the states of a node, in the order in which runs reach them.
    pub(crate) fn states_of(&self, node: NodeIndex) -> Vec<usize> {
        self.by_node.get(&node).cloned().unwrap_or_default()
    }

    /// Returns what is known in a state.
    pub(crate) fn known(&self, state: usize) -> Option<&Known> {
        self.states.get(state).map(|state| &state.known)
    }

    /// Returns the first state of a node in which a key may be missing. Returns `None` if the key is set in all of them.
    pub(crate) fn missing_at(&self, key: usize, node: NodeIndex) -> Option<usize> {
        let states = self.by_node.get(&node)?.iter().copied();
        let mut states =
            states.filter(|state| self.known(*state).is_some_and(|known| known.may_be_missing(key)));
        states.next()
    }

    /// Returns whether a node is only reached in blocks that a state is not in.
    pub(crate) fn is_in_other_block(&self, node: NodeIndex, state: usize) -> bool {
        let Some(State { point, .. }) = self.states.get(state) else {
            return false;
        };
        let is_around = |block: usize| block == MAIN || self.around_indices(point.block).contains(&block);
        let states = self.by_node.get(&node).into_iter().flatten();
        let blocks: Vec<usize> = states
            .filter_map(|at| Some(self.states.get(*at)?.point.block))
            .collect();
        !blocks.is_empty() && !blocks.into_iter().any(is_around)
    }

    /// Returns the fan-outs of all blocks in which runs enter a node.
    pub(crate) fn fan_outs_around(&self, node: NodeIndex) -> Vec<NodeIndex> {
        let states = self.states_of(node).into_iter();
        let blocks = states.filter_map(|at| Some(self.states.get(at)?.point.block));
        let blocks: HashSet<usize> = blocks.collect();
        let around = blocks.into_iter().flat_map(|block| self.around(block));
        around.filter_map(|block| block.fan_out).collect()
    }

    /// Returns the indices of the blocks around a point, from the innermost one.
    fn around_indices(&self, block: usize) -> Vec<usize> {
        let outer = |block: &usize| Some(self.blocks.get(*block)?.around).filter(|block| *block != MAIN);
        std::iter::successors(Some(block).filter(|block| *block != MAIN), outer).collect()
    }

    /// Returns whether a key may be missing when a run ends as a success.
    pub(crate) fn may_be_missing_at_end(&self, key: usize) -> bool {
        self.at_success.contains(key)
    }

    /// Returns a path of a run that reaches a state. With an end, the run leaves its node in this way.
    pub(crate) fn path(&mut self, state: usize, end: Option<End>) -> Path {
        let mut path = Path::new();
        let (mut at, mut end, mut restarts) = (state, end, false);
        while let Some(State { point, before, .. }) = self.states.get(at) {
            let (point, before) = (*point, *before);
            let routes = self.steps.stage(point.node).row().role == Role::Routing;
            let mut left = end
                .filter(|_| !routes)
                .and_then(|end| self.steps.describe(point.node, end));
            if restarts {
                let prefix = left.map(|left| format!("{left}, ")).unwrap_or_default();
                left = Some(format!("{prefix}restart"));
            }
            path.push((point.node, left));
            let Some(before) = before else {
                break;
            };
            (at, end, restarts) = (before.state, before.end, before.restarts);
        }
        path.reverse();
        path
    }
}
