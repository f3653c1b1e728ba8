//! One line of a run, from stage to stage: the main line, or a branch of a parallel block.

use orchestra_graph::condition::{Facts, StageRecords};
use orchestra_graph::table::Routing;
use orchestra_graph::{EdgeIndex, Next, NodeIndex, Pipeline, Role, RouteFault, Stage, kind, route};
use serde_json::Value;

use crate::context::{Context, EngineKey};
use crate::effect::{Effect, EffectId, Observation};
use crate::failure::RunFailure;
use crate::outcome::{FailureCategory, Outcome, Status};
use crate::retry;
use crate::state::{AttemptError, Failing, Line, NodeOutcome, Phase, Totals};

/// The code of a failure to find the declared output in a response (rule R11).
const OUTPUT_PARSE: &str = "output_parse";

/// What a line does next.
pub(crate) enum Move {
    /// Goes to a node.
    Enter(NodeIndex),
    /// Makes an attempt at the node where it is.
    Attempt,
    /// Takes the outcome of the attempt.
    Ended(Outcome),
    /// Chooses the way on from the node where it is.
    Choose,
}

/// Where a line is when it can go no further by itself.
pub(crate) enum Flow {
    /// It waits for an event.
    Wait,
    /// It has ended.
    Ended(LineEnd),
    /// It ends the run.
    Abort(RunFailure),
    /// It begins the run anew.
    Restart {
        /// The edge that says so.
        edge: EdgeIndex,
        /// The context of which some keys are kept.
        context: Context,
    },
}

/// How a line ended.
pub(crate) enum LineEnd {
    /// It came to the join of its block.
    Joined,
    /// It came to the exit, or to another end that counts as one.
    End,
    /// Nothing takes a failure.
    Failed(RunFailure),
}

/// One call of the machine: the pipeline can be read while the state changes.
pub(crate) struct Step<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) totals: &'a mut Totals,
    pub(crate) observed: bool,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl<'a> Step<'a> {
    /// Goes on until something must be waited for.
    pub(crate) fn go(&mut self, line: &mut Line, next_move: Move) -> Flow {
        let mut next = Ok(next_move);
        loop {
            next = match next {
                Ok(Move::Enter(node)) => self.enter(line, node),
                Ok(Move::Attempt) => self.attempt(line),
                Ok(Move::Ended(outcome)) => self.ended(line, outcome),
                Ok(Move::Choose) => self.choose(line),
                Err(flow) => return flow,
            };
        }
    }

    /// Takes the outcome of an attempt, and goes on.
    pub(crate) fn finish(&mut self, line: &mut Line, outcome: Outcome) -> Flow {
        match self.ended(line, outcome) {
            Ok(next_move) => self.go(line, next_move),
            Err(flow) => flow,
        }
    }

    /// Acts on the line that waits for an effect, and on the blocks around it.
    pub(crate) fn deliver(
        &mut self,
        line: &mut Line,
        id: &EffectId,
        depth: usize,
        act: &mut dyn FnMut(&mut Step<'_>, &mut Line) -> Flow,
    ) -> Flow {
        let Some(step) = id.branch.steps().get(depth) else {
            let here = (line.at.node, line.at.visit, line.at.attempt);
            return if here == (id.node, id.visit, id.attempt) {
                act(self, line)
            } else {
                Flow::Wait
            };
        };
        let here = (line.at.node, line.at.visit, line.at.attempt);
        let Phase::Parallel(block) = &mut line.phase else {
            return Flow::Wait;
        };
        let Some(place) = block
            .place(step.edge)
            .filter(|_| here == (step.fan_out, step.visit, step.attempt))
        else {
            return Flow::Wait;
        };
        let Some(branch) = block.running_mut(place) else {
            return Flow::Wait;
        };
        match self.deliver(branch, id, depth + 1, act) {
            Flow::Ended(end) => match self.branch_ended(line, place, end) {
                Ok(next_move) => self.go(line, next_move),
                Err(flow) => flow,
            },
            other => other,
        }
    }

    /// Goes to a node, unless the line ends there.
    fn enter(&mut self, line: &mut Line, node: NodeIndex) -> Result<Move, Flow> {
        let stage = self.pipeline.stage(node);
        if !line.branch.is_empty() {
            if let Some(end) = self.leaves(line, stage) {
                return Err(Flow::Ended(end));
            }
        } else if stage.row().role == Role::Exit
            && let Some(target) = self.gates(line, node)?
        {
            line.at.edge = None;
            return Ok(Move::Enter(target));
        }
        self.visit(line, stage)?;
        Ok(self.arrive(line, stage))
    }

    /// Begins a visit that was counted.
    fn arrive(&mut self, line: &mut Line, stage: Stage<'_>) -> Move {
        line.passes_join(stage.id());
        line.at.node = stage.index();
        line.at.visit = line.visits.get(stage.index());
        line.at.attempt = 1;
        line.at.index = self.totals.begun;
        self.totals.begun += 1;
        line.context.set_engine(EngineKey::CurrentNode, stage.id());
        Move::Attempt
    }

    /// Takes up a line of a run that failed: by a new visit of a node, or at the edges of one (rule D9).
    pub(crate) fn retry(&mut self, line: &mut Line, node: NodeIndex, from_edges: bool) -> Flow {
        let stage = self.pipeline.stage(node);
        line.failing.retain(|failing| failing.node != node);
        line.at.edge = None;
        if from_edges {
            line.at.node = node;
            return self.go(line, Move::Choose);
        }
        if stage.row().role == Role::Exit {
            return self.go(line, Move::Enter(node));
        }
        // A visit that somebody asks for is not refused for being one too many.
        line.visits.add(node, 1);
        let next = self.arrive(line, stage);
        self.go(line, next)
    }

    /// How a branch ends before a node; `None` where it goes on into it.
    fn leaves(&self, line: &Line, stage: Stage<'_>) -> Option<LineEnd> {
        for step in line.branch.steps() {
            let fan_out = self.pipeline.stage(step.fan_out);
            if fan_out
                .row()
                .fan_out
                .is_some_and(|fan_out| fan_out.join == stage.index())
            {
                return Some(LineEnd::Joined);
            }
            if step.fan_out == stage.index() {
                return Some(LineEnd::Failed(RunFailure::BranchReentry {
                    from: self.pipeline.stage(line.at.node).id().to_owned(),
                    to: stage.id().to_owned(),
                }));
            }
        }
        (stage.row().role == Role::Exit).then_some(LineEnd::End)
    }

    /// Counts a visit, unless it is one too many (rule R10).
    fn visit(&mut self, line: &mut Line, stage: Stage<'_>) -> Result<(), Flow> {
        let row = stage.row();
        if stage.index().at() >= self.pipeline.nodes.len() {
            return Err(Flow::Abort(RunFailure::InvalidTransition {
                from: self.pipeline.stage(line.at.node).id().to_owned(),
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
        if line.visits.get(stage.index()) >= limit {
            return Err(Flow::Abort(RunFailure::MaxVisits {
                node: row.id.to_string(),
                limit,
                attribute: attribute.to_owned(),
            }));
        }
        line.visits.add(stage.index(), 1);
        Ok(())
    }

    /// Begins an attempt at the node where the line is.
    fn attempt(&mut self, line: &mut Line) -> Result<Move, Flow> {
        let stage = self.pipeline.stage(line.at.node);
        let index = line.at.index;
        let restarts = self.totals.restarts;
        if decided_here(stage) {
            self.tell(|| Observation::StageStarted {
                id: line.id(restarts),
                index,
            });
            return self.decided(line, stage);
        }
        let id = line.id(restarts);
        self.tell(|| Observation::StageStarted {
            id: id.clone(),
            index,
        });
        if let Some(fan_out) = stage.row().fan_out {
            return self.fork(line, id, fan_out);
        }
        if stage.kind() == kind::WAIT_HUMAN {
            return self.ask(line, id);
        }
        line.phase = Phase::Running;
        self.effects.push(Effect::RunNode {
            id,
            context: line.context.clone(),
        });
        Err(Flow::Wait)
    }

    /// A node whose outcome the core itself knows.
    fn decided(&mut self, line: &mut Line, stage: Stage<'_>) -> Result<Move, Flow> {
        let role = stage.row().role;
        if role == Role::Exit {
            may_end(line, stage)?;
        }
        line.path.push(stage.index());
        if role != Role::Routing {
            remember(self.pipeline, line, stage, &Outcome::success());
            record(line, stage.index(), Status::Success, None);
        }
        let restarts = self.totals.restarts;
        self.tell(|| Observation::StageCompleted {
            id: line.id(restarts),
            index: line.at.index,
            outcome: Outcome::success(),
        });
        if role == Role::Exit {
            return Err(Flow::Ended(LineEnd::End));
        }
        Ok(Move::Choose)
    }

    /// Takes the outcome of an attempt: another one, or the way on.
    fn ended(&mut self, line: &mut Line, mut outcome: Outcome) -> Result<Move, Flow> {
        line.phase = Phase::Idle;
        line.progress = None;
        let stage = self.pipeline.stage(line.at.node);
        let index = line.at.index;
        if matches!(outcome.status, Status::Fail | Status::Retry) {
            self.failed_attempt(line, stage, &outcome);
            let again = outcome.failure_category == FailureCategory::Retryable
                && line.at.attempt < stage.row().retry.attempts
                && stage.row().role != Role::Routing;
            if again {
                return Err(self.again(line, stage, outcome));
            }
            exhaust(stage, &mut outcome);
        }
        // The count may be that of an earlier visit, whose attempts all failed.
        if stage.row().retry.attempts > 1 && outcome.status != Status::Fail {
            line.context.remove(&retry_count_key(stage));
        }
        line.path.push(line.at.node);
        if let Some(updates) = &mut line.updates {
            updates.extend(
                outcome
                    .context_updates
                    .iter()
                    .map(|(key, value)| (key.clone(), value.clone())),
            );
        }
        // An outcome that nobody wants to see afterwards gives its parts away instead of copies.
        let wanted = self.observed || self.pipeline.settings.routing == Routing::FirstMatch;
        let notes = if wanted {
            for (key, value) in &outcome.context_updates {
                line.context.update(key, value.clone());
            }
            outcome.notes.clone().or_else(|| outcome.failure_reason.clone())
        } else {
            for (key, value) in std::mem::take(&mut outcome.context_updates) {
                line.context.update(&key, value);
            }
            outcome.notes.take().or_else(|| outcome.failure_reason.clone())
        };
        remember(self.pipeline, line, stage, &outcome);
        record(line, line.at.node, outcome.status.clone(), notes);
        let failed = outcome.status == Status::Fail;
        if failed {
            let reason = outcome.failure_reason.clone().unwrap_or_default();
            let output = outcome.output_digest.clone();
            let id = line.id(self.totals.restarts);
            line.last_failure = format!("stage `{}` failed: {}", stage.id(), or_unsaid(&reason));
            self.tell(|| Observation::StageFailed {
                id,
                index,
                outcome,
                will_retry: false,
            });
            if let Some(failure) = self.breaker(line, stage, &reason, output) {
                return Err(Flow::Abort(failure));
            }
        } else {
            if !line.failing.is_empty() {
                line.failing.retain(|failing| failing.node != stage.index());
            }
            if self.observed {
                let id = line.id(self.totals.restarts);
                self.tell(|| Observation::StageCompleted { id, index, outcome });
            }
        }
        // An exit with a handler of its own may fail like any other stage (rule R3).
        if stage.row().role == Role::Exit && !failed {
            may_end(line, stage)?;
            return Err(Flow::Ended(LineEnd::End));
        }
        Ok(Move::Choose)
    }

    /// Keeps the reason of a failed attempt (rule Y7).
    fn failed_attempt(&mut self, line: &mut Line, stage: Stage<'_>, outcome: &Outcome) {
        let reason = outcome.failure_reason.clone().unwrap_or_default();
        let told = format!("{}: {}", stage.id(), or_unsaid(&reason));
        line.context.append("error_history", told);
        line.errors.push(AttemptError {
            node: stage.index(),
            visit: line.at.visit,
            attempt: line.at.attempt,
            reason,
        });
    }

    /// Waits for the next attempt (rule Y4).
    fn again(&mut self, line: &mut Line, stage: Stage<'_>, outcome: Outcome) -> Flow {
        let index = line.at.index;
        let policy = &stage.row().retry;
        let failed = line.id(self.totals.restarts);
        let delay = retry::delay(policy, self.totals.seed, &failed, outcome.retry_after);
        self.tell(|| Observation::StageFailed {
            id: failed,
            index,
            outcome,
            will_retry: true,
        });
        *line.retries.entry(line.at.node.0).or_default() += 1;
        line.context.set(retry_count_key(stage), line.at.attempt);
        line.at.attempt += 1;
        let id = line.id(self.totals.restarts);
        self.tell(|| Observation::StageRetrying {
            id: id.clone(),
            index,
            attempts: policy.attempts,
            delay,
        });
        line.phase = Phase::BackOff;
        line.at.delay = delay;
        self.effects.push(Effect::StartTimer { id, delay });
        Flow::Wait
    }

    /// Counts equal failures of a stage, one after the other (rule R10).
    fn breaker(
        &mut self,
        line: &mut Line,
        stage: Stage<'_>,
        reason: &str,
        output: Option<String>,
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
        match line.failing.iter_mut().find(|failing| failing.node == node) {
            Some(known) => {
                if known.reason == failing.reason && known.output == failing.output {
                    failing.count += known.count;
                }
                *known = failing.clone();
            }
            None => line.failing.push(failing.clone()),
        }
        (failing.count >= limit).then(|| RunFailure::FailureBreaker {
            node: stage.id().to_owned(),
            reason: failing.reason,
            count: failing.count,
        })
    }

    /// Asks the router and follows it.
    fn choose(&mut self, line: &mut Line) -> Result<Move, Flow> {
        let pipeline = self.pipeline;
        let stage = pipeline.stage(line.at.node);
        let records = Records::new(pipeline, line);
        let decision = route(pipeline, stage.index(), &facts(pipeline, line, stage, &records));
        let next = decision.next;
        let told = match next {
            Next::Fail(RouteFault::NoMatchingEdge) => decision.describe(pipeline, stage.index()),
            _ => String::new(),
        };
        self.tell(|| Observation::Routed {
            branch: line.branch.clone(),
            from: stage.index(),
            decision,
        });
        let node = || stage.id().to_owned();
        let failure = match next {
            Next::Edge(edge) => {
                if let Some(failure) = self.revisit(line, edge) {
                    return Err(Flow::Ended(LineEnd::Failed(failure)));
                }
                self.take(edge);
                let row = pipeline.edge(edge);
                if row.loop_restart {
                    let context = line.context.clone();
                    return Err(Flow::Restart { edge, context });
                }
                line.at.edge = Some(edge);
                return Ok(Move::Enter(row.to));
            }
            Next::Jump(target) => {
                line.at.edge = None;
                return Ok(Move::Enter(target));
            }
            Next::End { success: true } => {
                if line.branch.is_empty()
                    && let Some(target) = self.gates(line, stage.index())?
                {
                    line.at.edge = None;
                    return Ok(Move::Enter(target));
                }
                may_end(line, stage)?;
                return Err(Flow::Ended(LineEnd::End));
            }
            Next::End { success: false } => RunFailure::FailureEnd {
                node: node(),
                reason: line.last_failure.clone(),
            },
            Next::Fail(RouteFault::DeadEnd) => RunFailure::DeadEnd { node: node() },
            Next::Fail(RouteFault::NoMatchingEdge) => RunFailure::NoMatchingEdge {
                node: node(),
                report: told,
            },
            Next::Fail(RouteFault::StageFailed) => {
                let node = line
                    .last
                    .node
                    .map_or("", |node| pipeline.stage(node).id())
                    .to_owned();
                let reason = line.last.failure_reason.clone();
                match &*line.last.failure_code {
                    OUTPUT_PARSE => RunFailure::OutputParse { node, reason },
                    _ => RunFailure::StageFailed { node, reason },
                }
            }
        };
        Err(Flow::Ended(LineEnd::Failed(failure)))
    }

    /// Counts that an edge was taken.
    pub(crate) fn take(&mut self, edge: EdgeIndex) {
        if let Some(taken) = self.totals.taken.get_mut(edge.at()) {
            *taken = taken.saturating_add(1);
        }
    }

    /// Refuses to go back in first-match routing, unless the edge allows it (rule R11).
    fn revisit(&mut self, line: &mut Line, at: EdgeIndex) -> Option<RunFailure> {
        let edge = self.pipeline.edge(at);
        if self.pipeline.settings.routing != Routing::FirstMatch || line.visits.get(edge.to) == 0 {
            return None;
        }
        let id = |node: NodeIndex| self.pipeline.stage(node).id().to_owned();
        let taken = line.revisits.entry(at.0).or_default();
        if !edge.allow_revisit || edge.max_revisits.is_some_and(|limit| *taken >= limit) {
            return Some(RunFailure::CircularPipeline {
                from: id(edge.from),
                to: id(edge.to),
            });
        }
        *taken += 1;
        None
    }

    /// Stops everything that a line waits for; its state can still be read.
    pub(crate) fn cancel(&mut self, line: &mut Line) {
        let timed = match &mut line.phase {
            Phase::Idle => return,
            Phase::Parallel(block) => {
                block.running_lines_mut().for_each(|branch| self.cancel(branch));
                block.is_timed()
            }
            phase => {
                *phase = Phase::Idle;
                true
            }
        };
        if timed {
            let id = line.id(self.totals.restarts);
            self.effects.push(Effect::CancelEffect { id });
        }
        let id = line.id(self.totals.restarts);
        let index = line.at.index;
        self.tell(|| Observation::StageCancelled { id, index });
    }

    /// Makes an observation, if anybody wants one.
    pub(crate) fn tell(&mut self, observation: impl FnOnce() -> Observation) {
        if self.observed {
            self.effects.push(Effect::Observe(observation()));
        }
    }
}

/// A closure that is called once, in the form of one that may be called often: one type for lines at every depth.
pub(crate) fn once<'f>(
    act: impl FnOnce(&mut Step<'_>, &mut Line) -> Flow + 'f,
) -> impl FnMut(&mut Step<'_>, &mut Line) -> Flow + 'f {
    let mut act = Some(act);
    move |step, line| match act.take() {
        Some(act) => act(step, line),
        None => Flow::Wait,
    }
}

/// What a line knows of stages by their ids (rules F1, R13).
pub(crate) struct Records<'l> {
    pipeline: &'l Pipeline,
    line: &'l Line,
}

impl<'l> Records<'l> {
    pub(crate) fn new(pipeline: &'l Pipeline, line: &'l Line) -> Records<'l> {
        Records { pipeline, line }
    }
}

impl StageRecords for Records<'_> {
    fn visits(&self, node: &str) -> u32 {
        let node = self.pipeline.find(node);
        node.map_or(0, |node| self.line.visits.get(node))
    }

    fn outcome(&self, node: &str) -> Option<&str> {
        let status = self.line.outcomes.latest(self.pipeline.find(node)?);
        status.map(Status::word)
    }
}

/// What routing sees.
pub(crate) fn facts<'f>(
    pipeline: &'f Pipeline,
    line: &'f Line,
    stage: Stage<'f>,
    records: &'f Records<'f>,
) -> Facts<'f> {
    let last = &line.last;
    Facts {
        outcome: last.status.word(),
        preferred_label: &last.preferred_label,
        failure_reason: &last.failure_reason,
        suggested_next_ids: &last.suggested_next_ids,
        current_node: stage.id(),
        last_stage: last.node.map_or("", |node| pipeline.stage(node).id()),
        context: &line.context,
        output: &last.output,
        stages: records,
    }
}

/// Keeps a stage's outcome for the record; a skipped stage leaves none (Attractor 5.2).
fn record(line: &mut Line, node: NodeIndex, status: Status, notes: Option<String>) {
    if status != Status::Skipped {
        let outcome = NodeOutcome {
            status,
            notes,
            visit: line.at.visit,
            branch: line.branch.clone(),
        };
        line.outcomes.set(node, outcome);
    }
}

/// Keeps what routing sees of a stage (rule R4) and sets the engine's own context keys.
fn remember(pipeline: &Pipeline, line: &mut Line, stage: Stage<'_>, outcome: &Outcome) {
    let Line { context, last, .. } = line;
    // What is as it was is not written again: most stages succeed, and few prefer a label.
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

/// Whether the core itself decides the node's outcome: start, exit and routing nodes of the built-in kinds.
fn decided_here(stage: Stage<'_>) -> bool {
    match stage.row().role {
        Role::Start => stage.kind() == kind::START,
        Role::Exit => stage.kind() == kind::EXIT,
        Role::Routing => true,
        Role::Work => false,
    }
}

/// What an attempt's failure is when no other attempt follows (rule Y5).
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

/// The context key of a stage's retries (Attractor 5.1).
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
    /// Adds a text to a list.
    pub(crate) fn append(&mut self, key: &str, text: String) {
        let mut list = match self.get(key) {
            Some(Value::Array(list)) => list.clone(),
            _ => Vec::new(),
        };
        list.push(Value::String(text));
        self.set(key, Value::Array(list));
    }
}

/// Keeps the run from ending as if all were well while its files are not.
fn may_end(line: &Line, stage: Stage<'_>) -> Result<(), Flow> {
    match line.unfinished() {
        Some(open) if line.branch.is_empty() => Err(Flow::Abort(RunFailure::StageFailed {
            node: stage.id().to_owned(),
            reason: open.to_owned(),
        })),
        _ => Ok(()),
    }
}
