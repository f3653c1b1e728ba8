//! What others see of a run.

use orchestra_core::Machine;

use crate::run_object::stored::Facts;
use crate::state::{Phase, RunState};
use crate::wire::{RemoteResult, RemoteStatus};

pub(super) fn result(state: &RunState, machine: &Machine) -> RemoteResult {
    let main = &machine.state().main;
    let pipeline = machine.pipeline();
    RemoteResult {
        has_ended: matches!(state.phase, Phase::Ended(_)),
        failure: match &state.phase {
            Phase::Running => None,
            Phase::Paused(failure) => Some(failure.clone()),
            Phase::Ended(failure) => failure.clone(),
        },
        path: main
            .completed
            .iter()
            .map(|node| pipeline.stage(*node).id().to_owned())
            .collect(),
        context: main.context.clone(),
        usage: machine.state().totals.usage,
    }
}

pub(super) fn status(
    state: RunState,
    machine: &Machine,
    parked: Option<String>,
    facts: &Facts,
) -> RemoteStatus {
    let pipeline = machine.pipeline();
    let questions = match state.phase {
        Phase::Ended(_) => Vec::new(),
        _ => state.open_questions(machine),
    };
    RemoteStatus {
        pipeline: facts.pipeline.clone(),
        hash: facts.hash.clone(),
        questions,
        parked,
        used: machine.state().totals.usage,
        events: state.events,
        budget: state.budget,
        began: state.began,
        now: state.now,
        executed: state.executed,
        phase: state.phase,
        stages: state
            .stages
            .into_iter()
            .map(|stage| (stage.effect.name(pipeline), stage))
            .collect(),
    }
}
