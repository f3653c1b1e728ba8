//! What a search of the whole runs folder found, so that a later one can be limited to what may have changed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use orchestra_engine::RunId;

use crate::error::SessionError;
use crate::folders::{Folders, ModificationTimes};

/// Minimum age of a modification time for a later change to certainly have another one. File systems store the time of a
/// timer, which stands still for some milliseconds.
const RESOLUTION: Duration = Duration::from_millis(100);

/// Part of the time that searches of all runs may take: one counts as recent for this many times as long as it took.
const SHARE: u32 = 20;

/// A search of the runs folder.
#[derive(Clone)]
pub(crate) struct Search {
    /// The time at which the search of all runs began. Later changes of the names do not move it.
    began: Instant,
    /// How long this search took.
    took: Duration,
    /// The modification times of the folders whose entries are runs. `None` if the entries may have changed since
    /// without another time.
    modified: Option<ModificationTimes>,
    /// The entries that have the names of runs.
    names: BTreeSet<RunId>,
    /// The entries in which no run was found: a run may be about to be created in them.
    without_run: BTreeSet<RunId>,
}

impl Search {
    /// Starts a search of all runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the runs folder cannot be read.
    pub(crate) fn of_all(folders: &Folders) -> Result<Search, SessionError> {
        let began = Instant::now();
        let modified = reliable(folders.modified());
        Ok(Search {
            began,
            took: Duration::ZERO,
            modified,
            names: folders.names()?,
            without_run: BTreeSet::new(),
        })
    }

    /// Returns the names of all entries.
    pub(crate) fn names(&self) -> impl Iterator<Item = &RunId> {
        self.names.iter()
    }

    /// Records that an entry has no run yet.
    pub(crate) fn has_no_run(&mut self, name: RunId) {
        if self.names.contains(&name) {
            self.without_run.insert(name);
        }
    }

    /// Records that all runs have been searched.
    pub(crate) fn end(&mut self) {
        self.took = self.began.elapsed();
    }

    /// Returns whether another search of all runs is due, if they are to be searched at this interval.
    pub(crate) fn is_over(&self, interval: Duration) -> bool {
        self.began.elapsed() > interval.max(self.took * SHARE)
    }

    /// Brings the names up to date. Returns those that are new or gone, and those in which no run was found before.
    ///
    /// # Errors
    ///
    /// Returns an error if the runs folder cannot be read.
    pub(crate) fn follow(&mut self, folders: &Folders) -> Result<BTreeSet<RunId>, SessionError> {
        let mut uncertain = std::mem::take(&mut self.without_run);
        let modified = folders.modified();
        if self.modified != Some(modified) {
            self.modified = reliable(modified);
            let names = folders.names()?;
            uncertain.extend(names.symmetric_difference(&self.names).cloned());
            self.names = names;
        }
        Ok(uncertain)
    }
}

/// Returns the times if every change from now on will have a later one.
fn reliable(modified: ModificationTimes) -> Option<ModificationTimes> {
    let now = SystemTime::now();
    let is_settled = |time: &SystemTime| now.duration_since(*time).is_ok_and(|age| age >= RESOLUTION);
    modified.iter().flatten().all(is_settled).then_some(modified)
}
