//! The records of the journal: the events of the machine in order, with the owner that wrote them (rules D1, D5).

use orchestra_core::{EffectId, Event, RunFailure, SavedState, Snapshot, Usage};
use serde::{Deserialize, Serialize};

use crate::gates::deadline::Began;
use crate::store::{PinnedSource, RunIdentity};

/// A record of the journal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The fencing token of the owner that wrote the record.
    pub(crate) fencing_token: u64,
    /// The time of the record in milliseconds since 1970-01-01 UTC.
    pub(crate) at: u64,
    /// The time of the record in microseconds, on the clock that includes the time during which the machine was
    /// suspended.
    pub(crate) real: u64,
    /// The number of events that were emitted before.
    pub(crate) events: u64,
    /// The number of records before this one that had not been applied to the machine yet.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) unapplied: u64,
    /// The number of changes to the artifacts that this owner knew of. A replay rewinds the artifacts to it (rule D4).
    #[serde(default)]
    pub(crate) artifacts: u64,
    pub(crate) entry: Entry,
}

/// Returns whether a number can be omitted.
pub(crate) fn is_none(number: &u64) -> bool {
    *number == 0
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry {
    /// The run begins; the manifest describes it.
    Begin {
        run: String,
        protocol: u32,
        /// The identity of the run; journals of earlier versions only have `run`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<RunIdentity>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<String>,
    },
    /// Another process resumes the run.
    Resume {
        engine: String,
        /// The identity of the run, with the pipeline that it is resumed with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<RunIdentity>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<String>,
    },
    /// The run goes on from this state, which no record before it leads to: records of the journal were lost and the loss
    /// was accepted, or the journal is that of a copy of a run.
    Restored {
        state: Box<CheckpointState>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<RunIdentity>,
    },
    /// An event was applied to the run.
    Event(Box<JournalEvent>),
    /// The pipeline was changed, and the change was accepted (rule D6). The fields hold the pipeline before the change.
    Changed {
        pipeline: Box<PinnedSource>,
        /// The hash of the pipeline after the change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        now: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        children: Vec<PinnedSource>,
        /// The state of the run in the changed pipeline.
        state: Box<CheckpointState>,
    },
}

/// An event with the data that belongs to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JournalEvent {
    /// The time for which the run had been executed, in nanoseconds.
    pub(crate) elapsed: u64,
    pub(crate) event: Event,
    /// The usage of the attempt that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Usage>,
    /// The snapshot of the files that the attempt left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) snapshot: Option<Snapshot>,
}

/// The state of a run as a checkpoint holds it: everything that is needed to resume the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CheckpointState {
    pub(crate) machine: SavedState,
    /// The timers in progress.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) timers: Vec<(EffectId, Began)>,
    /// The number of simulated visits of each node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) turns: Vec<(u32, usize)>,
    /// The attempts that are due, but which no process has begun, because none executes the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) due: Vec<EffectId>,
    /// The time for which the run had been executed, in nanoseconds.
    pub(crate) elapsed: u64,
    /// The failure of the run, if its pipeline was changed before a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<RunFailure>,
}
