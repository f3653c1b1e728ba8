//! What the journal holds: the events of the machine, in order, and who wrote them (rules D1, D5).

use orchestra_core::{EffectId, Event, RunFailure, SavedState, Snapshot, Usage};
use serde::{Deserialize, Serialize};

use crate::deadline::Began;
use crate::store::{PinnedPipeline, RunIdentity};

/// A record of the journal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Which owner wrote it.
    pub(crate) epoch: u64,
    /// When: the milliseconds since 1970 began.
    pub(crate) at: u64,
    /// When: the microseconds of the clock that goes on while the machine sleeps.
    pub(crate) real: u64,
    /// How many events were told before.
    pub(crate) events: u64,
    /// How many records before it the machine was not told of yet.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) untold: u64,
    /// How many changes the artifacts had seen, as far as this owner knew: a replay goes back to them (rule D4).
    #[serde(default)]
    pub(crate) artifacts: u64,
    pub(crate) entry: Entry,
}

/// Whether a number need not be written.
pub(crate) fn is_none(number: &u64) -> bool {
    *number == 0
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry {
    /// The run begins; what it is stands in the manifest.
    Begin {
        run: String,
        protocol: u32,
        /// The run in full; journals of earlier versions name it by `run` alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<RunIdentity>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<String>,
    },
    /// Another process goes on with it.
    Resume {
        engine: String,
        /// The run, with the pipeline that it goes on with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<RunIdentity>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<String>,
    },
    /// What the journal held was lost, and that was accepted; the run goes on from this state, which its checkpoint had.
    Restored {
        kept: Box<Kept>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<RunIdentity>,
    },
    /// Something happened to the run.
    Happened(Box<Happened>),
    /// The pipeline was changed, and that was accepted (rule D6); this is what it was before.
    Changed {
        pipeline: Box<PinnedPipeline>,
        /// The hash of what it is now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        now: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        children: Vec<PinnedPipeline>,
        /// Where the run stands in the changed pipeline.
        kept: Box<Kept>,
    },
}

/// An event, with what belongs to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Happened {
    /// The nanoseconds that the run was going.
    pub(crate) elapsed: u64,
    pub(crate) event: Event,
    /// What the attempt used that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Usage>,
    /// How it left the files of its line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) snapshot: Option<Snapshot>,
}

/// All that a run needs to go on, as a checkpoint holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) machine: SavedState,
    /// The waits that are under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) timers: Vec<(EffectId, Began)>,
    /// How often each node was simulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) turns: Vec<(u32, usize)>,
    /// The nanoseconds that the run was going.
    pub(crate) elapsed: u64,
    /// How the run had failed whose pipeline was changed before it was retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<RunFailure>,
}
