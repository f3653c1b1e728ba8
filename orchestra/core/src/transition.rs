//! One execution path from stage to stage: the main path, or a branch of a parallel block.

use std::num::NonZeroU64;

use orchestra_graph::condition::{Facts, StageRecords};
use orchestra_graph::table::Routing;
use orchestra_graph::{EdgeIndex, Next, NodeIndex, Pipeline, Role, RouteError, Stage, kind, route};
use serde_json::Value;

use crate::context::{Context, EngineKey};
use crate::effect::{Effect, EffectId, Observation};
use crate::failure::RunFailure;
use crate::outcome::{FailureCategory, Outcome, Status};
use crate::retry;
use crate::state::{AttemptError, ExecutionPath, Failing, NodeOutcome, Phase, Totals};

/// The failure code of a stage whose response does not contain the declared output (rule R11).
const OUTPUT_PARSE: &str = "output_parse";

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

/// One call of the machine. It can read the pipeline while it changes the state.
pub(crate) struct Transition<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) totals: &'a mut Totals,
    pub(crate) observed: bool,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl<'a> Transition<'a> {
    /// Advances the path until it waits for something or ends.
    pub(crate) fn go(&mut self, path: &mut ExecutionPath, next: NextStep) -> StepResult {
        let mut next = Ok(next);
        loop {
            next = match next {
                Ok(NextStep::Enter(node)) => self.enter(path, node),
                Ok(NextStep::Attempt) => self.attempt(path),
                Ok(NextStep::Ended(outcome)) => self.ended(path, outcome),
                Ok(NextStep::Choose) => self.choose(path),
                Err(result) => return result,
            };
        }
    }

    /// Applies the outcome of an attempt and advances the path.
    pub(crate) fn finish(&mut self, path: &mut ExecutionPath, outcome: Outcome) -> StepResult {
        match self.ended(path, outcome) {
            Ok(next) => self.go(path, next),
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
        let here = (path.at.node, path.at.visit, path.at.attempt);
        let Phase::Parallel(block) = &mut path.phase else {
            return StepResult::Wait;
        };
        let Some(position) = block
            .position(step.edge)
            .filter(|_| here == (step.fan_out, step.visit, step.attempt))
        else {
            return StepResult::Wait;
        };
        let Some(branch) = block.running_mut(position) else {
            return StepResult::Wait;
        };
        match self.deliver(branch, id, depth + 1, act) {
            StepResult::Ended(end) => match self.branch_ended(path, position, end) {
                Ok(next) => self.go(path, next),
                Err(result) => result,
            },
            other => other,
        }
    }

    /// Enters a node, unless the path ends there.
    fn enter(&mut self, path: &mut ExecutionPath, node: NodeIndex) -> Result<NextStep, StepResult> {
        let stage = self.pipeline.stage(node);
        if !path.branch.is_empty() {
            if let Some(end) = self.leaves(path, stage) {
                return Err(StepResult::Ended(end));
            }
        } else if stage.row().role == Role::Exit
            && let Some(target) = self.gates(path, node)?
        {
            path.at.edge = None;
            return Ok(NextStep::Enter(target));
        }
        self.visit(path, stage)?;
        Ok(self.arrive(path, stage))
    }

    /// Begins a visit that has already been counted.
    fn arrive(&mut self, path: &mut ExecutionPath, stage: Stage<'_>) -> NextStep {
        path.passes_join(stage.id());
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
            return self.go(path, NextStep::Choose);
        }
        if stage.row().role == Role::Exit {
            return self.go(path, NextStep::Enter(node));
        }
        // The visit limit does not apply to a visit that a user requests.
        path.visits.add(node, 1);
        let next = self.arrive(path, stage);
        self.go(path, next)
    }

    /// Returns how a branch ends before a node; `None` if the branch enters the node.
    fn leaves(&self, path: &ExecutionPath, stage: Stage<'_>) -> Option<PathEnd> {
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
    fn visit(&mut self, path: &mut ExecutionPath, stage: Stage<'_>) -> Result<(), StepResult> {
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
                node: row.id.to_string(),
                limit,
                attribute: attribute.to_owned(),
            }));
        }
        path.visits.add(stage.index(), 1);
        Ok(())
    }

    /// Begins an attempt at the current node.
    fn attempt(&mut self, path: &mut ExecutionPath) -> Result<NextStep, StepResult> {
        let stage = self.pipeline.stage(path.at.node);
        let index = path.at.index;
        let restarts = self.totals.restarts;
        if decided_here(stage) {
            self.tell(|| Observation::StageStarted {
                id: path.id(restarts),
                index,
            });
            return self.decided(path, stage);
        }
        let id = path.id(restarts);
        self.tell(|| Observation::StageStarted {
            id: id.clone(),
            index,
        });
        if let Some(fan_out) = stage.row().fan_out {
            return self.fork(path, id, fan_out);
        }
        if stage.kind() == kind::WAIT_HUMAN {
            return self.ask(path, id);
        }
        path.phase = Phase::Running;
        self.effects.push(Effect::RunNode {
            id,
            context: path.context.clone(),
        });
        Err(StepResult::Wait)
    }

    /// Completes a node whose outcome the core itself decides.
    fn decided(&mut self, path: &mut ExecutionPath, stage: Stage<'_>) -> Result<NextStep, StepResult> {
        let role = stage.row().role;
        if role == Role::Exit {
            may_end(path, stage)?;
        }
        path.completed.push(stage.index());
        if role != Role::Routing {
            remember(self.pipeline, path, stage, &Outcome::success());
            record(path, stage.index(), Status::Success, None);
        }
        let restarts = self.totals.restarts;
        self.tell(|| Observation::StageCompleted {
            id: path.id(restarts),
            index: path.at.index,
            outcome: Outcome::success(),
        });
        if role == Role::Exit {
            return Err(StepResult::Ended(PathEnd::End));
        }
        Ok(NextStep::Choose)
    }

    /// Applies the outcome of an attempt: waits for another attempt, or returns the next step.
    fn ended(&mut self, path: &mut ExecutionPath, mut outcome: Outcome) -> Result<NextStep, StepResult> {
        path.phase = Phase::Idle;
        path.progress = None;
        let stage = self.pipeline.stage(path.at.node);
        let index = path.at.index;
        if matches!(outcome.status, Status::Fail | Status::Retry) {
            self.failed_attempt(path, stage, &outcome);
            let again = outcome.failure_category == FailureCategory::Retryable
                && path.at.attempt < stage.row().retry.attempts
                && stage.row().role != Role::Routing;
            if again {
                return Err(self.again(path, stage, outcome));
            }
            exhaust(stage, &mut outcome);
        }
        // The counter may stem from an earlier visit whose attempts all failed.
        if stage.row().retry.attempts > 1 && outcome.status != Status::Fail {
            path.context.remove(&retry_count_key(stage));
        }
        path.completed.push(path.at.node);
        if let Some(updates) = &mut path.updates {
            updates.extend(
                outcome
                    .context_updates
                    .iter()
                    .map(|(key, value)| (key.clone(), value.clone())),
            );
        }
        // If nothing reads the outcome afterwards, move its parts instead of copying them.
        let wanted = self.observed || self.pipeline.settings.routing == Routing::FirstMatch;
        let notes = if wanted {
            for (key, value) in &outcome.context_updates {
                path.context.update(key, value.clone());
            }
            outcome.notes.clone().or_else(|| outcome.failure_reason.clone())
        } else {
            for (key, value) in std::mem::take(&mut outcome.context_updates) {
                path.context.update(&key, value);
            }
            outcome.notes.take().or_else(|| outcome.failure_reason.clone())
        };
        remember(self.pipeline, path, stage, &outcome);
        record(path, path.at.node, outcome.status.clone(), notes);
        let failed = outcome.status == Status::Fail;
        if failed {
            let reason = outcome.failure_reason.clone().unwrap_or_default();
            let output = outcome.output_digest;
            let id = path.id(self.totals.restarts);
            path.last_failure = format!("stage `{}` failed: {}", stage.id(), or_unsaid(&reason));
            self.tell(|| Observation::StageFailed {
                id,
                index,
                outcome,
                will_retry: false,
            });
            if let Some(failure) = self.breaker(path, stage, &reason, output) {
                return Err(StepResult::Abort(failure));
            }
        } else {
            if !path.failing.is_empty() {
                path.failing.retain(|failing| failing.node != stage.index());
            }
            if self.observed {
                let id = path.id(self.totals.restarts);
                self.tell(|| Observation::StageCompleted { id, index, outcome });
            }
        }
        // An exit with its own handler may fail like any other stage (rule R3).
        if stage.row().role == Role::Exit && !failed {
            may_end(path, stage)?;
            return Err(StepResult::Ended(PathEnd::End));
        }
        Ok(NextStep::Choose)
    }

    /// Records the reason for a failed attempt (rule Y7).
    fn failed_attempt(&mut self, path: &mut ExecutionPath, stage: Stage<'_>, outcome: &Outcome) {
        let reason = outcome.failure_reason.clone().unwrap_or_default();
        let told = format!("{}: {}", stage.id(), or_unsaid(&reason));
        path.context.append("error_history", told);
        path.errors.push(AttemptError {
            node: stage.index(),
            visit: path.at.visit,
            attempt: path.at.attempt,
            reason,
        });
    }

    /// Waits for the next attempt (rule Y4).
    fn again(&mut self, path: &mut ExecutionPath, stage: Stage<'_>, outcome: Outcome) -> StepResult {
        let index = path.at.index;
        let policy = &stage.row().retry;
        let failed = path.id(self.totals.restarts);
        let delay = retry::delay(policy, self.totals.seed, &failed, outcome.retry_after);
        self.tell(|| Observation::StageFailed {
            id: failed,
            index,
            outcome,
            will_retry: true,
        });
        *path.retries.entry(path.at.node.0).or_default() += 1;
        path.context.set(retry_count_key(stage), path.at.attempt);
        path.at.attempt += 1;
        let id = path.id(self.totals.restarts);
        self.tell(|| Observation::StageRetrying {
            id: id.clone(),
            index,
            attempts: policy.attempts,
            delay,
        });
        path.phase = Phase::BackOff;
        path.at.delay = delay;
        self.effects.push(Effect::StartTimer { id, delay });
        StepResult::Wait
    }

    /// Counts consecutive equal failures of a stage. Returns the failure of the run if they reach the limit (rule R10).
    fn breaker(
        &mut self,
        path: &mut ExecutionPath,
        stage: Stage<'_>,
        reason: &str,
        output: Option<NonZeroU64>,
    ) -> Option<RunFailure> {
        let limit = self.pipeline.settings.failure_breaker;
        if limit == 0 {
            return None;
        }
        let node = stage.index();
        let mut failing = Failing {
            node,
            reason: reason.to_owned(),
            output,
            count: 1,
        };
        match path.failing.iter_mut().find(|failing| failing.node == node) {
            Some(known) => {
                if known.reason == failing.reason && known.output == failing.output {
                    failing.count += known.count;
                }
                *known = failing.clone();
            }
            None => path.failing.push(failing.clone()),
        }
        (failing.count >= limit).then(|| RunFailure::FailureBreaker {
            node: stage.id().to_owned(),
            reason: failing.reason,
            count: failing.count,
        })
    }

    /// Routes from the current node and follows the decision.
    fn choose(&mut self, path: &mut ExecutionPath) -> Result<NextStep, StepResult> {
        let pipeline = self.pipeline;
        let stage = pipeline.stage(path.at.node);
        let records = Records::new(pipeline, path);
        let decision = route(pipeline, stage.index(), &facts(pipeline, path, stage, &records));
        let next = decision.next;
        let told = match next {
            Next::Fail(RouteError::NoMatchingEdge) => decision.describe(pipeline, stage.index()),
            _ => String::new(),
        };
        self.tell(|| Observation::Routed {
            branch: path.branch.clone(),
            from: stage.index(),
            decision,
        });
        let node = || stage.id().to_owned();
        let failure = match next {
            Next::Edge(edge) => {
                if let Some(failure) = self.revisit(path, edge) {
                    return Err(StepResult::Ended(PathEnd::Failed(failure)));
                }
                self.take(edge);
                let row = pipeline.edge(edge);
                if row.loop_restart {
                    let context = path.context.clone();
                    return Err(StepResult::Restart { edge, context });
                }
                path.at.edge = Some(edge);
                return Ok(NextStep::Enter(row.to));
            }
            Next::Jump(target) => {
                path.at.edge = None;
                return Ok(NextStep::Enter(target));
            }
            Next::End { success: true } => {
                if path.branch.is_empty()
                    && let Some(target) = self.gates(path, stage.index())?
                {
                    path.at.edge = None;
                    return Ok(NextStep::Enter(target));
                }
                may_end(path, stage)?;
                return Err(StepResult::Ended(PathEnd::End));
            }
            Next::End { success: false } => RunFailure::FailureEnd {
                node: node(),
                reason: path.last_failure.clone(),
            },
            Next::Fail(RouteError::DeadEnd) => RunFailure::DeadEnd { node: node() },
            Next::Fail(RouteError::NoMatchingEdge) => RunFailure::NoMatchingEdge {
                node: node(),
                report: told,
            },
            Next::Fail(RouteError::StageFailed) => {
                let node = path
                    .last
                    .node
                    .map_or("", |node| pipeline.stage(node).id())
                    .to_owned();
                let reason = path.last.failure_reason.clone();
                match &*path.last.failure_code {
                    OUTPUT_PARSE => RunFailure::OutputParse { node, reason },
                    _ => RunFailure::StageFailed { node, reason },
                }
            }
        };
        Err(StepResult::Ended(PathEnd::Failed(failure)))
    }

    /// Counts that an edge was taken.
    pub(crate) fn take(&mut self, edge: EdgeIndex) {
        if let Some(taken) = self.totals.taken.get_mut(edge.at()) {
            *taken = taken.saturating_add(1);
        }
    }

    /// Returns a failure if an edge leads back to a visited node in first-match routing and does not allow it (rule
    /// R11).
    fn revisit(&mut self, path: &mut ExecutionPath, at: EdgeIndex) -> Option<RunFailure> {
        let edge = self.pipeline.edge(at);
        if self.pipeline.settings.routing != Routing::FirstMatch || path.visits.get(edge.to) == 0 {
            return None;
        }
        let id = |node: NodeIndex| self.pipeline.stage(node).id().to_owned();
        let taken = path.revisits.entry(at.0).or_default();
        if !edge.allow_revisit || edge.max_revisits.is_some_and(|limit| *taken >= limit) {
            return Some(RunFailure::CircularPipeline {
                from: id(edge.from),
                to: id(edge.to),
            });
        }
        *taken += 1;
        None
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
        self.tell(|| Observation::StageCancelled { id, index });
    }

    /// Emits an observation if somebody wants observations.
    pub(crate) fn tell(&mut self, observation: impl FnOnce() -> Observation) {
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

/// The records that a path has of stages, by their ids (rules F1, R13).
pub(crate) struct Records<'l> {
    pipeline: &'l Pipeline,
    path: &'l ExecutionPath,
}

impl<'l> Records<'l> {
    pub(crate) fn new(pipeline: &'l Pipeline, path: &'l ExecutionPath) -> Records<'l> {
        Records { pipeline, path }
    }
}

impl StageRecords for Records<'_> {
    fn visits(&self, node: &str) -> u32 {
        let node = self.pipeline.find(node);
        node.map_or(0, |node| self.path.visits.get(node))
    }

    fn outcome(&self, node: &str) -> Option<&str> {
        let status = self.path.outcomes.latest(self.pipeline.find(node)?);
        status.map(Status::word)
    }
}

/// Returns the facts that routing sees.
pub(crate) fn facts<'f>(
    pipeline: &'f Pipeline,
    path: &'f ExecutionPath,
    stage: Stage<'f>,
    records: &'f Records<'f>,
) -> Facts<'f> {
    let last = &path.last;
    Facts {
        outcome: last.status.word(),
        preferred_label: &last.preferred_label,
        failure_reason: &last.failure_reason,
        suggested_next_ids: &last.suggested_next_ids,
        current_node: stage.id(),
        last_stage: last.node.map_or("", |node| pipeline.stage(node).id()),
        context: &path.context,
        output: &last.output,
        stages: records,
    }
}

/// Records the outcome of a stage; a skipped stage leaves no record (Attractor 5.2).
fn record(path: &mut ExecutionPath, node: NodeIndex, status: Status, notes: Option<String>) {
    if status != Status::Skipped {
        let outcome = NodeOutcome {
            status,
            notes,
            visit: path.at.visit,
            branch: path.branch.clone(),
        };
        path.outcomes.set(node, outcome);
    }
}

/// Stores what routing sees of a stage (rule R4) and sets the context keys of the engine.
fn remember(pipeline: &Pipeline, path: &mut ExecutionPath, stage: Stage<'_>, outcome: &Outcome) {
    let ExecutionPath { context, last, .. } = path;
    // Unchanged values are not written again: most stages succeed, and few prefer a label.
    let first = last.node.is_none();
    if last.node != Some(stage.index()) {
        context.set_engine(EngineKey::LastStage, stage.id());
        last.node = Some(stage.index());
    }
    if first || last.status != outcome.status {
        context.set_engine(EngineKey::Outcome, outcome.status.word());
        last.status = outcome.status.clone();
    }
    let label = outcome.preferred_label.as_deref().unwrap_or_default();
    if first || !(label.is_empty() && last.preferred_label.is_empty()) {
        context.set_engine(EngineKey::PreferredLabel, label);
        label.clone_into(&mut last.preferred_label);
    }
    last.suggested_next_ids.clone_from(&outcome.suggested_next_ids);
    last.failure_reason.clear();
    last.failure_code.clear();
    if outcome.status == Status::Fail {
        last.failure_reason
            .push_str(outcome.failure_reason.as_deref().unwrap_or_default());
        last.failure_code
            .push_str(outcome.failure_code.as_deref().unwrap_or_default());
    }
    if pipeline.settings.routing == Routing::FirstMatch {
        last.output.clone_from(&outcome.context_updates);
    }
}

/// Returns `true` if the core itself decides the node's outcome: a start or exit of the built-in kind, or a routing
/// node.
fn decided_here(stage: Stage<'_>) -> bool {
    match stage.row().role {
        Role::Start => stage.kind() == kind::START,
        Role::Exit => stage.kind() == kind::EXIT,
        Role::Routing => true,
        Role::Work => false,
    }
}

/// Turns the outcome of an attempt that is not retried into the final outcome of the stage (rule Y5).
fn exhaust(stage: Stage<'_>, outcome: &mut Outcome) {
    let wanted = outcome.status == Status::Retry;
    if wanted {
        outcome
            .failure_reason
            .get_or_insert_with(|| "the stage asked for a retry, but none is left".to_owned());
    }
    let spent =
        outcome.failure_category == FailureCategory::Retryable && (wanted || stage.row().retry.attempts > 1);
    if stage.row().allow_partial && spent {
        outcome.status = Status::PartialSuccess;
        outcome
            .notes
            .get_or_insert_with(|| "retries exhausted, partial success accepted".to_owned());
    } else {
        outcome.status = Status::Fail;
    }
}

/// Returns the context key of a stage's retry count (Attractor 5.1).
pub(crate) fn retry_count_key(stage: Stage<'_>) -> String {
    ["internal.retry_count.", stage.id()].concat()
}

pub(crate) fn or_unsaid(reason: &str) -> &str {
    if reason.is_empty() {
        "no reason was given"
    } else {
        reason
    }
}

impl Context {
    /// Appends a text to a list; a value that is not a list is replaced.
    pub(crate) fn append(&mut self, key: &str, text: String) {
        let mut list = match self.get(key) {
            Some(Value::Array(list)) => list.clone(),
            _ => Vec::new(),
        };
        list.push(Value::String(text));
        self.set(key, Value::Array(list));
    }
}

/// Prevents the main path from ending successfully while its files are unfinished.
fn may_end(path: &ExecutionPath, stage: Stage<'_>) -> Result<(), StepResult> {
    match path.unfinished() {
        Some(open) if path.branch.is_empty() => Err(StepResult::Abort(RunFailure::StageFailed {
            node: stage.id().to_owned(),
            reason: open.to_owned(),
        })),
        _ => Ok(()),
    }
}
