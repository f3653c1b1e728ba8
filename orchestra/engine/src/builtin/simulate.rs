//! Simulation: the handler that replaces others in a simulated run.

use std::sync::Arc;

use orchestra_core::{Outcome, Status, fan_in as choose};
use orchestra_graph::{KeyOwner, Stage, kind};

use super::answer;
use super::backend::SimulationBackend;
use super::child::ChildStarter;
use super::codergen::{responded, stored};
use crate::handlers::handler::{Handler, HandlerFuture};
use crate::run::stage::StageContext;
use crate::script::Script;
use crate::stage_end::Finished;
use crate::store::{StageFile, StoreError};

/// The handler that replaces another one in a simulated run.
pub(crate) struct Simulated {
    pub(crate) script: Arc<Script>,
    /// The handler that runs the stages that the script does not simulate.
    pub(crate) own: Option<Arc<dyn Handler>>,
    /// The built-in handler that runs the children of the stages; `None` for kinds whose stages have no children.
    pub(crate) child: Option<ChildHandler>,
}

/// A handler whose stages run child pipelines, with the children of the run.
pub(crate) struct ChildHandler {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) children: Arc<dyn ChildStarter>,
}

impl Handler for Simulated {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        match &self.own {
            Some(own) if !self.script.simulates(stage.node()) => own.run(stage),
            _ => Box::pin(async move {
                match self.child_handler(&stage) {
                    Some(handler) => handler.run(stage).await,
                    None => {
                        let outcome = self.outcome(&stage).await;
                        stored(&stage, outcome.map(|finished| with_outputs(&stage, finished)))
                    }
                }
            }),
        }
    }

    fn may_write(&self, stage: Stage<'_>) -> bool {
        match &self.own {
            Some(own) if !self.script.simulates(stage) => own.may_write(stage),
            _ => false,
        }
    }
}

impl Simulated {
    /// Returns the handler that runs the child of a stage, if the stage has a child and no outcome in the script. The
    /// child is simulated too.
    fn child_handler(&self, stage: &StageContext) -> Option<&Arc<dyn Handler>> {
        let node = stage.node();
        if self.script.names(node.id()) {
            return None;
        }
        let child = self.child.as_ref()?;
        child.children.clone().child_of(stage.pipeline(), node)?;
        Some(&child.handler)
    }

    async fn outcome(&self, stage: &StageContext) -> Result<Finished, StoreError> {
        let node = stage.node();
        let turn = self
            .script
            .turn(node.id(), || stage.run().attempts.next_turn(node.index()));
        let scripted = turn.outcome.cloned();
        if node.kind() == kind::CODERGEN {
            stage.write_file(StageFile::Prompt, &answer::prompt(node))?;
        }
        if !turn.takes.is_zero() {
            stage.run().settings.clock.sleep(turn.takes).await;
        }
        let scripted = scripted.map(|outcome| by_script(node.kind(), outcome));
        if node.kind() == kind::CODERGEN {
            let response = SimulationBackend::response(node.id());
            stage.write_file(StageFile::Response, &response)?;
            return Ok(scripted.unwrap_or_else(|| responded(node.id(), &response)));
        }
        if node.kind() == kind::FAN_IN {
            return Ok(scripted.unwrap_or_else(|| Finished::by_engine(choose(stage.context()))));
        }
        let simulated = || {
            Outcome::success()
                .notes(format!("[Simulated] {}", node.id()))
                .into()
        };
        Ok(scripted.unwrap_or_else(simulated))
    }
}

/// Converts the outcome of a script. Context keys that the handler of the kind would record become recorded values.
fn by_script(kind: &str, outcome: Outcome) -> Finished {
    let mut finished = Finished::from(outcome);
    let updates = std::mem::take(&mut finished.outcome.context_updates);
    let recorded = |key: &str| KeyOwner::is_recorded_by(kind, key);
    for (key, value) in updates {
        if recorded(&key) {
            finished.recorded.insert(key, value)
        } else {
            finished.outcome.context_updates.insert(key, value)
        };
    }
    finished
}

/// Adds the declared outputs that a simulated success lacks, with examples as their values.
fn with_outputs(stage: &StageContext, finished: Finished) -> Finished {
    let Some(contract) = &stage.run().contract else {
        return finished;
    };
    finished.replace(|mut outcome| {
        if !matches!(outcome.status, Status::Fail | Status::Retry) {
            let outputs = contract.outputs(stage.node().index(), outcome.status.word());
            for field in outputs.into_iter().filter(|field| !field.optional) {
                let value = || field.value_type.example(&field.key);
                outcome
                    .context_updates
                    .entry(field.key.clone())
                    .or_insert_with(value);
            }
        }
        outcome
    })
}
