//! Which runs have changed, for everybody who shows them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use orchestra_engine::RunId;
use tokio::sync::watch;

/// Numbers the changes of all runs. A reader asks for the runs that changed after the number that it knows.
pub(crate) struct Changes {
    latest: Mutex<HashMap<RunId, u64>>,
    version: watch::Sender<u64>,
}

impl Default for Changes {
    fn default() -> Changes {
        Changes {
            latest: Mutex::default(),
            version: watch::Sender::new(0),
        }
    }
}

impl Changes {
    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, u64>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a run has changed.
    pub(crate) fn mark(&self, run: &RunId) {
        let mut latest = self.lock();
        // The number is drawn under the lock, so that a reader who knows it has seen this change.
        self.version.send_modify(|version| {
            *version += 1;
            match latest.get_mut(run) {
                Some(number) => *number = *version,
                None => {
                    latest.insert(run.clone(), *version);
                }
            }
        });
    }

    /// Returns the number of the latest change, and the runs that changed after another one.
    pub(crate) fn since(&self, known: u64) -> (u64, Vec<RunId>) {
        let latest = self.lock();
        let changed = latest.iter().filter(|(_, number)| **number > known);
        let runs = changed.map(|(run, _)| run.clone()).collect();
        (*self.version.borrow(), runs)
    }

    /// Returns the number of the latest change of a run; 0 if it has not changed.
    pub(crate) fn of(&self, run: &RunId) -> u64 {
        self.lock().get(run).copied().unwrap_or_default()
    }

    /// Returns a receiver of the numbers.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_receives_each_run_that_changed_once() {
        let changes = Changes::default();
        let [a, b] = ["a", "b"].map(|id| RunId::new(id).expect("an id"));
        assert_eq!(changes.since(0), (0, Vec::new()));
        for run in [&a, &b, &a] {
            changes.mark(run);
        }
        assert_eq!(changes.since(2), (3, vec![a.clone()]));
        assert_eq!(changes.since(0).1.len(), 2);
        assert_eq!((changes.of(&b), changes.since(3).1.len()), (2, 0));
        assert_eq!(*changes.subscribe().borrow(), 3);
    }
}
