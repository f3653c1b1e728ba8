//! What the driver does with the journal: what happens is noted, waits for the disk, and is told to the machine; a run
//! that stops keeps what it needs to go on.

use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{EffectId, Event, RunFailure, Snapshot, Usage};

use crate::blocking::on_files;
use crate::driver::{Action, Driver};
use crate::store::{Checkpoint, Commit, FileSystem, RunStore, StoreError};

/// What is to be done before anything else goes on.
pub(crate) enum Settled {
    /// Nothing.
    Nothing,
    /// To look at what the machine said.
    Told,
    /// To wait for the disk.
    Commit(Commit),
    /// To replace the checkpoint.
    Checkpoint,
}

impl Driver {
    /// Takes note of what happened; the machine is told once that is durable.
    pub(crate) fn happened(&mut self, mut event: Event) {
        if let Some(redactor) = &self.run.settings.redactor {
            redactor.event(&mut event);
        }
        let usage = match &event {
            Event::NodeFinished { id, .. } | Event::Noted { id, .. } => self.run.take_usage(id),
            _ => None,
        };
        let snapshot = match &event {
            Event::NodeFinished { id, .. } | Event::Noted { id, .. } => self.run.take_snapshot(id),
            _ => None,
        };
        // Of what happens to a run that stops, only what it cost counts.
        let (event, usage) = match (event, usage) {
            (event, usage) if self.kept.is_none() => (event, usage),
            (Event::NodeFinished { id, .. } | Event::Noted { id, .. }, Some(usage)) => {
                (Event::Used { id, usage }, None)
            }
            (event @ Event::Used { .. }, usage) => (event, usage),
            _ => return,
        };
        // What a stage makes of a folder that cannot be written is no outcome of it.
        if self.run.is_broken() {
            return;
        }
        let elapsed = self.going();
        let Some(keeping) = &mut self.keeping else {
            self.machine.observe(self.run.sink.wanted());
            return self.tell_machine(event, usage, snapshot, elapsed);
        };
        if let Err(failure) = keeping.note(&self.run, elapsed, event, usage, snapshot) {
            self.run.broken(failure);
        }
    }

    /// How long the run has been going, where anybody wants to know.
    pub(crate) fn going(&self) -> Duration {
        match self.timed || self.keeping.is_some() {
            true => self.before + self.run.settings.clock.elapsed().saturating_sub(self.began),
            false => Duration::ZERO,
        }
    }

    /// Tells the machine what happened; before, how late it is, where that counts.
    pub(crate) fn tell_machine(
        &mut self,
        event: Event,
        usage: Option<Usage>,
        snapshot: Option<Snapshot>,
        elapsed: Duration,
    ) {
        if self.timed {
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
            Event::NodeFinished { id, .. } if self.run.has_usage() => {
                self.run.long().requests.forget(id);
                self.used = self.used_in_all(id);
                None
            }
            _ => None,
        };
        let spends = usage.is_some() || matches!(event, Event::Used { .. } | Event::Retried { .. });
        self.machine.on(event, &mut self.effects);
        if let Some(id) = noted {
            self.run.long().requests.noted(&id);
        }
        if spends {
            self.heed_budget();
        }
    }

    /// What an attempt used, as far as the machine was told.
    fn used_in_all(&self, id: &EffectId) -> Option<Box<(EffectId, Usage)>> {
        let lines = self.machine.lines_to(id);
        let used = lines.last()?.used();
        (!used.is_zero()).then(|| Box::new((id.clone(), used)))
    }

    /// Stops the run where it is, if it used all that it may.
    pub(crate) fn heed_budget(&mut self) {
        let budget = self.limits.budget;
        let totals = &self.machine.state().totals;
        if !totals.finished && budget.is_reached(&totals.usage) {
            let used = totals.usage;
            self.pause(Event::OverBudget { budget, used });
        }
    }

    /// Tells the machine what is durable, one thing at a time; says what must be waited for before more is done.
    pub(crate) fn settle(&mut self) -> Result<Settled, StoreError> {
        if let Some(noted) = self.keeping.as_mut().and_then(|keeping| keeping.next()) {
            self.machine.observe(self.run.sink.wanted());
            self.tell_noted(noted);
            return Ok(Settled::Told);
        }
        if self.pausing.is_some() {
            // What stages have noted is kept before they are stopped.
            if self.heed_request() {
                return Ok(Settled::Told);
            }
            if self.is_waiting() {
                return Ok(self.commit()?.map_or(Settled::Told, Settled::Commit));
            }
            self.stop_here()?;
            return Ok(Settled::Told);
        }
        // A run that is over gets its last checkpoint where it is known how it ended.
        let goes_on = !self.machine.state().totals.finished;
        match &self.keeping {
            Some(keeping) if goes_on && keeping.wants_checkpoint() => Ok(Settled::Checkpoint),
            _ => Ok(Settled::Nothing),
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.keeping.as_ref().is_some_and(|keeping| keeping.is_waiting())
    }

    pub(crate) fn commit(&mut self) -> Result<Option<Commit>, StoreError> {
        match &mut self.keeping {
            Some(keeping) => keeping.commit(),
            None => Ok(None),
        }
    }

    /// Will stop the run where it is, so that it can go on from there.
    pub(crate) fn pause(&mut self, mut event: Event) {
        if let Some(redactor) = &self.run.settings.redactor {
            redactor.event(&mut event);
        }
        if !self.stopping && !self.machine.state().totals.finished {
            self.pausing.get_or_insert_with(|| Box::new(event));
        }
    }

    /// Forgets what would stop the run; what was told again stopped it before.
    pub(crate) fn forget_pause(&mut self) {
        self.pausing = None;
    }

    /// Stops the run where it is: what it needs to go on is taken before the machine ends it.
    pub(crate) fn stop_here(&mut self) -> Result<(), StoreError> {
        let Some(event) = self.pausing.take() else {
            return Ok(());
        };
        // What was on its way to the machine may have ended the run.
        let ended = self.machine.state().totals.finished;
        if !ended {
            let kept = match &self.keeping {
                Some(keeping) => Some(Box::new(keeping.kept_here(&self.machine, self.going())?)),
                None => None,
            };
            self.machine.observe(self.run.sink.wanted());
            self.machine.on(*event, &mut self.effects);
            // A question that is not open any more stops nothing.
            if !self.machine.state().totals.finished {
                return Ok(());
            }
            self.run.stop.pauses();
            self.kept = kept;
        }
        // What was about to begin is begun when the run goes on.
        self.actions
            .retain(|action| matches!(action, Action::Cancel(_) | Action::Finish(_)));
        Ok(())
    }

    /// Heeds the wish that the run end, or stop where it is.
    pub(crate) fn cancelled(&mut self) {
        if self.stopping {
            return;
        }
        let reason = self.run.stop.reason();
        if self.run.stop.is_pause() {
            self.pause(Event::PauseRequested { reason });
        } else {
            self.pausing = None;
            self.happened(Event::CancelRequested { reason });
        }
        self.stopping = true;
    }

    /// Replaces the checkpoint, which is to be waited for. A run that keeps nothing carries no room for that.
    pub(crate) fn checkpoint(
        &self,
        status: &'static str,
        failure: Option<&RunFailure>,
    ) -> Result<Option<Commit>, StoreError> {
        let (Some(store), Some(keeping)) = (&self.run.store, &self.keeping) else {
            return Ok(None);
        };
        // Nobody who goes on from here is told what came before.
        self.run.write_later();
        if let Some(failure) = self.run.take_failure() {
            return Err(failure);
        }
        let (kept, position) = match &self.kept {
            Some(kept) => Clone::clone(&**kept),
            None => keeping.kept_here(&self.machine, self.going())?,
        };
        let checkpoint = Checkpoint::of(
            &self.run.id,
            self.now,
            &self.run.pipeline,
            self.machine.state(),
            status,
            failure,
        );
        let checkpoint = checkpoint.with_state(kept, position, store.identity());
        Ok(Some(Box::pin(save(
            self.run.settings.files(),
            store.clone(),
            checkpoint,
        ))))
    }
}

/// Writes a checkpoint away from the threads that run stages, because syncing takes milliseconds.
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
