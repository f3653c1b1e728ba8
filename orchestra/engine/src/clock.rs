//! The clock, behind a trait so that a test can supply its own.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

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

impl Timestamp {
    /// Reads what [`Display`](fmt::Display) shows, and nothing else.
    fn parse(text: &str) -> Option<Timestamp> {
        let number = |from: usize, to: usize| -> Option<u64> {
            let digits = text.get(from..to)?;
            digits.bytes().all(|digit| digit.is_ascii_digit()).then_some(())?;
            digits.parse().ok()
        };
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        if year < 1970 || !(1..=12).contains(&month) || day == 0 {
            return None;
        }
        // As in `civil`: years begin in March here.
        let shifted_year = year - u64::from(month <= 2);
        let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let seconds = days.checked_sub(719_468)? * 86_400 + hour * 3_600 + minute * 60 + second;
        let found = Timestamp::from_millis(seconds * 1_000 + number(20, 23)?);
        // This also refuses the 30th of February, and what stands between the numbers.
        (found.to_string() == text).then_some(found)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        Timestamp::parse(&text).ok_or_else(|| {
            let expected = "a moment in UTC such as `2026-11-21T15:30:00.042Z`";
            de::Error::invalid_value(de::Unexpected::Str(&text), &expected)
        })
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

    #[test]
    fn a_moment_is_read_as_it_is_written_and_nothing_else_is_one() {
        let day = 86_400_000;
        let moments = (0..60_000)
            .map(|days| days * day + 42)
            .chain([0, 951_782_399_999]);
        for moment in moments.map(Timestamp::from_millis) {
            assert_eq!(Timestamp::parse(&moment.to_string()), Some(moment), "{moment}");
        }
        for wrong in [
            "",
            "2026-11-21",
            "2026-11-21T15:30:00.042",
            "2026-11-21T15:30:00Z",
            "2026-11-21 15:30:00.042Z",
            "2026-11-21T15:30:00.042Z ",
            "2026-02-30T00:00:00.000Z",
            "2026-13-01T00:00:00.000Z",
            "2026-00-01T00:00:00.000Z",
            "2026-01-00T00:00:00.000Z",
            "2026-01-01T24:00:00.000Z",
            "1969-12-31T23:59:59.999Z",
            "0000-00-00T00:00:00.000Z",
            "+026-11-21T15:30:00.042Z",
            "2026-11-21T15:30:00.042\u{e9}",
        ] {
            assert_eq!(Timestamp::parse(wrong), None, "{wrong}");
        }
    }
}
