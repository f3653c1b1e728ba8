//! A clock that stands still but for waits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use orchestra::engine::{Clock, Sleep, Timestamp};

/// Time that only waits turn on: they end at once, and are kept.
#[derive(Clone, Debug, Default)]
pub struct Ticks {
    waits: Arc<Mutex<Vec<Duration>>>,
}

impl Ticks {
    /// What was waited, in milliseconds.
    pub fn waits(&self) -> Vec<u128> {
        let waits = self.waits.lock().unwrap();
        waits.iter().map(Duration::as_millis).collect()
    }
}

impl Clock for Ticks {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(u64::try_from(self.elapsed().as_millis()).unwrap())
    }

    fn elapsed(&self) -> Duration {
        self.waits.lock().unwrap().iter().sum()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        self.waits.lock().unwrap().push(duration);
        Box::pin(std::future::ready(()))
    }
}
