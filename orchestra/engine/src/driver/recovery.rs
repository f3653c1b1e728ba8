//! The state of a run that another process began and this one recovers (rules D1, D4).

use std::collections::HashSet;

use orchestra_core::{EffectId, Event, RetryPoint, RunFailure};

use crate::event::EventKind;
use crate::recovery::lineage::ContextLineage;

/// The state of a recovered run.
#[derive(Default)]
pub(crate) struct Recovery {
    pub(crate) fencing_token: u64,
    /// The damage that was found and repaired, as messages.
    pub(crate) repaired: Vec<String>,
    /// The run whose checkpoint this run continues from, if it is another run.
    pub(crate) replayed_from: Option<String>,
    /// `true` if this process replays another run, so that no attempt in flight was ever made in this one.
    pub(crate) is_replay: bool,
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
    /// The attempts that were due when no process executed the run, and that none has begun.
    pub(crate) unbegun: Vec<EffectId>,
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
    /// The starts of stages that have no other event yet. `None` if stages are executed: otherwise, a stage that is due
    /// waits for the process that resumes the run.
    pub(crate) due: Option<Vec<(EffectId, EventKind)>>,
    /// The writers of the context values; `None` if nobody asks for them.
    pub(crate) lineage: Option<Box<ContextLineage>>,
}

/// An event that is applied to a run that no process executes.
pub(crate) struct OfflineEvent {
    pub(crate) event: Event,
    /// The event to emit for it, if the machine does not observe it.
    pub(crate) emits: Option<EventKind>,
}

pub(crate) struct ReplayProgress {
    /// The number of the following events that were emitted before.
    pub(super) already_emitted: u64,
    /// `true` if the record is one of the last.
    pub(super) recent: bool,
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
    pub(super) fn is_retried(&mut self, emitted_more: bool) {
        self.ended = None;
        self.end_saved = false;
        self.end_emitted &= emitted_more;
    }
}
