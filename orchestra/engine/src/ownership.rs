//! Whether a run is still this process's.

use std::sync::{Arc, Weak};

use crate::run::Run;

/// A run as seen by what acts for it outside of the engine: it may be acted for as long as this process owns it (rule D5).
///
/// ```
/// use orchestra_engine::StageContext;
///
/// fn may_push(stage: &StageContext) -> bool {
///     stage.ownership().is_held()
/// }
/// ```
#[derive(Clone)]
pub struct RunOwnership(Weak<Run>);

impl RunOwnership {
    pub(crate) fn of(run: &Arc<Run>) -> RunOwnership {
        RunOwnership(Arc::downgrade(run))
    }

    /// Returns whether the run goes on in this process, and no other one has taken it over.
    pub fn is_held(&self) -> bool {
        self.held().is_some()
    }

    /// The run, as long as it is this process's. One that is over, as it is soon after its loss was noticed, is not.
    pub(crate) fn held(&self) -> Option<Arc<Run>> {
        self.0.upgrade().filter(|run| run.is_owned())
    }
}

impl std::fmt::Debug for RunOwnership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOwnership").finish_non_exhaustive()
    }
}
