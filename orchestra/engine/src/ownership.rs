//! Whether a run is still this process's.

#[cfg(unix)]
use std::os::fd::RawFd;
use std::sync::{Arc, Weak};

#[cfg(unix)]
use crate::process::run_number;
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

    /// Returns whether the run goes on in this process, and no other one has taken it over. One that is over, as it is soon
    /// after its loss was noticed, is not held.
    pub fn is_held(&self) -> bool {
        self.0.upgrade().is_some_and(|run| run.is_owned())
    }

    /// What a program that is started for the run needs, as long as the run is this process's.
    #[cfg(unix)]
    pub(crate) fn claim(&self) -> Option<Claim> {
        let run = self.0.upgrade()?;
        // Before the look: who loses the run behind it has the locks to find that out.
        let locks = run.locks();
        let number = run.root_folder().map_or(0, run_number);
        run.is_owned().then_some(Claim {
            locks,
            number,
            _run: run,
        })
    }
}

/// What shows a program that is being started whose it is.
#[cfg(unix)]
pub(crate) struct Claim {
    /// The files whose names are moved away when another process takes the run over; open as long as this lives.
    pub(crate) locks: Vec<RawFd>,
    /// The number of the run in the marks.
    pub(crate) number: u64,
    _run: Arc<Run>,
}

impl std::fmt::Debug for RunOwnership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOwnership").finish_non_exhaustive()
    }
}
