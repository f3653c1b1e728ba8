//! Drives the real machine by a script, and writes down what it does.

use std::collections::BTreeMap;

use orchestra_core::{
    Context, Effect, EffectId, Event, Machine, Observation, Outcome, RunFailure, SharedPipeline, Status,
};
use orchestra_graph::{Decision, Next, NodeIndex, Pipeline, RouteFault};

use crate::description::{Script, ScriptedOutcome};
use crate::trace::{End, Step, Trace, Way};

/// Everything that went in and came out of a machine in one run.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The machine after the run.
    pub machine: Machine,
    /// The effects of the start.
    pub first: Vec<Effect>,
    /// Every event, with the effects that answered it.
    pub turns: Vec<(Event, Vec<Effect>)>,
}

/// Runs a pipeline by a script to its end.
pub fn record(pipeline: impl Into<SharedPipeline>, script: &Script) -> Recording {
    let mut first = Vec::new();
    let mut machine = Machine::start(pipeline, Context::new(), 0, &mut first);
    let mut turns: Vec<(Event, Vec<Effect>)> = Vec::new();
    let mut pending = waiting(&first);
    while let Some(id) = pending {
        let node = machine.pipeline().stage(id.node).id().to_owned();
        let outcome = outcome(script.outcome(&node, id.visit as usize - 1));
        let event = Event::NodeFinished { id, outcome };
        let mut effects = Vec::new();
        machine.on(event.clone(), &mut effects);
        pending = waiting(&effects);
        turns.push((event, effects));
    }
    Recording {
        machine,
        first,
        turns,
    }
}

/// The trace of a pipeline that runs by a script.
pub fn trace_of(pipeline: impl Into<SharedPipeline>, script: &Script) -> Trace {
    record(pipeline, script).trace()
}

/// The stage that the machine asks to be run.
fn waiting(effects: &[Effect]) -> Option<EffectId> {
    effects.iter().find_map(|effect| match effect {
        Effect::RunNode { id, .. } => Some(*id),
        _ => None,
    })
}

/// A scripted outcome as the machine takes it.
pub fn outcome(said: ScriptedOutcome) -> Outcome {
    let mut outcome = Outcome::new(Status::of(&said.word));
    let filled = |text: String| Some(text).filter(|text| !text.is_empty());
    outcome.preferred_label = filled(said.preferred_label);
    outcome.suggested_next_ids = said.suggested;
    outcome.context_updates = said.updates;
    outcome.failure_reason = filled(said.reason);
    outcome
}

impl Recording {
    /// The effects of the whole run, in order.
    pub fn effects(&self) -> impl Iterator<Item = &Effect> {
        self.first
            .iter()
            .chain(self.turns.iter().flat_map(|(_, effects)| effects))
    }

    /// The run in words.
    pub fn trace(&self) -> Trace {
        let pipeline = self.machine.pipeline();
        let id = |node: NodeIndex| pipeline.stage(node).id().to_owned();
        let mut steps = Vec::new();
        let mut end = End::Other("the run did not end".to_owned());
        let mut ran = vec![false; pipeline.nodes.len()];
        for effect in self.effects() {
            match effect {
                Effect::RunNode { id, .. } => ran[id.node.at()] = true,
                Effect::Observe(Observation::StageStarted { id: effect, .. }) => {
                    steps.push(Step::Visit(id(effect.node)));
                }
                Effect::Observe(
                    Observation::StageCompleted {
                        id: effect, outcome, ..
                    }
                    | Observation::StageFailed {
                        id: effect, outcome, ..
                    },
                ) if ran[effect.node.at()] => steps.push(Step::Outcome(outcome.status.word().to_owned())),
                Effect::Observe(Observation::Routed { from, decision }) => {
                    steps.push(choice(pipeline, *from, decision));
                }
                Effect::Finish { failure } => end = ending(failure.as_ref()),
                _ => {}
            }
        }
        let state = self.machine.state();
        let recorded = state.outcomes.iter().zip(&ran).zip(pipeline.nodes.iter());
        let outcomes: BTreeMap<String, String> = recorded
            .filter(|((_, ran), _)| **ran)
            .filter_map(|((outcome, _), node)| {
                let word = outcome.as_ref()?.status.word().to_owned();
                Some((node.id.to_string(), word))
            })
            .collect();
        let own = state.context.iter().filter(|(key, _)| !key.starts_with("graph."));
        Trace {
            steps,
            end,
            outcomes,
            context: own.map(|(key, value)| (key.to_owned(), value.clone())).collect(),
        }
    }
}

fn choice(pipeline: &Pipeline, from: NodeIndex, decision: &Decision) -> Step {
    let stage = pipeline.stage(from);
    let place = |wanted| stage.edges().position(|(at, _)| at == wanted).unwrap();
    let id = |node: NodeIndex| pipeline.stage(node).id().to_owned();
    let way = match decision.next {
        Next::Edge(edge) => Way::Edge {
            place: place(edge),
            to: id(pipeline.edge(edge).to),
        },
        Next::Jump(target) => Way::Jump(id(target)),
        Next::End { success } => Way::End(success),
        Next::Fail(fault) => Way::Fail(match fault {
            RouteFault::StageFailed => "stage_failed",
            RouteFault::NoMatchingEdge => "no_matching_edge",
            RouteFault::DeadEnd => "dead_end",
        }),
    };
    Step::Choice {
        from: stage.id().to_owned(),
        way,
        rule: decision.rule.word().to_owned(),
        tested: decision
            .tested
            .iter()
            .map(|tested| (place(tested.edge), tested.held))
            .collect(),
    }
}

fn ending(failure: Option<&RunFailure>) -> End {
    let Some(failure) = failure else {
        return End::Success;
    };
    match failure.clone() {
        RunFailure::StageFailed { node, reason } => End::StageFailed { node, reason },
        RunFailure::NoMatchingEdge { node, .. } => End::NoMatchingEdge(node),
        RunFailure::DeadEnd { node } => End::DeadEnd(node),
        RunFailure::FailureEnd { node, .. } => End::FailureEnd(node),
        RunFailure::MaxVisits {
            node,
            limit,
            attribute,
        } => End::MaxVisits {
            node,
            limit,
            attribute,
        },
        RunFailure::FailureBreaker { node, reason, count } => End::FailureBreaker { node, reason, count },
        RunFailure::CircularPipeline { from, to } => End::Circular { from, to },
        other => End::Other(other.to_string()),
    }
}
