//! The clock, behind a trait so that a test can supply its own.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

/// A moment in UTC, to the millisecond; shown as RFC 3339.
///
/// ```
/// use orchestra_engine::Timestamp;
/// assert_eq!(Timestamp::from_millis(1_795_275_000_042).to_string(), "2026-11-21T15:30:00.042Z");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    millis: u64,
}

impl Timestamp {
    /// A moment by its milliseconds since 1970 began.
    pub const fn from_millis(millis: u64) -> Timestamp {
        Timestamp { millis }
    }

    /// The milliseconds since 1970 began.
    pub const fn as_millis(self) -> u64 {
        self.millis
    }

    /// Year, month, day, hour, minute and second.
    pub(crate) fn civil(self) -> [u64; 6] {
        let seconds = self.millis / 1_000;
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        // Days are counted from 1 March of year 0, so that the leap day comes last in its year.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        [year, month, day, second / 3_600, second / 60 % 60, second % 60]
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [year, month, day, hour, minute, second] = self.civil();
        let millis = self.millis % 1_000;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        )
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A wait for some time.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What tells the time and waits.
///
/// ```
/// use std::time::Duration;
/// use orchestra_engine::{Clock, Engine, Sleep, Timestamp};
/// /// Time stands still, and no wait takes any.
/// struct Still;
/// impl Clock for Still {
///     fn now(&self) -> Timestamp {
///         Timestamp::from_millis(0)
///     }
///     fn elapsed(&self) -> Duration {
///         Duration::ZERO
///     }
///     fn sleep(&self, _: Duration) -> Sleep {
///         Box::pin(std::future::ready(()))
///     }
/// }
/// let engine = Engine::builder().clock(Still).build()?;
/// # Ok::<(), orchestra_engine::BuildError>(())
/// ```
pub trait Clock: Send + Sync + 'static {
    /// The time of day, for people.
    fn now(&self) -> Timestamp;

    /// The time since some fixed moment; it never goes back.
    fn elapsed(&self) -> Duration;

    /// Waits.
    fn sleep(&self, duration: Duration) -> Sleep;
}

/// The clock of the system; waits are those of tokio.
///
/// ```
/// use orchestra_engine::{Clock, SystemClock};
/// let clock = SystemClock::new();
/// assert!(clock.elapsed() <= clock.elapsed());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock.
    pub fn new() -> SystemClock {
        SystemClock {
            origin: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leap_days_and_the_ends_of_years_are_right() {
        let shown = |seconds: u64| Timestamp::from_millis(seconds * 1_000).to_string();
        assert_eq!(shown(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(shown(1_709_164_799), "2024-02-28T23:59:59.000Z");
        assert_eq!(shown(1_735_689_599), "2024-12-31T23:59:59.000Z");
        assert_eq!(shown(4_107_542_400), "2100-03-01T00:00:00.000Z");
    }
}
