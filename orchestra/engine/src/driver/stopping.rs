//! The end or pause of a run that was requested.

use orchestra_core::Event;
use serde_json::value::RawValue;

use crate::store::Position;

/// The end or pause of a run that was requested.
#[derive(Default)]
pub(crate) struct Stopping {
    /// `true` while a request to end the run is in progress.
    pub(crate) begun: bool,
    /// The event that will pause the run.
    pub(crate) pausing: Option<Box<Event>>,
    /// The state that is needed to resume the run, taken before it was stopped, and the position of the journal then.
    pub(crate) saved: Option<Box<(Box<RawValue>, Position)>>,
}
