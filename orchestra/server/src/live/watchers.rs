//! The number of clients that follow changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of clients that follow changes.
#[derive(Clone, Default)]
pub(crate) struct Watchers(Arc<AtomicUsize>);

/// Counts a client as long as it exists.
pub(crate) struct Watching(Arc<AtomicUsize>);

impl Watchers {
    pub(crate) fn add(&self) -> Watching {
        self.0.fetch_add(1, Ordering::SeqCst);
        Watching(self.0.clone())
    }

    pub(crate) fn are_there(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
