//! The clock, behind a trait so that a test can supply its own.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A point in time in UTC with millisecond precision, displayed as RFC 3339.
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
    /// Creates a timestamp from the number of milliseconds since 1970-01-01 UTC.
    pub const fn from_millis(millis: u64) -> Timestamp {
        Timestamp { millis }
    }

    /// Returns the number of milliseconds since 1970-01-01 UTC.
    pub const fn as_millis(self) -> u64 {
        self.millis
    }

    /// Parses an RFC 3339 timestamp in UTC, with or without milliseconds. Returns `None` if it is invalid.
    fn parse(text: &str) -> Option<Timestamp> {
        let number = |digits: &str| {
            if digits.bytes().all(|byte| byte.is_ascii_digit()) {
                digits.parse::<u64>().ok()
            } else {
                None
            }
        };
        let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
        let (time, millis) = match time.split_once('.') {
            Some((time, millis)) if millis.len() == 3 => (time, number(millis)?),
            Some(_) => return None,
            None => (time, 0),
        };
        let [year, month, day] = three(date.split('-').map(number))?;
        let [hour, minute, second] = three(time.split(':').map(number))?;
        // Years begin in March, as in `civil`. A date that does not round-trip is invalid.
        let (year_of_march, month_of_march) = match month {
            3..=12 => (year, month - 3),
            1..=2 => (year.checked_sub(1)?, month + 9),
            _ => return None,
        };
        let leap_days = year_of_march / 4 - year_of_march / 100 + year_of_march / 400;
        let days = (year_of_march.checked_mul(365)?.checked_add(leap_days)?)
            .checked_add((153 * month_of_march + 2) / 5 + day.checked_sub(1)?)?
            .checked_sub(719_468)?;
        let seconds = days.checked_mul(86_400)?.checked_add(hour.checked_mul(3_600)?)?;
        let seconds = seconds
            .checked_add(minute.checked_mul(60)?)?
            .checked_add(second)?;
        let moment = Timestamp::from_millis(seconds.checked_mul(1_000)?.checked_add(millis)?);
        (moment.civil() == [year, month, day, hour, minute, second]).then_some(moment)
    }

    /// Returns year, month, day, hour, minute and second.
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

/// Returns three numbers. Returns `None` if there are fewer or more.
fn three(mut numbers: impl Iterator<Item = Option<u64>>) -> Option<[u64; 3]> {
    let three = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(three)
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

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        Timestamp::parse(&text).ok_or_else(|| {
            let text = text.escape_debug();
            de::Error::custom(format_args!(
                "`{text}` is not a timestamp such as 2026-11-21T15:30:00.042Z"
            ))
        })
    }
}

/// A future that completes after a duration.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of time and of timers.
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
    /// Returns the wall-clock time, for display.
    fn now(&self) -> Timestamp;

    /// Returns the time since a fixed but arbitrary moment. It never goes backwards. It may not advance while the
    /// machine is suspended.
    fn elapsed(&self) -> Duration;

    /// Waits for a duration, as measured by [`elapsed`](Clock::elapsed).
    fn sleep(&self, duration: Duration) -> Sleep;

    /// Returns the time since the machine booted, including the time during which it was suspended. The deadlines of
    /// people are measured by it. Returns `None` if the clock does not provide it; then [`elapsed`](Clock::elapsed) is
    /// used.
    fn since_boot(&self) -> Option<Duration> {
        None
    }

    /// Returns the id of the boot that [`since_boot`](Clock::since_boot) counts from. Clocks with the same id agree on
    /// `since_boot`, also in different processes. Returns `None` if the id is unknown; then the wall clock is used
    /// across processes.
    fn boot_id(&self) -> Option<&str> {
        None
    }
}

/// The clock of the system, with the timers of tokio. On Linux it provides the time since boot.
///
/// ```
/// use orchestra_engine::{Clock, SystemClock};
/// let clock = SystemClock::new();
/// assert!(clock.elapsed() <= clock.elapsed());
/// assert_eq!(clock.since_boot().is_some(), cfg!(target_os = "linux"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// Creates a clock.
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

    #[cfg(target_os = "linux")]
    fn since_boot(&self) -> Option<Duration> {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
        Some(Duration::new(seconds.ok()?, nanos.ok()?))
    }

    #[cfg(target_os = "linux")]
    fn boot_id(&self) -> Option<&str> {
        static ID: OnceLock<Option<String>> = OnceLock::new();
        let read = || {
            let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
            Some(id.trim().to_owned()).filter(|id| !id.is_empty())
        };
        ID.get_or_init(read).as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn two_clocks_of_one_machine_agree_on_its_start() {
        let (one, other) = (SystemClock::new(), SystemClock::new());
        let times = [&one, &other, &one].map(|clock| clock.since_boot().expect("Linux has that hand"));
        assert!(times.is_sorted(), "{times:?}");
        assert!(
            times[0] > Duration::ZERO && times[2] - times[0] < Duration::from_secs(60),
            "{times:?}"
        );
        assert_eq!(one.boot_id(), other.boot_id());
        assert!(one.boot_id().is_some_and(|id| id.trim() == id && id.len() >= 32));
    }

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
    fn a_moment_is_read_as_it_was_written_and_nothing_else_is_one() {
        let read = |text: &str| serde_json::from_value::<Timestamp>(text.into()).ok();
        // Every other day of four centuries, from its first to its last millisecond.
        for day in (0..150_000).step_by(2) {
            for millis in [day * 86_400_000, (day + 1) * 86_400_000 - 1] {
                let moment = Timestamp::from_millis(millis);
                assert_eq!(read(&moment.to_string()), Some(moment));
            }
        }
        assert_eq!(
            read("2026-11-21T15:30:00Z"),
            Some(Timestamp::from_millis(1_795_275_000_000))
        );
        for wrong in [
            "",
            "now",
            "2026-11-21",
            "2026-11-21T15:30:00.042",
            "2026-11-21T15:30:00.42Z",
            "2026-02-29T00:00:00.000Z",
            "2026-13-01T00:00:00.000Z",
            "2026-00-01T00:00:00.000Z",
            "2026-01-00T00:00:00.000Z",
            "2026-01-01T24:00:00.000Z",
            "2026-01-01T00:60:00.000Z",
            "2026-01-01T00:00:00:00.000Z",
            "1969-12-31T23:59:59.999Z",
            "+2026-01-01T00:00:00.000Z",
            "18446744073709551615-01-01T00:00:00.000Z",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
