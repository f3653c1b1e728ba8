//! Emission of the events of a run, from the observations of the machine.

use std::time::Duration;

use orchestra_core::{Effect, EffectId, Observation, Outcome, Usage};
use orchestra_graph::{NodeIndex, Role};

use crate::builtin::status;
use crate::driver::action::Action;
use crate::driver::state::Driver;
use crate::event::{EventKind, ObservedStage};
use crate::gates::deadline::Began;
use crate::store::{StageFile, StoreError};

fn has_ended(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Observe(
            Observation::StageCompleted { .. }
                | Observation::StageFailed { .. }
                | Observation::StageNoted { .. }
        )
    )
}

impl Driver {
    /// Handles the effects of the machine in order: emits the observations, and queues the others as actions.
    pub(crate) fn handle_effects(&mut self) -> Result<(), StoreError> {
        let emits = |effect: &Effect| matches!(effect, Effect::Observe(_) | Effect::Restart { .. });
        if !self.effects.iter().any(emits) {
            let mut effects = std::mem::take(&mut self.effects);
            effects.drain(..).for_each(|effect| self.act(effect));
            // Keep the capacity of the list for the next turn.
            self.effects = effects;
            return Ok(());
        }
        self.read_clock();
        let mut effects = std::mem::take(&mut self.effects);
        let last_ended = self.last_ended(&effects);
        for (at, effect) in effects.drain(..).enumerate() {
            match effect {
                Effect::Observe(observation) => self.emit_observation(observation, last_ended == Some(at))?,
                // Events from here on belong to the new folder.
                Effect::Restart { restart, .. } => self.run.restarted(restart)?,
                other => self.act(other),
            }
        }
        self.effects = effects;
        Ok(())
    }

    /// Returns the index of the last effect that ends a stage. Returns `None` if there are no checkpoints.
    pub(crate) fn last_ended(&self, effects: &[Effect]) -> Option<usize> {
        let kept = self
            .journal
            .as_ref()
            .is_some_and(|journal| journal.has_checkpoints());
        kept.then(|| effects.iter().rposition(has_ended)).flatten()
    }

    /// Emits an observation. If `saved` is `true` and a stage has ended, also emits that its checkpoint is saved.
    pub(crate) fn emit_observation(
        &mut self,
        observation: Observation,
        saved: bool,
    ) -> Result<(), StoreError> {
        let ended = self.emit_event_of(observation)?;
        if let (true, Some(node), Some(journal)) = (saved, ended, &self.journal) {
            let checkpoint = journal.checkpoint();
            let node = self.run.name(node);
            self.emit(EventKind::CheckpointSaved { node, checkpoint });
        }
        Ok(())
    }

    /// Queues an effect as an action.
    fn act(&mut self, effect: Effect) {
        self.actions.push_back(match effect {
            Effect::RunNode { id, context } => Action::RunNode(id, context),
            Effect::StartTimer { id, delay } => {
                let now = Began::now(&*self.run.settings.clock);
                let since = match &mut self.journal {
                    Some(journal) => journal.timer_began(&id, now),
                    None => now,
                };
                Action::StartTimer(id, delay, Box::new(since))
            }
            Effect::AskHuman { id, question } => Action::AskHuman(id, question),
            Effect::CancelEffect { id } => {
                if let Some(journal) = &mut self.journal {
                    journal.timer_over(&id);
                }
                Action::Cancel(id)
            }
            Effect::Finish { failure } => Action::Finish(failure.map(Box::new)),
            _ => return,
        });
    }

    /// Returns the duration of a stage that has ended.
    fn took(&mut self, id: &EffectId) -> Duration {
        self.time.elapsed.saturating_sub(self.emission.began.take(id))
    }

    /// Takes the usage of the attempt whose end is emitted.
    fn used_by(&mut self, id: &EffectId) -> Option<Box<Usage>> {
        let (_, usage) = *self.emission.used.take_if(|used| used.0 == *id)?;
        Some(Box::new(usage))
    }

    /// Keeps the start of a stage that nobody executes until the stage has another event, and forgets it if the stage is
    /// only cancelled. Returns whether there is nothing more to emit for an observation.
    fn hold_start(&mut self, observation: &Observation) -> bool {
        let recovery = self.recovery.as_ref();
        if recovery.is_none_or(|recovery| recovery.due.is_none()) {
            return false;
        }
        let start = match observation {
            Observation::StageStarted { id, .. } => {
                EventKind::from_observation(&self.run.pipeline, observation.clone(), self.starting(id))
            }
            _ => None,
        };
        let due = self.recovery.as_mut().and_then(|recovery| recovery.due.as_mut());
        let Some(due) = due else { return false };
        let id = match observation {
            Observation::StageStarted { id, .. }
            | Observation::StageCancelled { id, .. }
            | Observation::StageCompleted { id, .. }
            | Observation::StageFailed { id, .. }
            | Observation::ParallelStarted { id, .. }
            | Observation::InterviewStarted { id, .. } => id,
            _ => return false,
        };
        if let Some(start) = start {
            due.push((id.clone(), start));
            self.emission.began.set(id, self.time.elapsed);
            return true;
        }
        let Some(at) = due.iter().position(|(held, _)| held == id) else {
            return false;
        };
        let (_, start) = due.remove(at);
        let never_began = matches!(observation, Observation::StageCancelled { .. });
        if !never_began {
            self.emit(start);
        }
        never_began
    }

    /// Returns the facts of an attempt that starts.
    fn starting(&self, id: &EffectId) -> ObservedStage {
        let again = self.repeats(id);
        let is_replay = self.is_replay();
        ObservedStage {
            repeat: again && !is_replay,
            replay: again && is_replay,
            ..ObservedStage::default()
        }
    }

    /// Emits an observation as an event, after writing the files that belong to it. Returns the node if a stage has ended.
    fn emit_event_of(&mut self, observation: Observation) -> Result<Option<NodeIndex>, StoreError> {
        if self.hold_start(&observation) {
            return Ok(None);
        }
        let mut ended = None;
        let mut stage = ObservedStage::default();
        match &observation {
            Observation::StageStarted { id, .. } => {
                self.emission.began.set(id, self.time.elapsed);
                stage = self.starting(id);
            }
            Observation::StageCompleted { id, outcome, .. }
            | Observation::StageFailed { id, outcome, .. } => {
                self.keep_status(id, outcome)?;
                stage.duration = self.took(id);
                stage.usage = self.used_by(id);
                ended = Some(id.node);
            }
            Observation::StageNoted { id } => ended = Some(id.node),
            Observation::StageCancelled { id, .. } => stage.duration = self.took(id),
            Observation::InterviewStarted { id, question } => {
                self.keep_interview(id, StageFile::Prompt, &question.text)?;
            }
            Observation::InterviewCompleted { id, answer, .. } => {
                self.run.remember(id, StageFile::Response, answer);
                self.keep_interview(id, StageFile::Response, answer)?;
                stage.duration = self.time.elapsed.saturating_sub(self.emission.began.get(id));
            }
            _ => {}
        }
        if let Some(kind) = EventKind::from_observation(&self.run.pipeline, observation, stage) {
            self.emit(kind);
        }
        Ok(ended)
    }

    /// Writes the outcome that routing uses to the folder of the stage. A stage that succeeds without a folder gets none, nor
    /// does the exit (Attractor appendix C).
    fn keep_status(&self, id: &EffectId, outcome: &Outcome) -> Result<(), StoreError> {
        let stage = self.run.pipeline.stage(id.node);
        if stage.row().role == Role::Exit {
            return Ok(());
        }
        let Some(store) = self.run.store.as_ref() else {
            return Ok(());
        };
        let has_failed = !outcome.status.is_success();
        if has_failed {
            self.run.stage_files.will_be_present();
        } else if !self.run.stage_files.may_be_present() {
            return Ok(());
        }
        let stage_folder = self.run.stage_folder(id);
        let stage_folder = stage_folder.as_ref();
        if self.is_replaying() {
            // The process may have ended before it wrote the file. A file may belong to an earlier attempt.
            let is_written = self.is_already_emitted() && store.has_status(stage_folder, id.visit);
            let is_missing = self.is_recent()
                && !is_written
                && (has_failed || store.has_folder(stage_folder))
                && !store.is_aside(stage_folder, id.visit);
            if !is_missing {
                return Ok(());
            }
        } else if !has_failed && !store.has_folder(stage_folder) {
            return Ok(());
        }
        store.stage(stage_folder, id.visit)?;
        store.write(stage_folder, StageFile::Status, &status::write(outcome))
    }

    /// Writes a question or its answer to the folder of the gate (rule D8).
    fn keep_interview(&self, id: &EffectId, file: StageFile, text: &str) -> Result<(), StoreError> {
        if self.is_already_emitted() {
            return Ok(());
        }
        let Some(store) = self.run.store.as_ref() else {
            return Ok(());
        };
        let stage_folder = self.run.stage_folder(id);
        self.run.stage_files.will_be_present();
        if self.is_replaying() && store.is_aside(stage_folder.as_ref(), id.visit) {
            return Ok(());
        }
        store.stage(stage_folder.as_ref(), id.visit)?;
        store.write(stage_folder.as_ref(), file, text.as_bytes())
    }
}
