//! The state machine: what comes next, and nothing else. No I/O, no clock, no chance (architecture 6).

use std::ops::Deref;
use std::sync::Arc;

use orchestra_graph::condition::Facts;
use orchestra_graph::table::{Constant, Routing};
use orchestra_graph::{EdgeIndex, Next, NodeIndex, Pipeline, Role, RouteFault, Stage, kind, route};
use serde_json::Value;

use crate::context::Context;
use crate::effect::{Effect, EffectId, Event, Observation};
use crate::failure::RunFailure;
use crate::outcome::{FailureCategory, Outcome, Status};
use crate::state::{Failing, Last, NodeOutcome, Phase, State};

/// A pipeline that many runs share: constant data of the program, or loaded.
#[derive(Clone, Debug)]
pub enum SharedPipeline {
    /// Constant data of the program.
    Static(&'static Pipeline),
    /// Loaded at run time.
    Loaded(Arc<Pipeline>),
}

impl Deref for SharedPipeline {
    type Target = Pipeline;

    fn deref(&self) -> &Pipeline {
        match self {
            SharedPipeline::Static(pipeline) => pipeline,
            SharedPipeline::Loaded(pipeline) => pipeline,
        }
    }
}

impl From<&'static Pipeline> for SharedPipeline {
    fn from(pipeline: &'static Pipeline) -> SharedPipeline {
        SharedPipeline::Static(pipeline)
    }
}

impl From<Pipeline> for SharedPipeline {
    fn from(pipeline: Pipeline) -> SharedPipeline {
        SharedPipeline::Loaded(Arc::new(pipeline))
    }
}

impl From<Arc<Pipeline>> for SharedPipeline {
    fn from(pipeline: Arc<Pipeline>) -> SharedPipeline {
        SharedPipeline::Loaded(pipeline)
    }
}

/// The run of a pipeline. Events go in, effects come out; the same events always give the same effects.
///
/// ```
/// use orchestra_core::{Context, Effect, Event, Machine, Outcome};
/// use orchestra_graph::{LoadOptions, Source, load};
///
/// let text = "digraph a { start -> work -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let mut effects = Vec::new();
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut effects);
/// let Some(Effect::RunNode { id, .. }) = effects.pop() else { panic!("the first stage is to run") };
/// machine.on(Event::NodeFinished { id, outcome: Outcome::success() }, &mut effects);
/// assert!(matches!(effects.last(), Some(Effect::Finish { failure: None })));
/// ```
#[derive(Clone, Debug)]
pub struct Machine {
    pipeline: SharedPipeline,
    state: State,
}

impl Machine {
    /// Starts a run: the graph's attributes are mirrored into the context as `graph.*`, and the first effects given.
    pub fn start(
        pipeline: impl Into<SharedPipeline>,
        mut context: Context,
        seed: u64,
        effects: &mut Vec<Effect>,
    ) -> Machine {
        let pipeline = pipeline.into();
        for row in pipeline.attributes(pipeline.graph_attributes) {
            context.set(format!("graph.{}", row.key), mirror(&row.value));
        }
        if pipeline.attribute("goal").is_none() {
            context.set("graph.goal", "");
        }
        let state = State::new(pipeline.nodes.len(), context, seed);
        let mut machine = Machine { pipeline, state };
        let start = machine.pipeline.start;
        machine.enter(start, effects);
        machine
    }

    /// Takes one event. An event that fits no pending effect, such as a late answer, changes nothing.
    pub fn on(&mut self, event: Event, effects: &mut Vec<Effect>) {
        match (event, self.state.phase) {
            (Event::NodeFinished { id, outcome }, Phase::Running(pending)) if pending == id => {
                self.finished(id, outcome, effects);
            }
            (Event::CancelRequested { reason }, Phase::Running(id)) => {
                effects.push(Effect::CancelEffect { id });
                self.fail(RunFailure::Cancelled { reason }, effects);
            }
            _ => {}
        }
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &SharedPipeline {
        &self.pipeline
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Goes to a node, and through routing nodes, until something must be waited for.
    fn enter(&mut self, node: NodeIndex, effects: &mut Vec<Effect>) {
        let mut node = node;
        loop {
            if let Some(failure) = self.visit(node) {
                return self.fail(failure, effects);
            }
            let pipeline = self.pipeline.clone();
            let stage = pipeline.stage(node);
            let visit = self.state.visits[node.at()];
            let id = EffectId {
                node,
                visit,
                attempt: 1,
            };
            let index = self.state.begun;
            self.state.begun += 1;
            self.state.context.set_engine("current_node", stage.id());
            effects.push(Effect::Observe(Observation::StageStarted { id, index }));
            if !decided_here(stage) {
                self.state.phase = Phase::Running(id);
                effects.push(Effect::RunNode {
                    id,
                    context: self.state.context.clone(),
                });
                return;
            }
            self.state.path.push(node);
            if stage.row().role != Role::Routing {
                self.record(node, &Outcome::success());
                self.remember(stage, &Outcome::success());
            }
            let outcome = Outcome::success();
            effects.push(Effect::Observe(Observation::StageCompleted {
                id,
                index,
                outcome,
            }));
            if stage.row().role == Role::Exit {
                self.state.phase = Phase::Finished;
                effects.push(Effect::Finish { failure: None });
                return;
            }
            match self.choose(stage, effects) {
                Some(target) => node = target,
                None => return,
            }
        }
    }

    /// Counts a visit, unless it is one too many (rule R10).
    fn visit(&mut self, node: NodeIndex) -> Option<RunFailure> {
        let row = self.pipeline.stage(node).row();
        let visits = &mut self.state.visits[node.at()];
        let (limit, attribute) = match row.max_visits {
            Some(limit) => (limit, "max_visits"),
            None => (self.pipeline.settings.max_node_visits, "max_node_visits"),
        };
        if *visits >= limit {
            return Some(RunFailure::MaxVisits {
                node: row.id.to_string(),
                limit,
                attribute: attribute.to_owned(),
            });
        }
        *visits += 1;
        None
    }

    fn finished(&mut self, id: EffectId, outcome: Outcome, effects: &mut Vec<Effect>) {
        let pipeline = self.pipeline.clone();
        let stage = pipeline.stage(id.node);
        let index = self.state.begun - 1;
        let outcome = exhausted(stage, outcome);
        self.state.path.push(id.node);
        self.record(id.node, &outcome);
        for (key, value) in &outcome.context_updates {
            self.state.context.set(key.as_str(), value.clone());
        }
        self.remember(stage, &outcome);
        let category = outcome.failure_category;
        if outcome.status == Status::Fail {
            let reason = outcome.failure_reason.clone().unwrap_or_default();
            effects.push(Effect::Observe(Observation::StageFailed {
                id,
                index,
                outcome,
                will_retry: false,
            }));
            if let Some(failure) = self.breaker(stage, &reason) {
                return self.fail(failure, effects);
            }
            if category == FailureCategory::Pipeline {
                return self.fail(
                    RunFailure::StageFailed {
                        node: stage.id().to_owned(),
                        reason,
                    },
                    effects,
                );
            }
        } else {
            self.state.failing.retain(|failing| failing.node != id.node);
            effects.push(Effect::Observe(Observation::StageCompleted {
                id,
                index,
                outcome,
            }));
        }
        if stage.row().role == Role::Exit {
            self.state.phase = Phase::Finished;
            effects.push(Effect::Finish { failure: None });
            return;
        }
        if let Some(target) = self.choose(stage, effects) {
            self.enter(target, effects);
        }
    }

    /// Counts equal failures of a stage, one after the other (rule R10).
    fn breaker(&mut self, stage: Stage<'_>, reason: &str) -> Option<RunFailure> {
        let limit = self.pipeline.settings.failure_breaker;
        let node = stage.index();
        let count = match self.state.failing.iter_mut().find(|failing| failing.node == node) {
            Some(failing) if failing.reason == reason => {
                failing.count += 1;
                failing.count
            }
            Some(failing) => {
                *failing = Failing {
                    node,
                    reason: reason.to_owned(),
                    count: 1,
                };
                1
            }
            None => {
                self.state.failing.push(Failing {
                    node,
                    reason: reason.to_owned(),
                    count: 1,
                });
                1
            }
        };
        (limit > 0 && count >= limit).then(|| RunFailure::FailureBreaker {
            node: stage.id().to_owned(),
            reason: reason.to_owned(),
            count,
        })
    }

    /// Keeps a stage's outcome for the record; a skipped stage leaves none (Attractor 5.2).
    fn record(&mut self, node: NodeIndex, outcome: &Outcome) {
        if outcome.status != Status::Skipped {
            let notes = outcome.notes.clone().or_else(|| outcome.failure_reason.clone());
            self.state.outcomes[node.at()] = Some(NodeOutcome {
                status: outcome.status.clone(),
                notes,
            });
        }
    }

    /// Keeps what routing sees of a stage (rule R4) and sets the engine's own context keys.
    fn remember(&mut self, stage: Stage<'_>, outcome: &Outcome) {
        let context = &mut self.state.context;
        context.set_engine("outcome", outcome.status.word());
        context.set_engine(
            "preferred_label",
            outcome.preferred_label.as_deref().unwrap_or_default(),
        );
        context.set_engine("last_stage", stage.id());
        let output = match self.pipeline.settings.routing {
            Routing::FirstMatch => outcome.context_updates.clone(),
            Routing::FiveStep => Default::default(),
        };
        self.state.last = Last {
            node: Some(stage.index()),
            status: outcome.status.clone(),
            preferred_label: outcome.preferred_label.clone().unwrap_or_default(),
            suggested_next_ids: outcome.suggested_next_ids.clone(),
            failure_reason: match outcome.status {
                Status::Fail => outcome.failure_reason.clone().unwrap_or_default(),
                _ => String::new(),
            },
            output,
        };
    }

    /// Asks the router and follows it; `None` where the run has ended.
    fn choose(&mut self, stage: Stage<'_>, effects: &mut Vec<Effect>) -> Option<NodeIndex> {
        let last = &self.state.last;
        let last_stage = last.node.map_or("", |node| self.pipeline.stage(node).id());
        let facts = Facts {
            outcome: last.status.word(),
            preferred_label: &last.preferred_label,
            failure_reason: &last.failure_reason,
            suggested_next_ids: &last.suggested_next_ids,
            current_node: stage.id(),
            last_stage,
            context: &self.state.context,
            output: &last.output,
        };
        let decision = route(&self.pipeline, stage.index(), &facts);
        let next = decision.next;
        let told = match next {
            Next::Fail(RouteFault::NoMatchingEdge) => decision.describe(&self.pipeline, stage.index()),
            _ => String::new(),
        };
        effects.push(Effect::Observe(Observation::Routed {
            from: stage.index(),
            decision,
        }));
        let failure = match next {
            Next::Edge(edge) => match self.revisit(edge) {
                None => return Some(self.pipeline.edge(edge).to),
                Some(failure) => failure,
            },
            Next::Jump(target) => return Some(target),
            Next::End { success: true } => {
                self.state.phase = Phase::Finished;
                effects.push(Effect::Finish { failure: None });
                return None;
            }
            Next::End { success: false } => RunFailure::FailureEnd {
                node: stage.id().to_owned(),
                reason: self.state.last.failure_reason.clone(),
            },
            Next::Fail(RouteFault::DeadEnd) => RunFailure::DeadEnd {
                node: stage.id().to_owned(),
            },
            Next::Fail(RouteFault::NoMatchingEdge) => RunFailure::NoMatchingEdge {
                node: stage.id().to_owned(),
                report: told,
            },
            Next::Fail(RouteFault::StageFailed) => {
                let reason = self.state.last.failure_reason.clone();
                RunFailure::StageFailed {
                    node: last_stage.to_owned(),
                    reason,
                }
            }
        };
        self.fail(failure, effects);
        None
    }

    /// Refuses to go back in first-match routing, unless the edge allows it (rule R11).
    fn revisit(&mut self, at: EdgeIndex) -> Option<RunFailure> {
        let edge = self.pipeline.edge(at);
        if self.pipeline.settings.routing != Routing::FirstMatch || self.state.visits[edge.to.at()] == 0 {
            return None;
        }
        let id = |node: NodeIndex| self.pipeline.stage(node).id().to_owned();
        let taken = self.state.revisits.entry(at.0).or_default();
        if !edge.allow_revisit || edge.max_revisits.is_some_and(|limit| *taken >= limit) {
            return Some(RunFailure::CircularPipeline {
                from: id(edge.from),
                to: id(edge.to),
            });
        }
        *taken += 1;
        None
    }

    fn fail(&mut self, failure: RunFailure, effects: &mut Vec<Effect>) {
        self.state.phase = Phase::Finished;
        effects.push(Effect::Finish {
            failure: Some(failure),
        });
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

/// What an outcome is when no attempt is left (rule Y5).
fn exhausted(stage: Stage<'_>, mut outcome: Outcome) -> Outcome {
    if outcome.status == Status::Retry {
        outcome.status = if stage.flag("allow_partial") {
            Status::PartialSuccess
        } else {
            Status::Fail
        };
        outcome
            .failure_reason
            .get_or_insert_with(|| "the stage asked for a retry, but none is left".to_owned());
    }
    outcome
}

/// A graph attribute as a context value.
fn mirror(value: &Constant) -> Value {
    match value {
        Constant::String(text) => Value::String(text.to_string()),
        Constant::Integer(number) => (*number).into(),
        Constant::Float(number) => (*number).into(),
        Constant::Boolean(value) => (*value).into(),
        Constant::Duration(_) => Value::String(value.to_value().to_string()),
    }
}
