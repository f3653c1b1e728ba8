//! The first failure to write the files of a run, which ends the run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lock::lock;
use crate::store::StoreError;

/// The first failure to write the files of a run.
#[derive(Default)]
pub(crate) struct WriteFailure {
    /// `true` once a write has failed, so that a run without failures takes no lock.
    any: AtomicBool,
    first: Mutex<Option<StoreError>>,
}

impl WriteFailure {
    /// Stores a failure, unless an earlier one is stored.
    pub(crate) fn set(&self, failure: StoreError) {
        lock(&self.first).get_or_insert(failure);
        self.any.store(true, Ordering::Release);
    }

    /// Returns whether a write has failed, even if the failure was taken.
    pub(crate) fn is_set(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Takes the failure.
    pub(crate) fn take(&self) -> Option<StoreError> {
        lock(&self.first).take()
    }
}
