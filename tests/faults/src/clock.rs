//! A clock without real time: when nothing else can go on, it goes on to the next moment that somebody waits for.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use orchestra_engine::{Clock, Sleep, Timestamp};

/// The time of day at which every simulation begins.
const BEGIN: u64 = 1_800_000_000_000;

/// The time of a simulated machine. All of its processes share it.
#[derive(Debug, Default)]
pub struct Time {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The monotonic time, in nanoseconds.
    now: u64,
    /// How long the machine has slept: the hand of [`Clock::since_boot`] went on, the monotonic one did not.
    asleep: u64,
    /// How far the time of day was set, in milliseconds.
    set: i64,
    /// Which start of the machine this is.
    boot: u32,
    /// The number of the next sleeper.
    next: u64,
    sleepers: BTreeMap<(u64, u64), Waker>,
}

impl Time {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the monotonic time.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.lock().now)
    }

    /// Lets time pass, as while a call of the system takes long.
    pub fn pass(&self, time: Duration) {
        let mut inner = self.lock();
        inner.now += nanos(time);
        wake_due(inner);
    }

    /// Lets the machine sleep.
    pub fn suspend(&self, time: Duration) {
        self.lock().asleep += nanos(time);
    }

    /// Sets the time of day, forwards or back.
    pub fn set(&self, millis: i64) {
        self.lock().set += millis;
    }

    /// Starts the machine anew.
    pub fn reboot(&self) {
        self.lock().boot += 1;
    }

    /// Goes on to the next moment that somebody waits for; returns `false` where nobody waits.
    pub fn go_on(&self) -> bool {
        let mut inner = self.lock();
        let Some(((due, _), _)) = inner.sleepers.first_key_value() else {
            return false;
        };
        inner.now = inner.now.max(*due);
        wake_due(inner);
        true
    }
}

fn wake_due(mut inner: MutexGuard<'_, Inner>) {
    let next = (inner.now + 1, 0);
    let later = inner.sleepers.split_off(&next);
    let due = std::mem::replace(&mut inner.sleepers, later);
    drop(inner);
    due.into_values().for_each(Waker::wake);
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// The clock of one process of the machine.
#[derive(Clone, Debug)]
pub struct SimulatedClock {
    time: Arc<Time>,
    boot: String,
}

impl SimulatedClock {
    /// Returns a clock of a machine.
    pub fn new(time: Arc<Time>) -> SimulatedClock {
        let boot = format!("boot-{}", time.lock().boot);
        SimulatedClock { time, boot }
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let inner = self.time.lock();
        let millis = BEGIN + (inner.now + inner.asleep) / 1_000_000;
        Timestamp::from_millis(millis.saturating_add_signed(inner.set))
    }

    fn elapsed(&self) -> Duration {
        self.time.now()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(sleep(&self.time, duration))
    }

    fn since_boot(&self) -> Option<Duration> {
        let inner = self.time.lock();
        Some(Duration::from_nanos(inner.now + inner.asleep))
    }

    fn boot_id(&self) -> Option<&str> {
        Some(&self.boot)
    }
}

/// Waits for some time of a machine.
pub fn sleep(time: &Arc<Time>, duration: Duration) -> Sleeping {
    let due = time.lock().now.saturating_add(nanos(duration));
    Sleeping {
        time: time.clone(),
        due,
        key: None,
    }
}

/// A wait for a moment.
#[derive(Debug)]
pub struct Sleeping {
    time: Arc<Time>,
    due: u64,
    key: Option<(u64, u64)>,
}

impl Sleeping {
    fn forget(&mut self, inner: &mut Inner) {
        if let Some(key) = self.key.take() {
            inner.sleepers.remove(&key);
        }
    }
}

impl Future for Sleeping {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let time = self.time.clone();
        let mut inner = time.lock();
        self.forget(&mut inner);
        if inner.now >= self.due {
            return Poll::Ready(());
        }
        let key = (self.due, inner.next);
        inner.next += 1;
        inner.sleepers.insert(key, cx.waker().clone());
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        let time = self.time.clone();
        let mut inner = time.lock();
        self.forget(&mut inner);
    }
}
