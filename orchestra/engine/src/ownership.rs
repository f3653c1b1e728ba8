//! A check of whether this process still owns a run.

#[cfg(unix)]
use std::os::fd::RawFd;
#[cfg(unix)]
use std::path::Path;
use std::sync::{Arc, Weak};

#[cfg(unix)]
use crate::process::run_number;

/// A run for which programs are started.
pub(crate) trait OwnedRun: Send + Sync {
    /// Returns whether no other process has taken the run over (rule D5).
    fn is_owned(&self) -> bool;

    /// Returns the lock files of the run. They stay open as long as the run lives, and lose their names when another
    /// process takes the run over.
    #[cfg(unix)]
    fn locks(&self) -> Vec<RawFd>;

    /// Returns the folder of the outermost run. Returns `None` if nothing is persisted.
    #[cfg(unix)]
    fn root_folder(&self) -> Option<&Path>;
}

/// A weak reference to a run for code that acts for it outside of the engine. It may act as long as this process owns
/// the run (rule D5).
///
/// ```
/// use orchestra_engine::StageContext;
///
/// fn may_push(stage: &StageContext) -> bool {
///     stage.ownership().is_held()
/// }
/// ```
#[derive(Clone)]
pub struct RunOwnership(Weak<dyn OwnedRun>);

impl RunOwnership {
    pub(crate) fn new(run: Arc<dyn OwnedRun>) -> RunOwnership {
        RunOwnership(Arc::downgrade(&run))
    }

    /// Returns whether this process executes the run and no other process has taken it over. A run that has ended is
    /// never held; a run ends soon after its loss was noticed.
    pub fn is_held(&self) -> bool {
        self.0.upgrade().is_some_and(|run| run.is_owned())
    }

    /// Returns what a program that is started for the run needs. Returns `None` if this process does not own the run.
    #[cfg(unix)]
    pub(crate) fn claim(&self) -> Option<Claim> {
        let run = self.0.upgrade()?;
        // Take the locks before the check: if the run is lost after it, the program can find that out by them.
        let locks = run.locks();
        let number = run.root_folder().map_or(0, run_number);
        run.is_owned().then_some(Claim {
            locks,
            number,
            _run: run,
        })
    }
}

/// The data that identifies the run of a started program.
#[cfg(unix)]
pub(crate) struct Claim {
    /// The lock files of the run. They stay open as long as this lives, and lose their names when another process takes
    /// the run over.
    pub(crate) locks: Vec<RawFd>,
    /// The number by which process marks name the run.
    pub(crate) number: u64,
    _run: Arc<dyn OwnedRun>,
}

impl std::fmt::Debug for RunOwnership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOwnership").finish_non_exhaustive()
    }
}
