//! What the object of a run stores, and why a turn may not be possible.

use std::sync::Arc;

use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::blobs::BlobError;
use crate::hosts::{NoVersion, Place, Version};
use crate::packing::{Packed, UnpackError};
use crate::refusal::{Refusal, refused};
use crate::turn::OpenRun;
use crate::wire::{Parent, keys};

/// Everything of a run that each turn reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) facts: Facts,
    /// A [`RunState`](crate::state::RunState).
    pub(super) state: Packed,
    /// The blob of the state before the last turn, which nobody reads any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stale: Option<String>,
    /// `true` if no turn can be taken. The reason has a key of its own.
    #[serde(default)]
    pub(super) is_parked: bool,
    /// `true` if attempts were sent to a pool whose files they work on, and the run has not left them yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_files: bool,
    pub(super) events: LatestEvents,
}

/// The events of a run that are not in a segment yet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct LatestEvents {
    /// The blob of the last segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) segment: Option<String>,
    /// The number of keys with events.
    pub(super) keys: u64,
    /// The size of the events of these keys in bytes.
    pub(super) size: usize,
    /// The events after those.
    pub(super) last: Vec<Box<RawValue>>,
}

/// What does not change after the start of a run, unless it is moved to a changed pipeline. The fields before the secret are
/// read by a [query](crate::admin::Admin::versions_in_use).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Facts {
    pub(super) pipeline: String,
    pub(super) hash: String,
    /// The blob with the sources.
    pub(super) sources: String,
    /// The sub-pipeline stages that lead to the pipeline of the run, from that of the first run.
    pub(super) stages: Vec<u32>,
    /// `true` once the run has ended.
    #[serde(default)]
    pub(super) has_ended: bool,
    /// The secret that reports must name. It changes with the pipeline, so that older reports are recognized.
    pub(super) secret: String,
    /// The pipelines that the run followed before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) earlier: Vec<Earlier>,
    /// The request to start it, to recognize it when it arrives again.
    pub(super) request: String,
    /// The attempt that started the run, if it is a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<Parent>,
    /// `true` if the stage that started the run took too long.
    pub(super) timed_out: bool,
}

/// A pipeline that a run followed before it was moved to a changed one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Earlier {
    /// The blob with the sources.
    pub(super) sources: String,
    /// The secret of then.
    pub(super) secret: String,
}

impl Facts {
    /// Returns the place of the pipeline.
    pub(super) fn place(&self) -> Place {
        Place {
            name: self.pipeline.clone(),
            sources: self.sources.clone(),
            stages: self.stages.clone(),
        }
    }
}

/// A run that is ready for a turn.
pub(super) struct Opened {
    pub(super) run: OpenRun,
    /// The blob of its state, if it is one.
    pub(super) blob: Option<String>,
    pub(super) version: Arc<Version>,
}

/// The reason for which a turn cannot be taken.
pub(super) enum Obstacle {
    /// It needs a person: something must be restored, or another worker must run.
    Parked(String),
    /// Another try may succeed.
    Temporary(HandlerError),
}

impl From<BlobError> for Obstacle {
    fn from(error: BlobError) -> Obstacle {
        match error.is_lost() {
            true => Obstacle::Parked(error.to_string()),
            false => Obstacle::Temporary(error.into()),
        }
    }
}

impl From<NoVersion> for Obstacle {
    fn from(error: NoVersion) -> Obstacle {
        match error {
            NoVersion::Blob(error) => error.into(),
            error => Obstacle::Parked(error.to_string()),
        }
    }
}

impl From<TerminalError> for Obstacle {
    fn from(error: TerminalError) -> Obstacle {
        Obstacle::Temporary(error.into())
    }
}

impl Obstacle {
    pub(super) fn into_error(self) -> HandlerError {
        match self {
            Obstacle::Parked(reason) => refused(Refusal::Parked(reason)),
            Obstacle::Temporary(error) => error,
        }
    }
}

impl From<UnpackError> for Obstacle {
    fn from(error: UnpackError) -> Obstacle {
        match error {
            UnpackError::Blob(error) => error.into(),
            UnpackError::Json(error) => Obstacle::Parked(format!(
                "this worker cannot read what another version wrote: {error}"
            )),
        }
    }
}

/// Returns the record of the run.
pub(super) async fn record(ctx: &ObjectContext<'_>) -> HandlerResult<Record> {
    match ctx.get::<Json<Record>>(keys::RUN).await? {
        Some(Json(record)) => Ok(record),
        None => Err(refused(Refusal::UnknownRun(ctx.key().to_owned()))),
    }
}
