//! What the object of a run stores, and why a turn may not be possible.

use restate_sdk::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::blobs::{BlobError, Blobs};
use crate::hosts::{NoVersion, Place};
use crate::packing::unpack;
use crate::refusal::{Refusal, refused};
use crate::state::RunState;
use crate::wire::Parent;

/// What does not change after the start of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Facts {
    pub(super) pipeline: String,
    pub(super) hash: String,
    /// The blob with the sources.
    pub(super) sources: String,
    pub(super) secret: String,
    /// The initial context. Large values are references to blobs.
    #[serde(default)]
    pub(super) params: Value,
    /// The request to start it, to recognize it when it arrives again.
    pub(super) request: String,
    /// The run whose blobs contain the sources.
    pub(super) root: String,
    /// The sub-pipeline stages that lead to the pipeline of the run, from that of the root.
    pub(super) stages: Vec<u32>,
    /// The attempt that started the run, if it is a child.
    pub(super) parent: Option<Parent>,
    /// `true` if the stage that started the run took too long.
    pub(super) timed_out: bool,
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

/// The state of a run between two turns, as it is stored.
pub(super) struct Stored {
    pub(super) state: RunState,
    /// The blob of the whole state, if it is one.
    pub(super) blob: Option<String>,
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

/// The keys of the state of the object.
pub(super) mod keys {
    use crate::names::Names;

    pub(in crate::run_object) const FACTS: &str = "facts";
    pub(in crate::run_object) const RUN: &str = "run";
    pub(in crate::run_object) const EVENTS: &str = "events";
    /// The reason for which no turn can be taken.
    pub(in crate::run_object) const PARKED: &str = "parked";
    /// The messages that arrived since.
    pub(in crate::run_object) const HELD: &str = "held";
    /// The blob of the state before the last turn, which nobody reads any more.
    pub(in crate::run_object) const STALE: &str = "stale";

    /// Returns a key of events.
    pub(in crate::run_object) fn events(number: u64) -> &'static str {
        static NAMES: Names = Names::new("events-");
        NAMES.get(number)
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

pub(super) async fn facts(ctx: &ObjectContext<'_>) -> HandlerResult<Facts> {
    match ctx.get::<Json<Facts>>(keys::FACTS).await? {
        Some(Json(facts)) => Ok(facts),
        None => Err(refused(Refusal::UnknownRun(ctx.key().to_owned()))),
    }
}

/// Reads a stored value whose large parts are blobs of a run.
pub(super) async fn read<T: DeserializeOwned>(blobs: &Blobs, run: &str, value: Value) -> Result<T, Obstacle> {
    let value = unpack(blobs, run, value).await?;
    serde_json::from_value(value).map_err(|error| {
        Obstacle::Parked(format!(
            "this worker cannot read what another version wrote: {error}"
        ))
    })
}
