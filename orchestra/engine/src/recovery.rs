//! Recovery of a run that another process began: the driver replays its journal to the machine (rules D1, D4).

use std::collections::HashSet;
use std::time::Duration;

use orchestra_core::{Effect, EffectId, Event, RetryPoint, RunFailure};

use crate::clock::Timestamp;
use crate::deadline::Began;
use crate::driver::Driver;
use crate::event::EventKind;
use crate::journal_writer::PendingEvent;
use crate::records::{Entry, JournalEvent, Record};
use crate::run::LATER;
use crate::store::StoreError;

/// The state of a recovered run.
#[derive(Default)]
pub(crate) struct Recovery {
    pub(crate) fencing_token: u64,
    /// The damage that was found and repaired, as messages.
    pub(crate) repaired: Vec<String>,
    /// The run whose checkpoint this run continues from, if it is another run.
    pub(crate) replayed_from: Option<String>,
    /// `true` if the files of ended stages are copied from another run.
    pub(crate) copied: bool,
    /// `true` if the machine has begun.
    pub(crate) begun: bool,
    /// The end of the run, if it has ended; the inner value is its failure.
    pub(crate) ended: Option<Option<RunFailure>>,
    /// `true` if the end of the run was emitted.
    pub(crate) end_emitted: bool,
    /// `true` if the checkpoint holds the end too, so that nothing is left to write.
    pub(crate) end_saved: bool,
    /// The attempts that were in flight.
    pub(crate) repeats: HashSet<EffectId>,
    /// `true` while the journal holds no event. An earlier process may have begun any stage that comes before the first
    /// outcome.
    pub(crate) is_blank: bool,
    /// The progress of the replay; `None` if no replay is in progress.
    pub(crate) progress: Option<ReplayProgress>,
    /// The number of events that were emitted before the recovery.
    pub(crate) events: u64,
    /// The point from which a failed run is retried.
    pub(crate) retry: Option<RetryPoint>,
    /// The only event that is applied to the run before it is paused again; no stage is executed.
    pub(crate) offline: Option<Box<OfflineEvent>>,
}

/// An event that is applied to a run that no process executes.
pub(crate) struct OfflineEvent {
    pub(crate) event: Event,
    /// The event to emit for it, if the machine does not observe it.
    pub(crate) emits: Option<EventKind>,
}

pub(crate) struct ReplayProgress {
    /// The number of the following events that were emitted before.
    already_emitted: u64,
    /// `true` if the record is one of the last.
    recent: bool,
}

/// The part of the journal whose events were emitted before.
#[derive(Clone, Copy, Default)]
pub(crate) struct AlreadyEmitted {
    /// The number of records whose events were all emitted.
    pub(crate) records: usize,
    /// The number of emitted events of the records after these.
    pub(crate) events: u64,
}

impl Recovery {
    /// Removes the end of the run, because the run is retried. `emitted_more` is `true` if events were emitted since it
    /// failed.
    fn is_retried(&mut self, emitted_more: bool) {
        self.ended = None;
        self.end_saved = false;
        self.end_emitted &= emitted_more;
    }
}

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
        self.run.used_before();
        let mut boot = None;
        let mut left = emitted.events;
        for (at, (number, record)) in records.iter().enumerate() {
            let recent = records.len() - at <= LATER;
            let is_emitted = at < emitted.records;
            self.machine.observe(!is_emitted || recent);
            if let Some(recovery) = &mut self.recovery {
                let already_emitted = if is_emitted { u64::MAX } else { left };
                recovery.progress = Some(ReplayProgress {
                    already_emitted,
                    recent,
                });
            }
            self.now = Timestamp::from_millis(record.at);
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
                    self.elapsed = Duration::from_nanos(recorded.elapsed);
                    self.before = self.elapsed;
                    self.count_turn(&recorded.event);
                    if let (Event::TimerFired { id }, Some(journal)) = (&recorded.event, &mut self.journal) {
                        journal.timer_over(id);
                    }
                    if let (Event::Retried { .. }, Some(recovery)) = (&recorded.event, &mut self.recovery) {
                        recovery.is_retried(record.events < recovery.events);
                    }
                    let snapshot = recorded.snapshot.clone();
                    self.apply_event(recorded.event.clone(), recorded.usage, snapshot, self.elapsed);
                }
            }
            if let Some(journal) = &mut self.journal {
                journal.applied = *number;
            }
            let began = Began::new(self.now, record.real, boot.clone());
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
                Effect::Observe(observation) => self.emit_observation(observation, last_ended == Some(at))?,
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
        recovery.repeats = begun.collect();
        self.run.is_resumed();
        self.run.used_before();
        let (fencing_token, repaired) = (recovery.fencing_token, std::mem::take(&mut recovery.repaired));
        let replayed_from = recovery.replayed_from.take();
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
