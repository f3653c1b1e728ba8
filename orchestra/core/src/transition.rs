//! One execution path from stage to stage: the main path, or a branch of a parallel block.

use orchestra_graph::{EdgeIndex, NodeIndex, Pipeline, Role, Stage};

use crate::context::{Context, EngineKey};
use crate::effect::{Effect, Observation};
use crate::failure::RunFailure;
use crate::id::EffectId;
use crate::outcome::Outcome;
use crate::path::{ExecutionPath, Phase};
use crate::state::Totals;

/// The next step of an execution path.
pub(crate) enum NextStep {
    /// Enter a node.
    Enter(NodeIndex),
    /// Start an attempt at the current node.
    Attempt,
    /// Apply the outcome of the attempt.
    Ended(Outcome),
    /// Choose the next edge of the current node.
    Choose,
}

/// The result of advancing an execution path until it cannot continue by itself.
pub(crate) enum StepResult {
    /// The path waits for an event.
    Wait,
    /// The path has ended.
    Ended(PathEnd),
    /// The path ends the run.
    Abort(RunFailure),
    /// The path restarts the run.
    Restart {
        /// The edge that requests the restart.
        edge: EdgeIndex,
        /// The context of the path, some keys of which survive the restart.
        context: Context,
    },
}

/// The end of an execution path.
pub(crate) enum PathEnd {
    /// The path reached the join of its block.
    Joined,
    /// The path reached the exit, or another end that counts as one.
    End,
    /// The path failed, and nothing handles the failure.
    Failed(RunFailure),
}

/// The number of stages, besides one for each node and edge, that may begin in one call of the machine. Only nodes that
/// do nothing end in the same call, so a loop of them would never return.
const MOST_AT_ONCE: u64 = 100_000;

/// One call of the machine. It can read the pipeline while it changes the state.
pub(crate) struct Transition<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) totals: &'a mut Totals,
    /// The number of stages that had begun when the machine was called.
    pub(crate) begun_before: u64,
    pub(crate) observed: bool,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Transition<'_> {
    /// Advances the path until it waits for something or ends.
    pub(crate) fn advance(&mut self, path: &mut ExecutionPath, next: NextStep) -> StepResult {
        let mut next = Ok(next);
        loop {
            next = match next {
                Ok(NextStep::Enter(node)) => self.enter(path, node),
                Ok(NextStep::Attempt) => self.attempt(path),
                Ok(NextStep::Ended(outcome)) => self.apply_outcome(path, outcome),
                Ok(NextStep::Choose) => self.choose(path),
                Err(result) => return result,
            };
        }
    }

    /// Applies the outcome of an attempt and advances the path.
    pub(crate) fn finish(&mut self, path: &mut ExecutionPath, outcome: Outcome) -> StepResult {
        match self.apply_outcome(path, outcome) {
            Ok(next) => self.advance(path, next),
            Err(result) => result,
        }
    }

    /// Applies `act` to the path that waits for an effect, and updates the blocks around it.
    pub(crate) fn deliver(
        &mut self,
        path: &mut ExecutionPath,
        id: &EffectId,
        depth: usize,
        act: &mut dyn FnMut(&mut Transition<'_>, &mut ExecutionPath) -> StepResult,
    ) -> StepResult {
        let Some(step) = id.branch.steps().get(depth) else {
            let here = (path.at.node, path.at.visit, path.at.attempt);
            return if here == (id.node, id.visit, id.attempt) {
                act(self, path)
            } else {
                StepResult::Wait
            };
        };
        if (path.at.node, path.at.visit, path.at.attempt) != (step.fan_out, step.visit, step.attempt) {
            return StepResult::Wait;
        }
        let Phase::Parallel(block) = &mut path.phase else {
            return StepResult::Wait;
        };
        let Some(position) = block.position(step) else {
            return StepResult::Wait;
        };
        let Some(branch) = block.running_mut(position) else {
            return StepResult::Wait;
        };
        match self.deliver(branch, id, depth + 1, act) {
            StepResult::Ended(end) => match self.branch_ended(path, position, end) {
                Ok(next) => self.advance(path, next),
                Err(result) => result,
            },
            other => other,
        }
    }

    /// Enters a node, unless the path ends there.
    fn enter(&mut self, path: &mut ExecutionPath, node: NodeIndex) -> Result<NextStep, StepResult> {
        let stage = self.pipeline.stage(node);
        if !path.branch.is_empty() {
            if let Some(end) = self.branch_end(path, stage) {
                return Err(StepResult::Ended(end));
            }
        } else if stage.row().role == Role::Exit
            && let Some(target) = self.check_goal_gates(path, node)?
        {
            path.at.edge = None;
            return Ok(NextStep::Enter(target));
        }
        self.count_visit(path, stage)?;
        Ok(self.begin_visit(path, stage))
    }

    /// Begins a visit that has already been counted.
    fn begin_visit(&mut self, path: &mut ExecutionPath, stage: Stage<'_>) -> NextStep {
        path.leave_join(stage.id());
        path.at.node = stage.index();
        path.at.visit = path.visits.get(stage.index());
        path.at.attempt = 1;
        path.at.index = self.totals.begun;
        self.totals.begun += 1;
        path.context.set_engine(EngineKey::CurrentNode, stage.id());
        NextStep::Attempt
    }

    /// Resumes the path of a failed run, with a new visit of a node or at the edges of a node (rule D9).
    pub(crate) fn retry(
        &mut self,
        path: &mut ExecutionPath,
        node: NodeIndex,
        from_edges: bool,
    ) -> StepResult {
        let stage = self.pipeline.stage(node);
        path.failing.retain(|failing| failing.node != node);
        path.at.edge = None;
        if from_edges {
            path.at.node = node;
            return self.advance(path, NextStep::Choose);
        }
        if stage.row().role == Role::Exit {
            return self.advance(path, NextStep::Enter(node));
        }
        // The visit limit does not apply to a visit that a user requests.
        path.visits.add(node, 1);
        let next = self.begin_visit(path, stage);
        self.advance(path, next)
    }

    /// Returns how a branch ends before a node; `None` if the branch enters the node.
    fn branch_end(&self, path: &ExecutionPath, stage: Stage<'_>) -> Option<PathEnd> {
        for step in path.branch.steps() {
            let fan_out = self.pipeline.stage(step.fan_out);
            if fan_out
                .row()
                .fan_out
                .is_some_and(|fan_out| fan_out.join == stage.index())
            {
                return Some(PathEnd::Joined);
            }
            if step.fan_out == stage.index() {
                return Some(PathEnd::Failed(RunFailure::BranchReentry {
                    from: self.pipeline.stage(path.at.node).id().to_owned(),
                    to: stage.id().to_owned(),
                }));
            }
        }
        (stage.row().role == Role::Exit).then_some(PathEnd::End)
    }

    /// Counts a visit of a node.
    ///
    /// # Errors
    /// Aborts the run if the pipeline does not have the node, or if the visit exceeds the limit (rule R10).
    fn count_visit(&mut self, path: &mut ExecutionPath, stage: Stage<'_>) -> Result<(), StepResult> {
        let row = stage.row();
        if stage.index().at() >= self.pipeline.nodes.len() {
            return Err(StepResult::Abort(RunFailure::InvalidTransition {
                from: self.pipeline.stage(path.at.node).id().to_owned(),
                reason: format!(
                    "it leads to node {}, which the pipeline does not have",
                    stage.index().0
                ),
            }));
        }
        let (limit, attribute) = match row.max_visits {
            Some(limit) => (limit, "max_visits"),
            None => (self.pipeline.settings.max_node_visits, "max_node_visits"),
        };
        if path.visits.get(stage.index()) >= limit {
            return Err(StepResult::Abort(RunFailure::MaxVisits {
                node: stage.id().to_owned(),
                limit,
                attribute: attribute.to_owned(),
            }));
        }
        let visits = self.totals.begun - self.begun_before;
        let shape = self.pipeline.nodes.len() + self.pipeline.edges.len();
        if visits > MOST_AT_ONCE + shape as u64 {
            return Err(StepResult::Abort(RunFailure::BusyLoop {
                node: stage.id().to_owned(),
                visits,
            }));
        }
        path.visits.add(stage.index(), 1);
        Ok(())
    }

    /// Cancels everything that a path waits for. The state of the path can still be read.
    pub(crate) fn cancel(&mut self, path: &mut ExecutionPath) {
        let timed = match &mut path.phase {
            Phase::Idle => return,
            Phase::Parallel(block) => {
                block.running_paths_mut().for_each(|branch| self.cancel(branch));
                block.is_timed()
            }
            phase => {
                *phase = Phase::Idle;
                true
            }
        };
        if timed {
            let id = path.id(self.totals.restarts);
            self.effects.push(Effect::CancelEffect { id });
        }
        let id = path.id(self.totals.restarts);
        let index = path.at.index;
        self.emit(|| Observation::StageCancelled { id, index });
    }

    /// Emits an observation if somebody wants observations.
    pub(crate) fn emit(&mut self, observation: impl FnOnce() -> Observation) {
        if self.observed {
            self.effects.push(Effect::Observe(observation()));
        }
    }
}

/// Wraps an `FnOnce` closure in an `FnMut` closure, so that paths at every depth use one type.
pub(crate) fn call_once<'f>(
    act: impl FnOnce(&mut Transition<'_>, &mut ExecutionPath) -> StepResult + 'f,
) -> impl FnMut(&mut Transition<'_>, &mut ExecutionPath) -> StepResult + 'f {
    let mut act = Some(act);
    move |transition, path| match act.take() {
        Some(act) => act(transition, path),
        None => StepResult::Wait,
    }
}

/// Returns the reason, or a text that says that there is none.
pub(crate) fn or_unspecified(reason: &str) -> &str {
    if reason.is_empty() {
        "no reason was given"
    } else {
        reason
    }
}

/// Prevents the main path from ending successfully while its files are unfinished.
pub(crate) fn may_end(path: &ExecutionPath, stage: Stage<'_>) -> Result<(), StepResult> {
    match path.unfinished() {
        Some(open) if path.branch.is_empty() => Err(StepResult::Abort(RunFailure::StageFailed {
            node: stage.id().to_owned(),
            reason: open.to_owned(),
        })),
        _ => Ok(()),
    }
}
