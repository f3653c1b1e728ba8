//! The journal of a run: what the driver persists so that another process can resume the run (rules D1 to D6).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{EffectId, Event, Machine, Snapshot, Usage};
use orchestra_graph::{Mapping, NodeIndex};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::gates::deadline::{self, Began};
use crate::journal::records::{CheckpointState, Entry, JournalEvent, is_none};
use crate::run::state::Run;
use crate::store::{
    CHECKPOINT, Commit, JOURNAL, PROTOCOL, Position, RunStore, StoreError, Synced, checkpoint_name,
};

/// The journal of a run that is being executed, with the events that have not been applied to the machine yet.
pub(crate) struct JournalWriter {
    store: Arc<dyn RunStore>,
    fencing_token: u64,
    /// The events that are written but not durable yet.
    written: VecDeque<PendingEvent>,
    /// The durable events that have not been applied to the machine yet.
    ready: VecDeque<PendingEvent>,
    /// The timers in progress.
    pub(crate) timers: Vec<(EffectId, Began)>,
    /// The number of simulated visits of each node.
    pub(crate) turns: Vec<(u32, usize)>,
    /// The number of the last record that was applied to the machine.
    pub(crate) applied: u64,
}

/// An event in the journal that has not been applied to the machine yet.
pub(crate) struct PendingEvent {
    number: u64,
    pub(crate) event: JournalEvent,
}

impl JournalWriter {
    pub(crate) fn new(store: Arc<dyn RunStore>, fencing_token: u64) -> JournalWriter {
        JournalWriter {
            store,
            fencing_token,
            written: VecDeque::new(),
            ready: VecDeque::new(),
            timers: Vec::new(),
            turns: Vec::new(),
            applied: 0,
        }
    }

    /// Writes the record that begins the run.
    pub(crate) fn begin(&self, run: &Run) -> Result<(), StoreError> {
        let begin = Entry::Begin {
            run: run.id.to_string(),
            protocol: PROTOCOL,
            identity: self.store.identity(),
            boot: run.settings.clock.boot_id().map(str::to_owned),
        };
        self.append(run, &begin).map(drop)
    }

    /// Writes the record of another process resuming the run.
    pub(crate) fn resume(&mut self, run: &Run) -> Result<(), StoreError> {
        let resume = Entry::Resume {
            engine: env!("CARGO_PKG_VERSION").to_owned(),
            identity: self.store.identity(),
            boot: run.settings.clock.boot_id().map(str::to_owned),
        };
        self.applied = self.append(run, &resume)?;
        Ok(())
    }

    /// Appends an event to the journal. It is applied once it is [durable](JournalWriter::commit).
    pub(crate) fn note(
        &mut self,
        run: &Run,
        elapsed: Duration,
        event: Event,
        usage: Option<Usage>,
        snapshot: Option<Snapshot>,
    ) -> Result<(), StoreError> {
        let recorded = JournalEvent {
            elapsed: nanos(elapsed),
            event,
            usage,
            snapshot,
        };
        let number = self.append(run, &EventEntry { event: &recorded })?;
        self.written.push_back(PendingEvent {
            number,
            event: recorded,
        });
        Ok(())
    }

    /// Appends a record. Returns its number.
    pub(crate) fn append(&self, run: &Run, entry: &impl Serialize) -> Result<u64, StoreError> {
        #[derive(Serialize)]
        struct Whole<'a, T> {
            fencing_token: u64,
            at: u64,
            real: u64,
            events: u64,
            #[serde(skip_serializing_if = "is_none")]
            unapplied: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            artifacts: Option<u64>,
            entry: &'a T,
        }
        if !self.store.keeps_journal() {
            return Ok(0);
        }
        let clock = &run.settings.clock;
        let record = Whole {
            fencing_token: self.fencing_token,
            at: clock.now().as_millis(),
            real: deadline::micros(&**clock),
            events: run.sink.emitted(),
            unapplied: (self.written.len() + self.ready.len()) as u64,
            artifacts: run.artifact_changes(),
            entry,
        };
        let json = serde_json::to_vec(&record).map_err(|source| self.unwritable(JOURNAL, source))?;
        let position = self.store.append(&json)?;
        Ok(position.records.saturating_sub(1))
    }

    fn unwritable(&self, file: &str, source: serde_json::Error) -> StoreError {
        let path = self.store.folder().join(file);
        StoreError::Json { path, source }
    }

    /// Makes the written events durable. Returns a future to wait for if that takes time.
    pub(crate) fn commit(&mut self) -> Result<Option<Commit>, StoreError> {
        match self.store.sync()? {
            Synced::Done => {
                self.committed();
                Ok(None)
            }
            Synced::Later(commit) => Ok(Some(commit)),
        }
    }

    /// Marks the written events as durable.
    pub(crate) fn committed(&mut self) {
        self.ready.append(&mut self.written);
    }

    /// Returns whether there are written events that are not durable yet.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.written.is_empty()
    }

    /// Returns whether all events have been applied to the machine.
    pub(crate) fn is_fully_applied(&self) -> bool {
        self.written.is_empty() && self.ready.is_empty()
    }

    /// Takes the next event to apply to the machine.
    pub(crate) fn next(&mut self) -> Option<PendingEvent> {
        let pending = self.ready.pop_front()?;
        self.applied = pending.number;
        if let Event::TimerFired { id } = &pending.event.event {
            self.timer_over(id);
        }
        Some(pending)
    }

    pub(crate) fn timer_over(&mut self, id: &EffectId) {
        self.timers.retain(|(of, _)| of != id);
    }

    /// Returns when a timer began, if another process started it, else `now`.
    pub(crate) fn timer_began(&mut self, id: &EffectId, now: Began) -> Began {
        if let Some((_, began)) = self.timers.iter().find(|(of, _)| of == id) {
            return began.clone();
        }
        self.timers.push((id.clone(), now.clone()));
        now
    }

    /// Returns the name of the checkpoint after the last applied record.
    pub(crate) fn checkpoint(&self) -> String {
        checkpoint_name(self.applied)
    }

    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.is_fully_applied() && self.store.wants_checkpoint()
    }

    /// Returns whether there are checkpoints to replay the run from.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.store.keeps_journal()
    }

    /// Returns the timers that still exist in a changed pipeline.
    pub(crate) fn timers_over(&self, mapping: &Mapping) -> Vec<(EffectId, Began)> {
        let timers = self.timers.iter();
        timers
            .filter_map(|(id, began)| Some((id.carried_over(mapping)?, began.clone())))
            .collect()
    }

    /// Returns the number of simulated visits of each node in a changed pipeline.
    pub(crate) fn turns_over(&self, mapping: &Mapping) -> Vec<(u32, usize)> {
        let turns = self.turns.iter();
        turns
            .filter_map(|(node, turns)| Some((mapping.node(NodeIndex(*node))?.0, *turns)))
            .collect()
    }

    pub(crate) fn count_turn(&mut self, node: NodeIndex) {
        match self.turns.iter_mut().find(|(of, _)| *of == node.0) {
            Some((_, turns)) => *turns += 1,
            None => self.turns.push((node.0, 1)),
        }
    }

    /// Returns the serialized state that is needed to resume the run, and the position of the journal.
    pub(crate) fn checkpoint_state(
        &self,
        machine: &Machine,
        due: Vec<EffectId>,
        elapsed: Duration,
    ) -> Result<(Box<RawValue>, Position), StoreError> {
        let state = CheckpointState {
            machine: machine.saved(),
            timers: self.timers.clone(),
            turns: self.turns.clone(),
            due,
            elapsed: nanos(elapsed),
            failure: None,
        };
        let written = serde_json::value::to_raw_value(&state);
        let written = written.map_err(|source| self.unwritable(CHECKPOINT, source))?;
        Ok((written, self.store.position()))
    }
}

/// A journal entry that borrows its event.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
struct EventEntry<'a> {
    event: &'a JournalEvent,
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
