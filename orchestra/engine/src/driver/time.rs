//! The times of a run that is being executed.

use std::time::Duration;

use crate::clock::{Clock, Timestamp};

/// The times of a run that is being executed.
pub(crate) struct RunTime {
    /// The time of the events that are emitted now. The clock is read once for all events that occur together.
    pub(crate) now: Timestamp,
    /// The reading of the monotonic clock at that time.
    pub(crate) elapsed: Duration,
    /// The reading of the monotonic clock when this process began to execute the run.
    pub(crate) began: Duration,
    /// The time for which other processes executed the run.
    pub(crate) before: Duration,
    /// `true` if the machine needs to receive the elapsed time.
    pub(crate) timed: bool,
}

impl RunTime {
    /// Creates the times of a run that no process has executed yet.
    pub(crate) fn new(timed: bool) -> RunTime {
        RunTime {
            now: Timestamp::from_millis(0),
            elapsed: Duration::ZERO,
            began: Duration::ZERO,
            before: Duration::ZERO,
            timed,
        }
    }

    /// Reads the clock.
    pub(crate) fn read(&mut self, clock: &dyn Clock) {
        self.now = clock.now();
        self.elapsed = clock.elapsed();
    }

    /// Returns the time for which the run had been executed, in all processes together, when the clock was last read.
    pub(crate) fn executed(&self) -> Duration {
        self.before + self.elapsed.saturating_sub(self.began)
    }

    /// Returns the time for which the run has been executed by now.
    pub(crate) fn executed_now(&self, clock: &dyn Clock) -> Duration {
        self.before + clock.elapsed().saturating_sub(self.began)
    }
}
