//! Recovery of a run: the driver replays the journal to the machine, and emits the events that were lost.

use std::time::Duration;

use orchestra_core::{Effect, EffectId, Event, RetryPoint, RunFailure};

use crate::clock::Timestamp;
use crate::driver::recovery::{AlreadyEmitted, ReplayProgress};
use crate::driver::state::Driver;
use crate::event::EventKind;
use crate::gates::deadline::Began;
use crate::journal::records::{Entry, JournalEvent, Record};
use crate::journal::writer::PendingEvent;
use crate::store::StoreError;

/// The number of records at the end of a journal whose stages may lack their status file, because the process ended
/// before it wrote them.
const RECENT: usize = 256;

impl Driver {
    /// Returns the failure of the recovered run. Returns `None` if it has not failed.
    pub(crate) fn failure(&self) -> Option<&RunFailure> {
        self.recovery.as_ref()?.ended.as_ref()?.as_ref()
    }

    /// Schedules a retry of a run that failed.
    pub(crate) fn will_retry(&mut self, point: RetryPoint) {
        if let Some(recovery) = &mut self.recovery {
            recovery.is_retried(false);
            recovery.retry = Some(point);
        }
    }

    /// Applies the journal records after the current state to the machine. Emits events that were lost.
    pub(crate) fn replay(
        &mut self,
        records: &[(u64, Record)],
        emitted: AlreadyEmitted,
    ) -> Result<(), StoreError> {
        // The replayed events include the usage of attempts.
        self.run.attempts.usage.set_used_before();
        let recovery = self.recovery.as_ref();
        let traces_context = recovery.is_some_and(|recovery| recovery.lineage.is_some());
        let mut boot = None;
        let mut left = emitted.events;
        for (at, (number, record)) in records.iter().enumerate() {
            let recent = records.len() - at <= RECENT;
            let is_emitted = at < emitted.records;
            self.machine.observe(!is_emitted || recent || traces_context);
            if let Some(recovery) = &mut self.recovery {
                let already_emitted = if is_emitted { u64::MAX } else { left };
                recovery.progress = Some(ReplayProgress {
                    already_emitted,
                    recent,
                });
            }
            self.time.now = Timestamp::from_millis(record.at);
            match &record.entry {
                Entry::Begin { boot: of, .. } => {
                    boot.clone_from(of);
                    let pipeline = &self.run.pipeline;
                    let (name, goal) = (pipeline.name.to_string(), pipeline.goal().to_owned());
                    self.emit(EventKind::PipelineStarted { name, goal });
                    self.machine.begin(&mut self.effects);
                    if let Some(recovery) = &mut self.recovery {
                        recovery.begun = true;
                    }
                }
                Entry::Resume { boot: of, .. } => boot.clone_from(of),
                Entry::Changed { .. } | Entry::Restored { .. } => {}
                Entry::Event(recorded) => {
                    self.time.elapsed = Duration::from_nanos(recorded.elapsed);
                    self.time.before = self.time.elapsed;
                    self.count_turn(&recorded.event);
                    if let (Event::TimerFired { id }, Some(journal)) = (&recorded.event, &mut self.journal) {
                        journal.timer_over(id);
                    }
                    if let (Event::Retried { .. }, Some(recovery)) = (&recorded.event, &mut self.recovery) {
                        recovery.is_retried(record.events < recovery.events);
                    }
                    let snapshot = recorded.snapshot.clone();
                    self.apply_event(
                        recorded.event.clone(),
                        recorded.usage,
                        snapshot,
                        self.time.elapsed,
                    );
                }
            }
            if let Some(journal) = &mut self.journal {
                journal.applied = *number;
            }
            let began = Began::new(self.time.now, record.real, boot.clone());
            self.re_emit(&began)?;
            let recovery = self.recovery.as_ref();
            if let Some(progress) = recovery.and_then(|recovery| recovery.progress.as_ref())
                && !is_emitted
            {
                left = progress.already_emitted;
            }
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.progress = None;
        }
        self.forget_pause();
        Ok(())
    }

    /// Emits the events that were lost, and restores the timers in progress.
    fn re_emit(&mut self, began: &Began) -> Result<(), StoreError> {
        let mut effects = std::mem::take(&mut self.effects);
        let last_ended = self.last_ended(&effects);
        for (at, effect) in effects.drain(..).enumerate() {
            match effect {
                Effect::Observe(observation) => {
                    let recovery = self.recovery.as_mut();
                    if let Some(lineage) = recovery.and_then(|recovery| recovery.lineage.as_mut()) {
                        lineage.observe(&observation, &self.run.pipeline);
                    }
                    self.emit_observation(observation, last_ended == Some(at))?;
                }
                Effect::Restart { restart, .. } => self.run.restarted(restart)?,
                Effect::StartTimer { id, .. } => {
                    if let Some(journal) = &mut self.journal {
                        journal.timer_began(&id, began.clone());
                    }
                }
                Effect::CancelEffect { id } => {
                    if let Some(journal) = &mut self.journal {
                        journal.timer_over(&id);
                    }
                }
                Effect::Finish { failure } => {
                    if let Some(recovery) = &mut self.recovery {
                        recovery.ended = Some(failure);
                    }
                }
                _ => {}
            }
        }
        self.effects = effects;
        Ok(())
    }

    /// Resumes the run and starts its interrupted effects again.
    pub(crate) fn go_on(&mut self) -> Result<(), StoreError> {
        let mut again = Vec::new();
        self.machine.reissue(&mut again);
        let Some(recovery) = &mut self.recovery else {
            return Ok(());
        };
        // A retry delay is not a repeat of the attempt after it, which has not begun yet.
        let begun = again.iter().filter_map(|effect| match effect {
            Effect::RunNode { id, .. } | Effect::AskHuman { id, .. } => Some(id.clone()),
            _ => None,
        });
        let unbegun = &recovery.unbegun;
        recovery.repeats = begun.filter(|id| !unbegun.contains(id)).collect();
        self.run.attempts.set_resumed();
        self.run.attempts.usage.set_used_before();
        let (fencing_token, repaired) = (recovery.fencing_token, std::mem::take(&mut recovery.repaired));
        let replayed_from = recovery.replayed_from.take();
        recovery.is_replay = replayed_from.is_some();
        let retry = recovery.retry.take();
        let mut checkpoint = String::new();
        if let Some(journal) = &mut self.journal {
            checkpoint = journal.checkpoint();
            journal.resume(&self.run)?;
        }
        self.emit(EventKind::PipelineResumed {
            checkpoint,
            fencing_token,
            repaired,
            replayed_from,
            retry: retry.map(|point| {
                let (RetryPoint::Stage(node) | RetryPoint::Edges(node)) = point;
                self.run.name(node)
            }),
        });
        if let Some(point) = retry {
            let (RetryPoint::Stage(node) | RetryPoint::Edges(node)) = point;
            let from_edges = matches!(point, RetryPoint::Edges(_));
            self.record(Event::Retried { node, from_edges });
        }
        self.effects.append(&mut again);
        self.handle_effects()?;
        self.heed_budget();
        if let Some(offline) = self
            .recovery
            .as_mut()
            .and_then(|recovery| recovery.offline.take())
        {
            self.record(offline.event);
            if let Some(event) = offline.emits {
                self.emit(event);
            }
            self.pause(Event::PauseRequested {
                reason: "nobody executes it".to_owned(),
            });
        }
        Ok(())
    }

    /// Returns whether an attempt was in flight when the run stopped, and is made again.
    pub(crate) fn repeats(&self, id: &EffectId) -> bool {
        let recovery = self.recovery.as_ref();
        recovery.is_some_and(|recovery| recovery.progress.is_none() && recovery.repeats.contains(id))
    }

    /// Returns the attempts that are due, but not begun, because this process executes no stage.
    pub(crate) fn due(&self) -> Vec<EffectId> {
        let due = self.recovery.as_ref().and_then(|recovery| recovery.due.as_ref());
        let due = due.into_iter().flatten().map(|(id, _)| id);
        // What an earlier process began and did not end is due too.
        due.filter(|id| !self.repeats(id)).cloned().collect()
    }

    /// Returns whether this process replays another run.
    pub(crate) fn is_replay(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.is_replay)
    }

    /// Returns whether an attempt may have begun in an earlier process, even if the journal does not mention it.
    pub(crate) fn may_repeat(&self, id: &EffectId) -> bool {
        let is_blank = self.recovery.as_ref().is_some_and(|recovery| recovery.is_blank);
        is_blank || self.repeats(id)
    }

    /// Returns whether another process emitted the end of the run.
    pub(crate) fn is_end_emitted(&self) -> bool {
        self.recovery
            .as_ref()
            .is_some_and(|recovery| recovery.end_emitted)
    }

    /// Returns whether the run has ended and nothing is left to write.
    pub(crate) fn is_end_saved(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.end_saved)
    }

    /// Counts an event that the machine causes. Returns whether it was emitted before.
    pub(crate) fn already_emitted(&mut self) -> bool {
        let recovery = self.recovery.as_mut();
        let Some(progress) = recovery.and_then(|recovery| recovery.progress.as_mut()) else {
            return false;
        };
        let emitted = progress.already_emitted > 0;
        progress.already_emitted = progress.already_emitted.saturating_sub(1);
        emitted
    }

    /// Returns whether the events of an earlier process are being replayed.
    pub(crate) fn is_replaying(&self) -> bool {
        let recovery = self.recovery.as_ref();
        recovery.is_some_and(|recovery| recovery.progress.is_some())
    }

    /// Returns whether the current event of a replay was emitted before, or its files are copied.
    pub(crate) fn is_already_emitted(&self) -> bool {
        let Some(recovery) = &self.recovery else {
            return false;
        };
        let progress = recovery.progress.as_ref();
        progress.is_some_and(|progress| recovery.copied || progress.already_emitted > 0)
    }

    /// Returns whether the current event of a replay is so recent that files of it may be missing.
    pub(crate) fn is_recent(&self) -> bool {
        let recovery = self.recovery.as_ref().filter(|recovery| !recovery.copied);
        let progress = recovery.and_then(|recovery| recovery.progress.as_ref());
        progress.is_some_and(|progress| progress.recent)
    }

    /// Applies a durable event to the machine.
    pub(crate) fn apply_pending(&mut self, pending: PendingEvent) {
        let JournalEvent {
            elapsed,
            event,
            usage,
            snapshot,
        } = pending.event;
        if let Some(recovery) = &mut self.recovery {
            recovery.is_blank = false;
        }
        self.count_turn(&event);
        self.apply_event(event, usage, snapshot, Duration::from_nanos(elapsed));
    }

    /// Counts an ended turn of a node in the script.
    fn count_turn(&mut self, event: &Event) {
        if self.run.settings.script.is_none() {
            return;
        }
        let asked = |id: &EffectId| self.machine.questions().iter().any(|(open, _)| open == id);
        let node = match event {
            Event::NodeFinished { id, .. } => id.node,
            // A timer counts if it is the time-out of a question, not the delay before the question is asked again.
            Event::Answered { id, .. } | Event::TimerFired { id } if asked(id) => id.node,
            _ => return,
        };
        if let Some(journal) = &mut self.journal {
            journal.count_turn(node);
        }
    }
}
