//! The conversion of the state of a run to its serialized form.

use std::collections::BTreeMap;

use orchestra_graph::Pipeline;

use crate::files::SavedFiles;
use crate::history::{Counts, FailureStreak, NodeOutcome};
use crate::path::{Block, ExecutionPath, Phase};
use crate::retry;
use crate::saved::{
    SavedAt, SavedBlock, SavedBranch, SavedContext, SavedEnd, SavedFailing, SavedLast, SavedOutcome,
    SavedPath, SavedPhase, SavedState, SavedTotals,
};
use crate::state::State;

impl SavedState {
    pub(crate) fn new(pipeline: &Pipeline, state: &State) -> SavedState {
        let State { main, totals } = state;
        let taken = totals.taken.iter().enumerate();
        SavedState {
            main: SavedPath::new(pipeline, main),
            totals: SavedTotals {
                finished: totals.finished,
                begun: totals.begun,
                restarts: totals.restarts,
                reroutes: totals.reroutes,
                taken: taken
                    .filter(|(_, taken)| **taken > 0)
                    .map(|(edge, taken)| (edge as u32, *taken))
                    .collect(),
                elapsed: totals.elapsed,
                seed: totals.seed,
                usage: totals.usage,
                spent: totals.spent.iter().map(|(node, usage)| (*node, *usage)).collect(),
            },
        }
    }
}

impl SavedPath {
    pub(crate) fn new(pipeline: &Pipeline, path: &ExecutionPath) -> SavedPath {
        let is_branch = !path.branch.is_empty();
        let context = if is_branch {
            let keys = own_keys(pipeline, path).into_iter();
            SavedContext::Changed(
                keys.map(|key| {
                    let value = path.context.get(&key).cloned();
                    (key, value.into_iter().collect())
                })
                .collect(),
            )
        } else {
            SavedContext::All(path.context.clone())
        };
        let visits = match &path.visits {
            Counts::All(counts) => {
                let counts = counts.iter().enumerate();
                let counts = counts.filter(|(_, count)| **count > 0);
                counts.map(|(node, count)| (node as u32, *count)).collect()
            }
            Counts::Branch { own, .. } => own.clone(),
        };
        let last = &path.last;
        SavedPath {
            phase: match &path.phase {
                Phase::Idle => SavedPhase::Idle,
                Phase::Running => SavedPhase::Running,
                Phase::BackOff => SavedPhase::BackOff,
                Phase::Asking(_) => SavedPhase::Asking,
                Phase::Parallel(block) => SavedPhase::Parallel(Box::new(SavedBlock::new(pipeline, block))),
            },
            at: SavedAt {
                node: path.at.node.0,
                visit: path.at.visit,
                attempt: path.at.attempt,
                index: path.at.index,
                edge: path.at.edge.map(|edge| edge.0),
                delay: path.at.delay,
            },
            context,
            visits,
            outcomes: path
                .outcomes
                .iter()
                .map(|(node, outcome)| {
                    let NodeOutcome { status, notes, .. } = outcome.clone();
                    SavedOutcome(node.0, status, notes, outcome.visit, outcome.branch.to_saved())
                })
                .collect(),
            completed: path.completed.iter().map(|node| node.0).collect(),
            last: SavedLast {
                node: last.node.map(|node| node.0),
                status: last.status.clone(),
                preferred_label: last.preferred_label.clone(),
                suggested_next_ids: last.suggested_next_ids.clone(),
                failure_reason: last.failure_reason.clone(),
                failure_code: last.failure_code.clone(),
                output: last.output.clone(),
            },
            last_failure: path.last_failure.clone(),
            failing: path
                .failing
                .iter()
                .map(|failing| {
                    let FailureStreak {
                        node,
                        reason,
                        output,
                        count,
                    } = failing.clone();
                    SavedFailing(node.0, count, reason, output)
                })
                .collect(),
            errors: path
                .errors
                .iter()
                .map(|error| (error.node.0, error.visit, error.attempt, error.reason.clone()))
                .collect(),
            retries: pairs(&path.retries),
            revisits: pairs(&path.revisits),
            notes: path.notes().to_vec(),
            used: path.used(),
            answer: path.answer().cloned(),
            files: path
                .files
                .as_deref()
                .map(|files| Box::new(SavedFiles::from_files(files))),
            updates: path.updates.clone(),
        }
    }
}

impl SavedBlock {
    pub(crate) fn new(pipeline: &Pipeline, block: &Block) -> SavedBlock {
        let counted = block.visits.iter().enumerate();
        let branches = block.branches.iter().map(|branch| SavedBranch {
            edge: branch.edge.0,
            item: branch.item,
            began: branch.began,
            path: branch
                .path
                .as_deref()
                .map(|path| Box::new(SavedPath::new(pipeline, path))),
            ended: branch.ended.as_ref().map(|ended| SavedEnd {
                status: ended.status,
                reason: ended.reason.clone(),
                duration: ended.duration,
            }),
        });
        SavedBlock {
            visits: counted
                .filter(|(_, count)| **count > 0)
                .map(|(node, count)| (node as u32, *count))
                .collect(),
            branches: branches.collect(),
            next: block.next,
            began: block.began,
        }
    }
}

/// Returns the keys in the context of a branch that the engine changes, and those that its stages set. Its item is
/// known from the list.
fn own_keys(pipeline: &Pipeline, path: &ExecutionPath) -> Vec<String> {
    let engine = [
        "current_node",
        "error_history",
        "last_stage",
        "outcome",
        "preferred_label",
    ];
    let counted = path.visits.own();
    let counts = counted.map(|(node, _)| retry::count_key(pipeline.stage(node)));
    let set = path.updates.iter().flat_map(BTreeMap::keys).cloned();
    engine
        .into_iter()
        .map(str::to_owned)
        .chain(counts)
        .chain(set)
        .collect()
}

fn pairs(counts: &BTreeMap<u32, u32>) -> Vec<(u32, u32)> {
    counts.iter().map(|(key, count)| (*key, *count)).collect()
}
