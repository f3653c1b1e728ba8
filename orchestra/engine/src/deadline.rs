//! Deadlines of people: they hold over a sleep of the machine, a jump of the time of day, and a new process.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Sleep, Timestamp};

/// How late a wait may notice that the machine has slept: timers stand still while it does.
const SLICE: Duration = Duration::from_millis(500);

/// When a wait began, in a form from which another process can go on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Began {
    at: Timestamp,
    /// The microseconds of the hand that goes on while the machine sleeps.
    micros: u64,
    /// The start of the machine since which they count, where that is known.
    boot: Option<String>,
    /// Whether this process saw it begin, so that its clock's hand is the same.
    #[serde(skip)]
    here: bool,
}

impl Began {
    /// Now.
    pub(crate) fn now(clock: &dyn Clock) -> Began {
        Began {
            at: clock.now(),
            micros: micros(clock),
            boot: clock.boot_id().map(str::to_owned),
            here: true,
        }
    }

    /// A moment that another process wrote down.
    pub(crate) fn of(at: Timestamp, micros: u64, boot: Option<String>) -> Began {
        Began {
            at,
            micros,
            boot,
            here: false,
        }
    }

    /// How much is left of a delay. Within one start of the machine the time of day does not count; after another one
    /// nothing else can, and where it went back no time has passed.
    pub(crate) fn left(&self, clock: &dyn Clock, delay: Duration) -> Duration {
        let same_boot = self.boot.is_some() && self.boot.as_deref() == clock.boot_id();
        // A hand that went back is another one, such as that of a container with times of its own.
        let passed = micros(clock)
            .checked_sub(self.micros)
            .filter(|_| self.here || same_boot)
            .map(Duration::from_micros);
        let by_day = || clock.now().as_millis().saturating_sub(self.at.as_millis());
        delay.saturating_sub(passed.unwrap_or_else(|| Duration::from_millis(by_day())))
    }
}

/// The microseconds of the hand that goes on while the machine sleeps.
pub(crate) fn micros(clock: &dyn Clock) -> u64 {
    let time = clock.since_boot().unwrap_or_else(|| clock.elapsed());
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Waits until a delay after a beginning has passed, whether the machine is awake or asleep: at most half a second late
/// after it woke. What is left is found out once, so the time of day may jump while it waits.
pub(crate) fn wait_until(clock: &Arc<dyn Clock>, began: &Began, delay: Duration) -> Sleep {
    let left = began.left(&**clock, delay);
    let Some(from) = clock.since_boot() else {
        return clock.sleep(left);
    };
    let clock = clock.clone();
    let mut slice = left.min(SLICE);
    let mut sleep = clock.sleep(slice);
    Box::pin(async move {
        let mut slept = Duration::ZERO;
        loop {
            sleep.await;
            slept = slept.saturating_add(slice);
            let passed = clock.since_boot().unwrap_or_default().saturating_sub(from);
            // What was slept has passed, whatever the other hand says: the wait ends.
            let rest = left.saturating_sub(passed.max(slept));
            if rest.is_zero() {
                return;
            }
            slice = rest.min(SLICE);
            sleep = clock.sleep(slice);
        }
    })
}

#[cfg(test)]
mod tests;
