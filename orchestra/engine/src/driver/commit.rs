//! Committing: an event is written to the journal, made durable, and then applied to the machine. A run that is paused
//! saves the state that it needs to be resumed.

use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{EffectId, Event, RunFailure, Snapshot, Usage};

use crate::blocking::on_files;
use crate::driver::action::Action;
use crate::driver::state::Driver;
use crate::store::{Checkpoint, Commit, FileSystem, RunStore, StoreError};

/// The next step of the driver in committing events.
pub(crate) enum CommitProgress {
    /// Nothing is left to commit.
    Nothing,
    /// The driver handles the effects of the machine.
    Applied,
    /// The driver waits for the disk.
    Commit(Commit),
    /// The driver replaces the checkpoint.
    Checkpoint,
}

impl Driver {
    /// Writes an event to the journal. The event is applied to the machine once it is durable.
    pub(crate) fn record(&mut self, mut event: Event) {
        if let Some(redactor) = &self.run.settings.redactor {
            redactor.event(&mut event);
        }
        let mut usage = match &event {
            Event::NodeFinished { id, .. } | Event::Noted { id, .. } => self.run.attempts.usage.take(id),
            _ => None,
        };
        let snapshot = match &event {
            Event::NodeFinished { id, .. } | Event::Noted { id, .. } => self.take_snapshot(id),
            _ => None,
        };
        // Of the events after the run was stopped, only the usage counts.
        if self.stopping.saved.is_some() {
            match event {
                Event::NodeFinished { id, .. } | Event::Noted { id, .. } => match usage.take() {
                    Some(usage) => event = Event::Used { id, usage },
                    None => return,
                },
                Event::Used { .. } => {}
                _ => return,
            }
        }
        // If the run folder cannot be written, the event may be a result of that and not of the stage.
        if self.run.has_failed() {
            return;
        }
        let elapsed = self.going();
        let Some(journal) = &mut self.journal else {
            self.machine.observe(self.run.sink.wanted());
            return self.apply_event(event, usage, snapshot, elapsed);
        };
        if let Err(failure) = journal.note(&self.run, elapsed, event, usage, snapshot) {
            self.run.fail(failure);
        }
    }

    /// Returns the time for which the run has been executed. Returns zero if nobody needs it.
    pub(crate) fn going(&self) -> Duration {
        if self.time.timed || self.journal.is_some() {
            self.time.executed_now(&*self.run.settings.clock)
        } else {
            Duration::ZERO
        }
    }

    /// Applies an event to the machine, after the elapsed time (if the machine needs it), the usage and the snapshot.
    pub(crate) fn apply_event(
        &mut self,
        event: Event,
        usage: Option<Usage>,
        snapshot: Option<Snapshot>,
        elapsed: Duration,
    ) {
        if self.time.timed {
            self.machine.on(Event::Tick { elapsed }, &mut self.effects);
        }
        if let (Some(usage), Event::NodeFinished { id, .. } | Event::Noted { id, .. }) = (usage, &event) {
            let id = id.clone();
            self.machine.on(Event::Used { id, usage }, &mut self.effects);
        }
        if let (Some(snapshot), Event::NodeFinished { id, .. } | Event::Noted { id, .. }) = (snapshot, &event)
        {
            let id = id.clone();
            self.machine
                .on(Event::Snapshot { id, snapshot }, &mut self.effects);
        }
        let noted = match &event {
            Event::Noted { id, .. } => Some(id.clone()),
            Event::NodeFinished { id, .. } if self.run.attempts.usage.any() => {
                self.run.models().requests.forget(id);
                self.emission.used = self.used_in_all(id);
                None
            }
            _ => None,
        };
        let spends = usage.is_some() || matches!(event, Event::Used { .. } | Event::Retried { .. });
        self.machine.on(event, &mut self.effects);
        if let Some(id) = noted {
            self.run.models().requests.noted(&id);
        }
        if spends {
            self.heed_budget();
        }
    }

    /// Returns the usage of an attempt that was applied to the machine so far. Returns `None` if it is zero.
    fn used_in_all(&self, id: &EffectId) -> Option<Box<(EffectId, Usage)>> {
        let paths = self.machine.paths_to(id);
        let used = paths.last()?.used();
        (!used.is_zero()).then(|| Box::new((id.clone(), used)))
    }

    /// Pauses the run if its budget is used up.
    pub(crate) fn heed_budget(&mut self) {
        let budget = self.limits.budget;
        let totals = &self.machine.state().totals;
        if !totals.finished && budget.is_reached(&totals.usage) {
            let used = totals.usage;
            self.pause(Event::OverBudget { budget, used });
        }
    }

    /// Applies the next durable event to the machine. Returns what the driver must do before it continues.
    pub(crate) fn commit_next(&mut self) -> Result<CommitProgress, StoreError> {
        if let Some(pending) = self.journal.as_mut().and_then(|journal| journal.next()) {
            self.machine.observe(self.run.sink.wanted());
            self.apply_pending(pending);
            return Ok(CommitProgress::Applied);
        }
        if self.stopping.pausing.is_some() {
            // Store the notes of stages before the stages are stopped.
            if self.heed_request() {
                return Ok(CommitProgress::Applied);
            }
            if self.is_waiting() {
                return Ok(self
                    .commit()?
                    .map_or(CommitProgress::Applied, CommitProgress::Commit));
            }
            self.stop_here()?;
            return Ok(CommitProgress::Applied);
        }
        // A run that has ended gets its last checkpoint in `drive`, where the failure is known.
        let goes_on = !self.machine.state().totals.finished;
        match &self.journal {
            Some(journal) if goes_on && journal.wants_checkpoint() => Ok(CommitProgress::Checkpoint),
            _ => Ok(CommitProgress::Nothing),
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.is_waiting())
    }

    pub(crate) fn commit(&mut self) -> Result<Option<Commit>, StoreError> {
        match &mut self.journal {
            Some(journal) => journal.commit(),
            None => Ok(None),
        }
    }

    /// Schedules a pause of the run, so that it can be resumed. Only the first call has an effect.
    pub(crate) fn pause(&mut self, mut event: Event) {
        if let Some(redactor) = &self.run.settings.redactor {
            redactor.event(&mut event);
        }
        if !self.stopping.begun && !self.machine.state().totals.finished {
            self.stopping.pausing.get_or_insert_with(|| Box::new(event));
        }
    }

    /// Drops a scheduled pause. A pause that replayed events cause has already happened.
    pub(crate) fn forget_pause(&mut self) {
        self.stopping.pausing = None;
    }

    /// Pauses the run. Takes the state that is needed to resume it before the machine ends the run.
    pub(crate) fn stop_here(&mut self) -> Result<(), StoreError> {
        let Some(event) = self.stopping.pausing.take() else {
            return Ok(());
        };
        // An event that was applied meanwhile may have ended the run.
        let ended = self.machine.state().totals.finished;
        if !ended {
            let state = match &self.journal {
                Some(journal) => Some(Box::new(journal.checkpoint_state(
                    &self.machine,
                    self.due(),
                    self.going(),
                )?)),
                None => None,
            };
            self.machine.observe(self.run.sink.wanted());
            self.machine.on(*event, &mut self.effects);
            // A question that is no longer open pauses nothing.
            if !self.machine.state().totals.finished {
                return Ok(());
            }
            self.run.stop.pauses();
            self.stopping.saved = state;
        }
        // Actions that have not begun yet begin when the run is resumed.
        self.actions
            .retain(|action| matches!(action, Action::Cancel(_) | Action::Finish(_)));
        Ok(())
    }

    /// Applies a request to end or pause the run.
    pub(crate) fn cancelled(&mut self) {
        if self.stopping.begun {
            return;
        }
        let reason = self.run.stop.reason();
        if self.run.stop.is_pause() {
            self.pause(Event::PauseRequested { reason });
        } else {
            self.stopping.pausing = None;
            self.record(Event::CancelRequested { reason });
        }
        self.stopping.begun = true;
    }

    /// Replaces the checkpoint. Returns a future to wait for, or `None` if nothing is persisted. The future is boxed,
    /// so that a run that persists nothing needs no memory for it.
    pub(crate) fn checkpoint(
        &self,
        status: &'static str,
        failure: Option<&RunFailure>,
    ) -> Result<Option<Commit>, StoreError> {
        let (Some(store), Some(journal)) = (&self.run.store, &self.journal) else {
            return Ok(None);
        };
        let (state, position) = match &self.stopping.saved {
            Some(stopped) => Clone::clone(&**stopped),
            None => journal.checkpoint_state(&self.machine, self.due(), self.going())?,
        };
        let checkpoint = Checkpoint::new(
            &self.run.id,
            self.time.now,
            &self.run.pipeline,
            self.machine.state(),
            status,
            failure,
        );
        let checkpoint = checkpoint.with_state(state, position, store.identity());
        Ok(Some(Box::pin(save(
            self.run.settings.files.clone(),
            store.clone(),
            checkpoint,
        ))))
    }
}

/// Writes a checkpoint outside of the threads that run stages, because a sync takes milliseconds.
async fn save(
    files: Arc<dyn FileSystem>,
    store: Arc<dyn RunStore>,
    checkpoint: Checkpoint,
) -> Result<(), StoreError> {
    let folder = store.folder().to_owned();
    let saved = on_files(files, move || store.checkpoint(&checkpoint)).await;
    saved.unwrap_or_else(|error| {
        let source = std::io::Error::other(error);
        Err(StoreError::io("write the checkpoint in", &folder, source))
    })
}
