//! The restoration of the state of a run from its serialized form.

use std::sync::Arc;

use orchestra_graph::{EdgeIndex, NodeIndex, Pipeline};

use crate::block::branch_step_of;
use crate::context::Context;
use crate::foreach;
use crate::history::{AttemptError, Counts, FailureStreak, LastStage, NodeOutcome, Outcomes};
use crate::id::BranchPath;
use crate::outcome::{BranchStatus, Status};
use crate::path::{Block, Branch, BranchEnd, ExecutionPath, Phase, Progress, StagePosition};
use crate::saved::{
    SavedBlock, SavedContext, SavedFailing, SavedOutcome, SavedPath, SavedPhase, SavedState, SavedStateError,
};
use crate::state::{State, Totals};

impl SavedState {
    /// Restores the state.
    ///
    /// # Errors
    /// Returns an error if the state does not match the pipeline, for example because it names a node or an edge that
    /// the pipeline does not have.
    pub fn restore(self, pipeline: &Pipeline) -> Result<State, SavedStateError> {
        let SavedState { main, totals } = self;
        let mut taken = vec![0; pipeline.edges.len()];
        for (edge, times) in totals.taken {
            match taken.get_mut(edge as usize) {
                Some(slot) => *slot = times,
                None => return Err(no_edge(pipeline, edge)),
            }
        }
        Ok(State {
            main: main.restore(pipeline, BranchPath::default(), None, totals.restarts)?,
            totals: Totals {
                finished: totals.finished,
                begun: totals.begun,
                restarts: totals.restarts,
                reroutes: totals.reroutes,
                taken,
                elapsed: totals.elapsed,
                seed: totals.seed,
                usage: totals.usage,
                spent: totals.spent.into_iter().collect(),
            },
        })
    }
}

/// The context of a parent path, and the visits and outcomes with which a branch of it began.
type BranchOrigin<'c> = (&'c Context, Arc<[u32]>, Arc<[(u32, Status)]>);

impl SavedPath {
    /// Restores the path. For a branch, `origin` holds the context of the parent path, and the visits and outcomes with
    /// which the branch began.
    pub(crate) fn restore(
        self,
        pipeline: &Pipeline,
        branch: BranchPath,
        origin: Option<BranchOrigin<'_>>,
        restarts: u32,
    ) -> Result<ExecutionPath, SavedStateError> {
        let nodes = pipeline.nodes.len();
        let node = |node: u32| {
            if (node as usize) < nodes {
                Ok(NodeIndex(node))
            } else {
                Err(no_node(pipeline, node))
            }
        };
        let context = match (self.context, &origin) {
            (SavedContext::All(context), None) => context,
            (SavedContext::Changed(changed), Some((context, ..))) => {
                let mut context = Context::clone(context);
                for (key, value) in changed {
                    match value.into_iter().next() {
                        Some(value) => context.set(key, value),
                        None => {
                            context.remove(&key);
                        }
                    }
                }
                context
            }
            _ => {
                return Err(SavedStateError::new(
                    "the context of a branch stands where the run's should, or the reverse",
                ));
            }
        };
        let (visits, mut outcomes) = match origin {
            None => {
                let mut counts = vec![0; nodes];
                for (at, count) in self.visits {
                    counts[node(at)?.at()] = count;
                }
                (Counts::All(counts), Outcomes::All(vec![None; nodes]))
            }
            Some((_, visits, outcomes)) => {
                let mut own = self.visits;
                own.sort_by_key(|(node, _)| *node);
                own.iter().try_for_each(|(at, _)| node(*at).map(drop))?;
                let outcomes = Outcomes::Branch {
                    base: outcomes,
                    own: Vec::new(),
                };
                (Counts::Branch { base: visits, own }, outcomes)
            }
        };
        for SavedOutcome(at, status, notes, visit, steps) in self.outcomes {
            let outcome = NodeOutcome {
                status,
                notes,
                visit,
                branch: BranchPath::from_saved(&steps),
            };
            outcomes.set(node(at)?, outcome);
        }
        let last = self.last;
        let mut path = ExecutionPath {
            phase: Phase::Idle,
            branch,
            context,
            visits,
            outcomes,
            completed: self.completed.into_iter().map(node).collect::<Result<_, _>>()?,
            last: LastStage {
                node: last.node.map(node).transpose()?,
                status: last.status,
                preferred_label: last.preferred_label,
                suggested_next_ids: last.suggested_next_ids,
                failure_reason: last.failure_reason,
                failure_code: last.failure_code,
                output: last.output,
            },
            last_failure: self.last_failure,
            failing: self
                .failing
                .into_iter()
                .map(|SavedFailing(at, count, reason, output)| {
                    let node = node(at)?;
                    Ok(FailureStreak {
                        node,
                        reason,
                        output,
                        count,
                    })
                })
                .collect::<Result<_, _>>()?,
            errors: self
                .errors
                .into_iter()
                .map(|(at, visit, attempt, reason)| {
                    let node = node(at)?;
                    Ok(AttemptError {
                        node,
                        visit,
                        attempt,
                        reason,
                    })
                })
                .collect::<Result<_, _>>()?,
            retries: self.retries.into_iter().collect(),
            revisits: self.revisits.into_iter().collect(),
            progress: None,
            files: self.files.map(|files| Box::new(files.restore())),
            at: StagePosition {
                node: node(self.at.node)?,
                visit: self.at.visit,
                attempt: self.at.attempt,
                index: self.at.index,
                edge: match self.at.edge {
                    Some(edge) if edge as usize >= pipeline.edges.len() => {
                        return Err(no_edge(pipeline, edge));
                    }
                    edge => edge.map(EdgeIndex),
                },
                delay: self.at.delay,
            },
            updates: self.updates,
        };
        if !self.notes.is_empty() || !self.used.is_empty() || self.answer.is_some() {
            path.progress = Some(Box::new(Progress {
                notes: self.notes,
                used: self.used,
                answer: self.answer,
            }));
        }
        path.phase = match self.phase {
            SavedPhase::Idle => Phase::Idle,
            SavedPhase::Running => Phase::Running,
            SavedPhase::BackOff => Phase::BackOff,
            SavedPhase::Asking => {
                let name = path.id(restarts).name(pipeline);
                Phase::Asking(Box::new(path.question(pipeline, name)))
            }
            SavedPhase::Parallel(block) => {
                Phase::Parallel(Box::new(block.restore(pipeline, &path, restarts)?))
            }
        };
        Ok(path)
    }
}

impl SavedBlock {
    /// Restores the block that is open at a path.
    pub(crate) fn restore(
        self,
        pipeline: &Pipeline,
        path: &ExecutionPath,
        restarts: u32,
    ) -> Result<Block, SavedStateError> {
        let stage = pipeline.stage(path.at.node);
        let Some(fan_out) = stage.row().fan_out else {
            return Err(SavedStateError::new(format!(
                "the state is in the branches of `{}`, which is not a fan-out",
                stage.id()
            )));
        };
        let mut visits = vec![0; pipeline.nodes.len()];
        for (node, count) in self.visits {
            match visits.get_mut(node as usize) {
                Some(position) => *position = count,
                None => return Err(no_node(pipeline, node)),
            }
        }
        let visits: Arc<[u32]> = visits.into();
        // The list had no more items than were allowed when the block was opened.
        let items = foreach::list(stage, &path.context).map_err(|reason| {
            let id = stage.id();
            SavedStateError::new(format!("the branches of `{id}` are open, but {reason}"))
        })?;
        let is_foreach = items.is_some();
        let items = items.unwrap_or_default();
        for branch in &self.branches {
            let item = branch.item.map(|item| item as usize);
            if item.is_some() != is_foreach || item.is_some_and(|item| item >= items.len()) {
                return Err(SavedStateError::new(format!(
                    "the branches of `{}` are open, and their list is another one now",
                    stage.id()
                )));
            }
        }
        let edges: Vec<EdgeIndex> = self
            .branches
            .iter()
            .map(|branch| EdgeIndex(branch.edge))
            .collect();
        for edge in &edges {
            if pipeline
                .edges
                .get(edge.at())
                .is_none_or(|row| row.from != path.at.node)
            {
                return Err(no_edge(pipeline, edge.0));
            }
        }
        let mut block = Block {
            fan_out,
            branches: Vec::with_capacity(edges.len()),
            items,
            next: self.next,
            running: 0,
            succeeded: 0,
            failed: 0,
            visits,
            outcomes: path.outcomes.fork(),
            began: self.began,
            timeout: stage.duration("timeout"),
        };
        for (saved, edge) in self.branches.into_iter().zip(edges) {
            let step = branch_step_of(path, edge, saved.item);
            let mut with_item = None;
            let item = saved.item.and_then(|index| block.items.get(index as usize));
            // A branch without a path has ended, or has not begun.
            if let Some((index, item)) = saved.item.zip(item).filter(|_| saved.path.is_some()) {
                let context = with_item.insert(path.context.clone());
                foreach::set_item(context, index, item);
            }
            let context = with_item.as_ref().unwrap_or(&path.context);
            let origin = Some((context, block.visits.clone(), block.outcomes.clone()));
            let own = match saved.path {
                Some(saved) => Some(Box::new(saved.restore(
                    pipeline,
                    path.branch.then(step),
                    origin,
                    restarts,
                )?)),
                None => None,
            };
            let ended = saved.ended.map(|ended| BranchEnd {
                status: ended.status,
                reason: ended.reason,
                duration: ended.duration,
            });
            match ended.as_ref().map(|ended| ended.status) {
                None => block.running += u32::from(own.is_some()),
                Some(BranchStatus::Fail) => block.failed += 1,
                Some(BranchStatus::Cancelled) => {}
                Some(_) => block.succeeded += 1,
            }
            block.branches.push(Branch {
                edge,
                item: saved.item,
                id: step.branch_id(pipeline),
                began: saved.began,
                path: own,
                ended,
            });
        }
        Ok(block)
    }
}

fn no_node(pipeline: &Pipeline, node: u32) -> SavedStateError {
    let nodes = pipeline.nodes.len();
    SavedStateError::new(format!(
        "the state names node {node}, but the pipeline has {nodes} nodes"
    ))
}

fn no_edge(pipeline: &Pipeline, edge: u32) -> SavedStateError {
    let edges = pipeline.edges.len();
    SavedStateError::new(format!(
        "the state names edge {edge}, but the pipeline has {edges} edges"
    ))
}
