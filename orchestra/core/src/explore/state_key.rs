//! The part of a state on which the rest of a run depends.

use std::hash::{DefaultHasher, Hash, Hasher};

use orchestra_graph::condition::Expression;
use orchestra_graph::table::{Condition, Routing};
use orchestra_graph::{Known, NodeIndex, Pipeline};
use serde_json::Value;

use crate::foreach;
use crate::outcome::Status;
use crate::path::{Block, ExecutionPath, Phase};
use crate::state::State;

/// The fields that are compared: what conditions, goal gates and limits read. Elapsed time, notes, the history of a path and
/// counters that only a default limits are left out.
#[derive(Clone)]
pub(super) struct StateKey {
    /// The nodes whose visits count, up to a number.
    visits: Vec<(NodeIndex, u32)>,
    /// The nodes whose outcomes count.
    outcomes: Vec<NodeIndex>,
    /// The goal gates, of which it counts whether they are satisfied.
    gates: Vec<NodeIndex>,
    /// The context keys that conditions read, each with its other spelling.
    context: Vec<(String, Option<String>)>,
    /// For each node the context keys that a later condition may read, as bits.
    live: Vec<Vec<u64>>,
    revisits: bool,
    failures: bool,
    reroutes: bool,
    restarts: bool,
}

impl StateKey {
    /// Selects the fields. If everything is counted, the limits that only defaults set count too.
    pub(super) fn new(pipeline: &Pipeline, counts_all: bool) -> StateKey {
        let is_set = |known: Known| counts_all || pipeline.attribute(known.name()).is_some();
        let mut key = StateKey {
            visits: Vec::new(),
            outcomes: Vec::new(),
            gates: Vec::new(),
            context: Vec::new(),
            live: Vec::new(),
            revisits: pipeline.settings.routing == Routing::FirstMatch,
            failures: pipeline.settings.failure_breaker > 0,
            reroutes: is_set(Known::MaxGoalGateReroutes),
            restarts: is_set(Known::MaxRestarts),
        };
        let mut read: Vec<(NodeIndex, u32)> = Vec::new();
        for condition in pipeline.conditions() {
            for name in condition.keys() {
                if let Some(node) = name
                    .strip_prefix("stages.")
                    .and_then(|rest| rest.strip_suffix(".outcome"))
                {
                    key.outcomes.extend(pipeline.find(node));
                } else if !name.starts_with("visits.") {
                    let short = name.strip_prefix("context.").map(str::to_owned);
                    key.context.push((name.to_owned(), short));
                }
            }
            if let Some(expression) = condition.expression() {
                expression.visit(&mut |part| read.extend(visits_read(pipeline, part)));
            }
        }
        for stage in pipeline.stages() {
            let (node, row) = (stage.index(), stage.row());
            let list = foreach::list_key(stage);
            key.context.extend(list.map(|list| (list.to_owned(), None)));
            if row.goal_gate {
                let known = if row.goal_condition.is_some() {
                    &mut key.outcomes
                } else {
                    &mut key.gates
                };
                known.push(node);
            }
            let read = read
                .iter()
                .filter(|(read, _)| *read == node)
                .map(|(_, most)| *most);
            let limit = row
                .max_visits
                .or_else(|| is_set(Known::MaxNodeVisits).then_some(pipeline.settings.max_node_visits));
            let first = key.revisits.then_some(1);
            if let Some(most) = read.chain(limit).chain(first).max() {
                key.visits.push((node, most));
            }
        }
        key.outcomes.sort_unstable_by_key(|node| node.0);
        key.outcomes.dedup();
        key.context.sort();
        key.context.dedup();
        key.live = live(pipeline, &key.context);
        key
    }

    /// Returns the key without the context. States that only the context tells apart are then equal.
    pub(super) fn without_context(&self) -> StateKey {
        StateKey {
            context: Vec::new(),
            ..self.clone()
        }
    }

    /// Returns a key that compares only where the paths of a run are, and their attempts.
    pub(super) fn with_positions_only(&self) -> StateKey {
        StateKey {
            visits: Vec::new(),
            outcomes: Vec::new(),
            gates: Vec::new(),
            context: Vec::new(),
            live: Vec::new(),
            revisits: false,
            failures: false,
            reroutes: false,
            restarts: false,
        }
    }

    /// Returns whether a later decision may read the outcome of a node.
    pub(super) fn reads_outcome(&self, node: NodeIndex) -> bool {
        self.outcomes.contains(&node) || self.gates.contains(&node)
    }

    /// Returns the hash of the fields of a state.
    pub(super) fn hash(&self, state: &State, counts: Option<&[[u32; 2]]>) -> u64 {
        let mut hasher = DefaultHasher::new();
        state.totals.finished.hash(&mut hasher);
        if self.reroutes {
            state.totals.reroutes.hash(&mut hasher);
        }
        if self.restarts {
            state.totals.restarts.hash(&mut hasher);
        } else {
            (state.totals.restarts > 0).hash(&mut hasher);
        }
        counts.hash(&mut hasher);
        self.hash_path(&state.main, &mut hasher);
        hasher.finish()
    }

    fn hash_path(&self, path: &ExecutionPath, hasher: &mut DefaultHasher) {
        std::mem::discriminant(&path.phase).hash(hasher);
        (path.at.node.0, path.at.attempt).hash(hasher);
        self.hash_counters(path, hasher);
        let live = self.live.get(path.at.node.at()).map_or(&[][..], |live| live);
        for (at, (name, short)) in self.context.iter().enumerate() {
            let word = live.get(at / 64).copied().unwrap_or_default();
            if word >> (at % 64) & 1 == 0 {
                continue;
            }
            let value = path.context.get(name);
            let value = value.or_else(|| path.context.get(short.as_deref()?));
            hash_value(value, hasher);
        }
        if let Phase::Parallel(_) | Phase::BackOff = path.phase {
            path.last.status.word().hash(hasher);
            path.last.preferred_label.hash(hasher);
            path.last.suggested_next_ids.hash(hasher);
        }
        if let Phase::Parallel(block) = &path.phase {
            self.hash_block(block, hasher);
        }
    }

    fn hash_block(&self, block: &Block, hasher: &mut DefaultHasher) {
        (block.next, block.running, block.succeeded, block.failed).hash(hasher);
        for branch in &block.branches {
            (branch.edge.0, branch.path.is_some()).hash(hasher);
            branch.status().map(|status| status.word()).hash(hasher);
            let Some(path) = &branch.path else { continue };
            if branch.ended.is_none() {
                self.hash_path(path, hasher);
            } else {
                self.hash_counters(path, hasher);
            }
        }
    }

    fn hash_counters(&self, path: &ExecutionPath, hasher: &mut DefaultHasher) {
        for (node, most) in &self.visits {
            path.visits.get(*node).min(*most).hash(hasher);
        }
        for node in &self.outcomes {
            path.outcomes
                .latest(*node)
                .map(|status| status.word())
                .hash(hasher);
        }
        for node in &self.gates {
            path.outcomes.latest(*node).map(Status::is_success).hash(hasher);
        }
        if self.revisits {
            path.revisits.hash(hasher);
        }
        if self.failures {
            for failing in &path.failing {
                (failing.node.0, failing.count).hash(hasher);
            }
        }
    }
}

/// Returns for each node the context keys that a condition may read after it.
fn live(pipeline: &Pipeline, context: &[(String, Option<String>)]) -> Vec<Vec<u64>> {
    let words = context.len().div_ceil(64);
    let position = |key: &str| {
        let found = context.binary_search_by(|(known, _)| known.as_str().cmp(key));
        found.ok()
    };
    let bits = |condition: Option<Condition<'_>>| {
        let mut bits = vec![0_u64; words];
        for key in condition.iter().flat_map(Condition::keys) {
            if let Some(at) = position(key) {
                bits[at / 64] |= 1 << (at % 64);
            }
        }
        bits
    };
    let add = |to: &mut Vec<u64>, from: &[u64]| {
        let mut changed = false;
        for (to, from) in to.iter_mut().zip(from) {
            changed |= *to | from != *to;
            *to |= from;
        }
        changed
    };
    // A run may end at any node, which then reads the conditions of goal gates and goes back.
    let settings = &pipeline.settings;
    let mut always = vec![0; words];
    let mut back = Vec::new();
    for row in pipeline.nodes.iter().filter(|row| row.goal_gate) {
        add(&mut always, &bits(pipeline.goal_condition(row)));
        let own = [row.retry_target, row.fallback_retry_target];
        let common = [settings.retry_target, settings.fallback_retry_target];
        back.extend(own.into_iter().chain(common).flatten());
    }
    let mut live: Vec<Vec<u64>> = pipeline
        .stages()
        .map(|stage| {
            let mut read = always.clone();
            let list = foreach::list_key(stage).and_then(position);
            if let Some(at) = list {
                read[at / 64] |= 1 << (at % 64);
            }
            for (_, edge) in stage.edges() {
                add(&mut read, &bits(pipeline.condition(edge)));
            }
            read
        })
        .collect();
    let mut changed = true;
    while changed {
        changed = false;
        for stage in pipeline.stages().collect::<Vec<_>>().into_iter().rev() {
            let row = stage.row();
            let jumps = [
                row.retry_target,
                row.fallback_retry_target,
                row.fan_out.map(|fan_out| fan_out.join),
            ];
            let next = stage.edges().map(|(_, edge)| edge.to);
            for to in next
                .chain(jumps.into_iter().flatten())
                .chain(back.iter().copied())
            {
                let Some(from) = live.get(to.at()).cloned() else {
                    continue;
                };
                if let Some(own) = live.get_mut(stage.index().at()) {
                    changed |= add(own, &from);
                }
            }
        }
    }
    live
}

fn hash_value(value: Option<&Value>, hasher: &mut DefaultHasher) {
    match value {
        None => 0_u8.hash(hasher),
        Some(Value::String(text)) => text.hash(hasher),
        Some(value) => value.to_string().hash(hasher),
    }
}

/// Returns the node whose visits a part of a condition compares, and the largest number that it distinguishes.
fn visits_read(pipeline: &Pipeline, part: &Expression) -> Option<(NodeIndex, u32)> {
    let (key, most) = match part {
        Expression::Compare { key, literal, .. } => {
            let number = literal.trim().parse::<f64>().unwrap_or(0.0);
            // The cast saturates.
            (key, (number.ceil().max(0.0) as u32).saturating_add(1))
        }
        Expression::Truthy(key) => (key, 1),
        Expression::Matches { key, .. } => (key, u32::MAX),
        _ => return None,
    };
    Some((pipeline.find(key.strip_prefix("visits.")?)?, most))
}
