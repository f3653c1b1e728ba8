//! What the driver keeps of a run, so that another process can go on with it (rules D1 to D6).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{EffectId, Event, Machine, Snapshot, Usage};
use orchestra_graph::{Mapping, NodeIndex};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::deadline::{self, Began};
use crate::records::{Entry, Happened, Kept, is_none};
use crate::run::Run;
use crate::store::{Commit, PROTOCOL, Position, RunStore, StoreError, Synced, checkpoint_name};

/// The journal of a run that goes on, and what of it the machine was not told yet.
pub(crate) struct Keeping {
    store: Arc<dyn RunStore>,
    epoch: u64,
    /// Written, and not durable yet.
    written: VecDeque<Noted>,
    /// Durable; the machine is to be told.
    ready: VecDeque<Noted>,
    /// The waits that are under way.
    pub(crate) timers: Vec<(EffectId, Began)>,
    /// How often each node was simulated.
    pub(crate) turns: Vec<(u32, usize)>,
    /// The number of the last record that the machine was told of.
    pub(crate) told: u64,
}

/// An event in the journal.
pub(crate) struct Noted {
    number: u64,
    pub(crate) happened: Happened,
}

impl Keeping {
    pub(crate) fn new(store: Arc<dyn RunStore>, epoch: u64) -> Keeping {
        Keeping {
            store,
            epoch,
            written: VecDeque::new(),
            ready: VecDeque::new(),
            timers: Vec::new(),
            turns: Vec::new(),
            told: 0,
        }
    }

    /// Writes that the run begins.
    pub(crate) fn begin(&self, run: &Run) -> Result<(), StoreError> {
        let begin = Entry::Begin {
            run: run.id.to_string(),
            protocol: PROTOCOL,
            identity: self.store.identity(),
            boot: run.settings.clock.boot_id().map(str::to_owned),
        };
        self.append(run, &begin).map(drop)
    }

    /// Writes that another process goes on with the run.
    pub(crate) fn resume(&mut self, run: &Run) -> Result<(), StoreError> {
        let resume = Entry::Resume {
            engine: env!("CARGO_PKG_VERSION").to_owned(),
            identity: self.store.identity(),
            boot: run.settings.clock.boot_id().map(str::to_owned),
        };
        self.told = self.append(run, &resume)?;
        Ok(())
    }

    /// Writes what happened behind what happened before. It counts when it is [durable](Keeping::commit).
    pub(crate) fn note(
        &mut self,
        run: &Run,
        elapsed: Duration,
        event: Event,
        usage: Option<Usage>,
        snapshot: Option<Snapshot>,
    ) -> Result<(), StoreError> {
        let happened = Happened {
            elapsed: nanos(elapsed),
            event,
            usage,
            snapshot,
        };
        let number = self.append(run, &Written { happened: &happened })?;
        self.written.push_back(Noted { number, happened });
        Ok(())
    }

    /// Writes a record; gives its number.
    pub(crate) fn append(&self, run: &Run, entry: &impl Serialize) -> Result<u64, StoreError> {
        #[derive(Serialize)]
        struct Whole<'a, T> {
            epoch: u64,
            at: u64,
            real: u64,
            events: u64,
            #[serde(skip_serializing_if = "is_none")]
            untold: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            artifacts: Option<u64>,
            entry: &'a T,
        }
        if !self.store.keeps_journal() {
            return Ok(0);
        }
        let clock = &run.settings.clock;
        let record = Whole {
            epoch: self.epoch,
            at: clock.now().as_millis(),
            real: deadline::micros(&**clock),
            events: run.sink.told(),
            untold: (self.written.len() + self.ready.len()) as u64,
            artifacts: run.artifact_changes(),
            entry,
        };
        let json = serde_json::to_vec(&record).map_err(|source| self.unwritable("journal.jsonl", source))?;
        let position = self.store.append(&json)?;
        Ok(position.records.saturating_sub(1))
    }

    fn unwritable(&self, file: &str, source: serde_json::Error) -> StoreError {
        let path = self.store.folder().join(file);
        StoreError::Json { path, source }
    }

    /// Makes durable what is written; where that takes a while, there is something to wait for.
    pub(crate) fn commit(&mut self) -> Result<Option<Commit>, StoreError> {
        match self.store.sync()? {
            Synced::Done => {
                self.committed();
                Ok(None)
            }
            Synced::Later(commit) => Ok(Some(commit)),
        }
    }

    /// What is written is durable.
    pub(crate) fn committed(&mut self) {
        self.ready.append(&mut self.written);
    }

    /// Whether something is written that does not count yet.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.written.is_empty()
    }

    /// Whether the machine was told everything.
    pub(crate) fn is_settled(&self) -> bool {
        self.written.is_empty() && self.ready.is_empty()
    }

    /// What the machine is to be told next.
    pub(crate) fn next(&mut self) -> Option<Noted> {
        let noted = self.ready.pop_front()?;
        self.told = noted.number;
        if let Event::TimerFired { id } = &noted.happened.event {
            self.timer_over(id);
        }
        Some(noted)
    }

    pub(crate) fn timer_over(&mut self, id: &EffectId) {
        self.timers.retain(|(of, _)| of != id);
    }

    /// When a wait began that another process started, else now.
    pub(crate) fn timer_began(&mut self, id: &EffectId, now: Began) -> Began {
        if let Some((_, began)) = self.timers.iter().find(|(of, _)| of == id) {
            return began.clone();
        }
        self.timers.push((id.clone(), now.clone()));
        now
    }

    /// The name of the checkpoint that stands for what the machine was told last.
    pub(crate) fn checkpoint(&self) -> String {
        checkpoint_name(self.told)
    }

    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.is_settled() && self.store.wants_checkpoint()
    }

    /// Whether there are checkpoints to go back to.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.store.keeps_journal()
    }

    /// The waits that go on in a changed pipeline.
    pub(crate) fn timers_over(&self, mapping: &Mapping) -> Vec<(EffectId, Began)> {
        let timers = self.timers.iter();
        timers
            .filter_map(|(id, began)| Some((id.carried_over(mapping)?, began.clone())))
            .collect()
    }

    /// How often each node was simulated, in a changed pipeline.
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

    /// All that the run needs to go on, in the form in which it is written, and how far the journal is.
    pub(crate) fn kept_here(
        &self,
        machine: &Machine,
        elapsed: Duration,
    ) -> Result<(Box<RawValue>, Position), StoreError> {
        let kept = Kept {
            machine: machine.saved(),
            timers: self.timers.clone(),
            turns: self.turns.clone(),
            elapsed: nanos(elapsed),
            failure: None,
        };
        let written = serde_json::value::to_raw_value(&kept);
        let written = written.map_err(|source| self.unwritable("checkpoint.json", source))?;
        Ok((written, self.store.position()))
    }
}

/// An entry without a copy.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
struct Written<'a> {
    happened: &'a Happened,
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
