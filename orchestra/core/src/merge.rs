//! The merge of the branches of a parallel block into their parent path.

use std::collections::BTreeMap;

use orchestra_graph::NodeIndex;
use serde_json::Value;

use crate::history::NodeOutcome;
use crate::path::{Block, ExecutionPath, Phase};

impl ExecutionPath {
    /// Merges the work of the branches of an open block into this path, and closes the block.
    pub(crate) fn flush(&mut self) {
        if let Phase::Parallel(mut block) = std::mem::replace(&mut self.phase, Phase::Idle) {
            block.running_paths_mut().for_each(ExecutionPath::flush);
            self.merge(*block);
        }
    }

    /// Merges the work of branches in the order of their edges, so that the result does not depend on which ended
    /// first.
    pub(crate) fn merge(&mut self, block: Block) {
        let mut outcomes: BTreeMap<u32, NodeOutcome> = BTreeMap::new();
        let revisits = self.revisits.clone();
        for path in block.branches.into_iter().filter_map(|branch| branch.path) {
            self.completed.extend(path.completed);
            for (node, outcome) in path.outcomes.iter() {
                // If several branches ran the same node, a success does not hide a failure.
                let hidden = outcomes
                    .get(&node.0)
                    .is_some_and(|known| !known.status.is_success());
                if !hidden {
                    outcomes.insert(node.0, outcome.clone());
                }
            }
            for (node, visits) in path.visits.own() {
                self.visits.add(node, visits);
                self.failing.retain(|failing| failing.node != node);
                let failing = path.failing.iter().filter(|failing| failing.node == node);
                self.failing.extend(failing.cloned());
            }
            if let Some(Value::Array(errors)) = path.context.get("error_history") {
                for error in &errors[errors.len().saturating_sub(path.errors.len())..] {
                    self.context
                        .append("error_history", error.as_str().unwrap_or_default().to_owned());
                }
            }
            self.errors.extend(path.errors);
            for (node, retries) in path.retries {
                *self.retries.entry(node).or_default() += retries;
            }
            for (edge, taken) in path.revisits {
                let before = revisits.get(&edge).copied().unwrap_or_default();
                *self.revisits.entry(edge).or_default() += taken.saturating_sub(before);
            }
            if !path.last_failure.is_empty() {
                self.last_failure = path.last_failure;
            }
        }
        for (node, outcome) in outcomes {
            self.outcomes.set(NodeIndex(node), outcome);
        }
    }
}
