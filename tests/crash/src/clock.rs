//! A clock that runs a thousand times as fast, in every process alike, so that real waits and deadlines are short.

use std::time::Duration;

use orchestra_engine::{Clock, Sleep, SystemClock, Timestamp};

/// So many seconds of this clock are one second.
pub const SPEED: u32 = 1_000;

/// The clock; its hand that goes on while the machine sleeps is shared by all processes.
#[derive(Clone, Copy, Debug)]
pub struct FastClock(SystemClock);

impl FastClock {
    /// A clock.
    pub fn new() -> FastClock {
        FastClock(SystemClock::new())
    }
}

impl Default for FastClock {
    fn default() -> FastClock {
        FastClock::new()
    }
}

impl Clock for FastClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed() * SPEED
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration / SPEED))
    }

    fn since_boot(&self) -> Option<Duration> {
        self.0.since_boot().map(|time| time * SPEED)
    }

    fn boot_id(&self) -> Option<&str> {
        self.0.boot_id()
    }
}
