//! Deadlines of people. They hold if the machine is suspended, the wall clock jumps, or another process resumes the
//! run.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Sleep, Timestamp};

/// The longest sleep of a wait. Timers do not advance while the machine is suspended, so a wait may notice the elapsed
/// time late by this much.
const SLICE: Duration = Duration::from_millis(500);

/// The start of a wait, in a form that another process can use.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Began {
    at: Timestamp,
    /// The microseconds of the clock that includes the time during which the machine was suspended.
    micros: u64,
    /// The boot from which `micros` counts, if it is known.
    boot: Option<String>,
    /// `true` if the wait began in this process, so that `micros` is of the same clock.
    #[serde(skip)]
    here: bool,
}

impl Began {
    /// Creates a start at the current time.
    pub(crate) fn now(clock: &dyn Clock) -> Began {
        Began {
            at: clock.now(),
            micros: micros(clock),
            boot: clock.boot_id().map(str::to_owned),
            here: true,
        }
    }

    /// Creates a start that another process recorded.
    pub(crate) fn new(at: Timestamp, micros: u64, boot: Option<String>) -> Began {
        Began {
            at,
            micros,
            boot,
            here: false,
        }
    }

    /// Returns the rest of a delay. The wall clock is ignored within one boot. After another boot there is only the
    /// wall clock; if it went backwards, no time has passed.
    pub(crate) fn left(&self, clock: &dyn Clock, delay: Duration) -> Duration {
        let same_boot = self.boot.is_some() && self.boot.as_deref() == clock.boot_id();
        // A clock that went backwards is a different one, such as that of a container with times of its own.
        let passed = micros(clock)
            .checked_sub(self.micros)
            .filter(|_| self.here || same_boot)
            .map(Duration::from_micros);
        let by_day = || clock.now().as_millis().saturating_sub(self.at.as_millis());
        delay.saturating_sub(passed.unwrap_or_else(|| Duration::from_millis(by_day())))
    }
}

/// Returns the microseconds of the clock that includes the time during which the machine was suspended.
pub(crate) fn micros(clock: &dyn Clock) -> u64 {
    let time = clock.since_boot().unwrap_or_else(|| clock.elapsed());
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Waits until a delay after `began` has passed, whether the machine is awake or suspended. The wait ends at most half
/// a second late after the machine wakes. The rest of the delay is computed once, so the wall clock may jump meanwhile.
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
            // The time slept has passed even if the other clock says less, so the wait always ends.
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
