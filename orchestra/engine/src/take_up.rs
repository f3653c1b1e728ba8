//! A run that another process began: its journal is told to the machine again (rules D1, D4).

use std::collections::HashSet;
use std::time::Duration;

use orchestra_core::{Effect, EffectId, Event, RetryPoint, RunFailure};

use crate::clock::Timestamp;
use crate::deadline::Began;
use crate::driver::Driver;
use crate::event::EventKind;
use crate::keeping::Noted;
use crate::records::{Entry, Happened, Record};
use crate::run::LATER;
use crate::store::StoreError;

/// What a run was taken up with.
#[derive(Default)]
pub(crate) struct TakenUp {
    pub(crate) epoch: u64,
    /// What was found damaged and mended, in words.
    pub(crate) repaired: Vec<String>,
    /// The run whose checkpoint it goes on from, where that is another one.
    pub(crate) replayed_from: Option<String>,
    /// Whether the files of stages that had ended are copied from another run.
    pub(crate) copied: bool,
    /// Whether the machine was told to begin.
    pub(crate) begun: bool,
    /// How the run ended, where it had.
    pub(crate) ended: Option<Option<RunFailure>>,
    /// Whether the events say how the run ended.
    pub(crate) end_told: bool,
    /// Whether the checkpoint says so too: nothing is left to be written.
    pub(crate) end_kept: bool,
    /// The stages that were in flight.
    pub(crate) repeats: HashSet<EffectId>,
    /// Whether the journal says nothing yet: an earlier process may have begun any stage that comes before its first
    /// outcome.
    pub(crate) is_blank: bool,
    /// Which events the machine causes again, and how many are written already.
    pub(crate) retelling: Option<Retelling>,
    /// How many events were told when it was taken up.
    pub(crate) events: u64,
    /// Where the run is retried, which failed.
    pub(crate) retry: Option<RetryPoint>,
    /// All that is to happen to the run before it pauses again; no stage is run.
    pub(crate) only: Option<Box<Only>>,
}

/// What happens to a run that nobody executes.
pub(crate) struct Only {
    pub(crate) event: Event,
    /// What is told of it, where the machine does not tell it.
    pub(crate) told: Option<EventKind>,
}

pub(crate) struct Retelling {
    /// How many of the events that the machine causes again are written already.
    known: u64,
    /// Whether it is among the last records.
    recent: bool,
}

/// What of the journal was told before.
#[derive(Clone, Copy, Default)]
pub(crate) struct Known {
    /// So many records were told, and what they caused.
    pub(crate) records: usize,
    /// So many of the events were told that those behind them cause.
    pub(crate) events: u64,
}

impl TakenUp {
    /// The run did not end where it had failed; `told_more` says whether events were told since.
    fn is_retried(&mut self, told_more: bool) {
        self.ended = None;
        self.end_kept = false;
        self.end_told &= told_more;
    }
}

impl Driver {
    /// Why the run failed that was taken up.
    pub(crate) fn failure(&self) -> Option<&RunFailure> {
        self.taken_up.as_ref()?.ended.as_ref()?.as_ref()
    }

    /// Goes on with a run that failed.
    pub(crate) fn will_retry(&mut self, point: RetryPoint) {
        if let Some(taken_up) = &mut self.taken_up {
            taken_up.is_retried(false);
            taken_up.retry = Some(point);
        }
    }

    /// Tells the machine what the journal holds behind the state that it has. Events that were lost are told anew.
    pub(crate) fn replay(&mut self, records: &[(u64, Record)], known: Known) -> Result<(), StoreError> {
        // What is told again tells what attempts used.
        self.run.used_before();
        let mut boot = None;
        let mut left = known.events;
        for (at, (number, record)) in records.iter().enumerate() {
            let recent = records.len() - at <= LATER;
            let told = at < known.records;
            self.machine.observe(!told || recent);
            if let Some(taken_up) = &mut self.taken_up {
                let known = if told { u64::MAX } else { left };
                taken_up.retelling = Some(Retelling { known, recent });
            }
            self.now = Timestamp::from_millis(record.at);
            match &record.entry {
                Entry::Begin { boot: of, .. } => {
                    boot.clone_from(of);
                    let pipeline = &self.run.pipeline;
                    let (name, goal) = (pipeline.name.to_string(), pipeline.goal().to_owned());
                    self.emit(EventKind::PipelineStarted { name, goal });
                    self.machine.begin(&mut self.effects);
                    if let Some(taken_up) = &mut self.taken_up {
                        taken_up.begun = true;
                    }
                }
                Entry::Resume { boot: of, .. } => boot.clone_from(of),
                Entry::Changed { .. } | Entry::Restored { .. } => {}
                Entry::Happened(happened) => {
                    self.elapsed = Duration::from_nanos(happened.elapsed);
                    self.before = self.elapsed;
                    self.count_turn(&happened.event);
                    if let (Event::TimerFired { id }, Some(keeping)) = (&happened.event, &mut self.keeping) {
                        keeping.timer_over(id);
                    }
                    if let (Event::Retried { .. }, Some(taken_up)) = (&happened.event, &mut self.taken_up) {
                        taken_up.is_retried(record.events < taken_up.events);
                    }
                    let snapshot = happened.snapshot.clone();
                    self.tell_machine(happened.event.clone(), happened.usage, snapshot, self.elapsed);
                }
            }
            if let Some(keeping) = &mut self.keeping {
                keeping.told = *number;
            }
            let began = Began::of(self.now, record.real, boot.clone());
            self.retell(&began)?;
            let taken_up = self.taken_up.as_ref();
            if let Some(retelling) = taken_up.and_then(|taken_up| taken_up.retelling.as_ref())
                && !told
            {
                left = retelling.known;
            }
        }
        if let Some(taken_up) = &mut self.taken_up {
            taken_up.retelling = None;
        }
        self.forget_pause();
        Ok(())
    }

    /// Tells what was lost, and keeps in mind which waits began.
    fn retell(&mut self, began: &Began) -> Result<(), StoreError> {
        let mut effects = std::mem::take(&mut self.effects);
        let last_ended = self.last_ended(&effects);
        for (at, effect) in effects.drain(..).enumerate() {
            match effect {
                Effect::Observe(observation) => self.tell_one(observation, last_ended == Some(at))?,
                Effect::Restart { restart, .. } => self.run.restarted(restart)?,
                Effect::StartTimer { id, .. } => {
                    if let Some(keeping) = &mut self.keeping {
                        keeping.timer_began(&id, began.clone());
                    }
                }
                Effect::CancelEffect { id } => {
                    if let Some(keeping) = &mut self.keeping {
                        keeping.timer_over(&id);
                    }
                }
                Effect::Finish { failure } => {
                    if let Some(taken_up) = &mut self.taken_up {
                        taken_up.ended = Some(failure);
                    }
                }
                _ => {}
            }
        }
        self.effects = effects;
        Ok(())
    }

    /// Goes on: what was in flight is begun again.
    pub(crate) fn go_on(&mut self) -> Result<(), StoreError> {
        let mut again = Vec::new();
        self.machine.reissue(&mut again);
        let Some(taken_up) = &mut self.taken_up else {
            return Ok(());
        };
        // A wait before an attempt that has yet to begin is no repeat of it.
        let begun = again.iter().filter_map(|effect| match effect {
            Effect::RunNode { id, .. } | Effect::AskHuman { id, .. } => Some(id.clone()),
            _ => None,
        });
        taken_up.repeats = begun.collect();
        self.run.is_resumed();
        self.run.used_before();
        let (epoch, repaired) = (taken_up.epoch, std::mem::take(&mut taken_up.repaired));
        let replayed_from = taken_up.replayed_from.take();
        let retry = taken_up.retry.take();
        let mut checkpoint = String::new();
        if let Some(keeping) = &mut self.keeping {
            checkpoint = keeping.checkpoint();
            keeping.resume(&self.run)?;
        }
        self.emit(EventKind::PipelineResumed {
            checkpoint,
            epoch,
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
            self.happened(Event::Retried { node, from_edges });
        }
        self.effects.append(&mut again);
        self.tell_all()?;
        self.heed_budget();
        if let Some(only) = self.taken_up.as_mut().and_then(|taken_up| taken_up.only.take()) {
            self.happened(only.event);
            if let Some(told) = only.told {
                self.emit(told);
            }
            self.pause(Event::PauseRequested {
                reason: "nobody executes it".to_owned(),
            });
        }
        Ok(())
    }

    /// Whether an attempt was in flight when the run stopped, and is made again.
    pub(crate) fn repeats(&self, id: &EffectId) -> bool {
        let taken_up = self.taken_up.as_ref();
        taken_up.is_some_and(|taken_up| taken_up.retelling.is_none() && taken_up.repeats.contains(id))
    }

    /// Returns whether an attempt may have begun in an earlier process, whose journal may say nothing of it.
    pub(crate) fn may_repeat(&self, id: &EffectId) -> bool {
        let is_blank = self.taken_up.as_ref().is_some_and(|taken_up| taken_up.is_blank);
        is_blank || self.repeats(id)
    }

    /// Whether the events that another process wrote say how the run ended.
    pub(crate) fn is_end_told(&self) -> bool {
        self.taken_up.as_ref().is_some_and(|taken_up| taken_up.end_told)
    }

    /// Whether nothing is left to be written of a run that is over.
    pub(crate) fn is_end_kept(&self) -> bool {
        self.taken_up.as_ref().is_some_and(|taken_up| taken_up.end_kept)
    }

    /// Counts an event that the machine causes; says whether it was told before.
    pub(crate) fn was_told(&mut self) -> bool {
        let taken_up = self.taken_up.as_mut();
        let Some(retelling) = taken_up.and_then(|taken_up| taken_up.retelling.as_mut()) else {
            return false;
        };
        let known = retelling.known > 0;
        retelling.known = retelling.known.saturating_sub(1);
        known
    }

    /// Whether the machine is told again what another process told it.
    pub(crate) fn is_retelling(&self) -> bool {
        let taken_up = self.taken_up.as_ref();
        taken_up.is_some_and(|taken_up| taken_up.retelling.is_some())
    }

    /// Whether what the machine tells now was told before, or is copied.
    pub(crate) fn is_known(&self) -> bool {
        let Some(taken_up) = &self.taken_up else {
            return false;
        };
        let retelling = taken_up.retelling.as_ref();
        retelling.is_some_and(|retelling| taken_up.copied || retelling.known > 0)
    }

    /// Whether what the machine tells now is so recent that files may be missing.
    pub(crate) fn is_recent(&self) -> bool {
        let taken_up = self.taken_up.as_ref().filter(|taken_up| !taken_up.copied);
        let retelling = taken_up.and_then(|taken_up| taken_up.retelling.as_ref());
        retelling.is_some_and(|retelling| retelling.recent)
    }

    /// Tells the machine what is durable.
    pub(crate) fn tell_noted(&mut self, noted: Noted) {
        let Happened {
            elapsed,
            event,
            usage,
            snapshot,
        } = noted.happened;
        if let Some(taken_up) = &mut self.taken_up {
            taken_up.is_blank = false;
        }
        self.count_turn(&event);
        self.tell_machine(event, usage, snapshot, Duration::from_nanos(elapsed));
    }

    /// Counts a turn of a node's script that is over.
    fn count_turn(&mut self, event: &Event) {
        if self.run.settings.script.is_none() {
            return;
        }
        let asked = |id: &EffectId| self.machine.questions().iter().any(|(open, _)| open == id);
        let node = match event {
            Event::NodeFinished { id, .. } => id.node,
            // The time-out of a question, and not the wait before it is put again.
            Event::Answered { id, .. } | Event::TimerFired { id } if asked(id) => id.node,
            _ => return,
        };
        if let Some(keeping) = &mut self.keeping {
            keeping.count_turn(node);
        }
    }
}
