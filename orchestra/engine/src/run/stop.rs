//! Requests to end or pause a run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::lock::lock;

/// A request to end or pause a run.
#[derive(Default)]
pub(crate) struct Stop {
    requested: AtomicBool,
    /// `true` if the run is to be resumed later.
    pause: AtomicBool,
    reason: Mutex<Option<String>>,
    notify: Notify,
}

impl Stop {
    /// Requests the end of the run. The first request wins.
    pub(crate) fn request(&self, reason: String) {
        if !self.requested() {
            self.pause.store(false, Ordering::Release);
        }
        self.set(reason);
    }

    /// Requests a pause of the run. The first request wins.
    pub(crate) fn request_pause(&self, reason: String) {
        if !self.requested() {
            self.pause.store(true, Ordering::Release);
        }
        self.set(reason);
    }

    fn set(&self, reason: String) {
        lock(&self.reason).get_or_insert(reason);
        self.requested.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Marks the stop as a pause, whatever its reason, so that child runs are paused too.
    pub(crate) fn pauses(&self) {
        self.pause.store(true, Ordering::Release);
    }

    pub(crate) fn is_pause(&self) -> bool {
        self.pause.load(Ordering::Acquire)
    }

    pub(crate) fn requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }

    pub(crate) fn reason(&self) -> String {
        lock(&self.reason).clone().unwrap_or_default()
    }

    /// Waits for a request. Only the driver calls this.
    pub(crate) async fn wait(&self) {
        while !self.requested() {
            self.notify.notified().await;
        }
    }
}
