//! The adaptation of the state and the messages of a run to a changed pipeline (rule D6).

use orchestra_core::{EffectId, Mapping, RunFailure};
use orchestra_engine::{RunId, StartError};
use orchestra_graph::{Pipeline, kind};

use crate::message::{Message, Sent};
use crate::state::{Phase, RunState, Withheld};

/// The failure of the pause in which a run is while it is moved to a changed pipeline.
const MOVED: &str = "the run was moved to a changed pipeline";

impl RunState {
    /// Adapts the state to a changed pipeline with this hash. The run is paused afterwards. Attempts that are executed go on.
    ///
    /// # Errors
    /// The run cannot go on in the changed pipeline from where it is.
    pub(crate) fn carry_over(
        mut self,
        old: &Pipeline,
        new: &Pipeline,
        mapping: &Mapping,
        hash: String,
    ) -> Result<RunState, StartError> {
        let machine = self.machine.carry_over(old, new, mapping);
        self.machine = machine.map_err(|error| match error.is_contract_violation() {
            true => StartError::ContractChanged {
                run: self.run.clone(),
                file: new.file.to_string(),
                violations: error.to_string(),
            },
            false => StartError::IncompatibleState {
                run: self.run.clone(),
                reason: error.to_string(),
            },
        })?;
        let moved = |effect: &mut EffectId| match effect.carried_over(mapping) {
            Some(there) => {
                *effect = there;
                true
            }
            None => false,
        };
        for stage in &mut self.stages {
            if !moved(&mut stage.effect) {
                let node = old.stage(stage.effect.node).id();
                return Err(StartError::IncompatibleState {
                    run: self.run,
                    reason: format!("an attempt of `{node}` has not ended, and the node is gone"),
                });
            }
        }
        self.timers.retain_mut(|timer| moved(&mut timer.effect));
        self.reserved.retain_mut(|held| moved(&mut held.effect));
        self.questions.retain_mut(|asked| moved(&mut asked.effect));
        self.interrupted.retain_mut(|(effect, _)| moved(effect));
        self.asked.retain_mut(|(effect, _)| moved(effect));
        // Attempts that were withheld are requested again when the run is resumed.
        self.withheld
            .retain(|withheld| matches!(withheld, Withheld::End(_)));
        if self.phase == Phase::Running {
            let reason = MOVED.to_owned();
            self.phase = Phase::Paused(RunFailure::Paused { reason });
        }
        self.hash = hash;
        Ok(self)
    }

    /// Returns a child run that is in progress, and the stage that started it.
    pub(crate) fn child_in_progress(&self, run: &RunId, pipeline: &Pipeline) -> Option<(String, String)> {
        let started = |effect: &EffectId| pipeline.stage(effect.node).id().to_owned();
        let live = self.stages.iter();
        let live = live.filter_map(|stage| Some((stage.child.clone()?, started(&stage.effect))));
        // The attempt of a child that was paused is made again when the run is resumed, and goes on with the child.
        let interrupted = self.interrupted.iter().map(|(effect, _)| effect);
        let interrupted = interrupted
            .filter(|effect| pipeline.stage(effect.node).kind() == kind::SUBPIPELINE)
            .map(|effect| {
                let child = RunId::of_child(run, &effect.name(pipeline));
                (child.to_string(), started(effect))
            });
        live.chain(interrupted).next()
    }
}

impl Sent {
    /// Adapts a message that was sent before the pipeline was changed. Returns `None` for one about an attempt of a node that
    /// is gone.
    pub(crate) fn carried_over(mut self, mapping: &Mapping) -> Option<Sent> {
        if let Message::Attempt { effect, .. } = &mut self.message {
            *effect = effect.carried_over(mapping)?;
        }
        Some(self)
    }
}
