use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// A clock with three readings. `elapsed` is the paused time of tokio; the other two also advance while the machine
/// sleeps, and the time of day can be set.
struct Hands {
    origin: tokio::time::Instant,
    asleep: Mutex<Duration>,
    /// The offset of the time of day in milliseconds.
    set: AtomicI64,
    booted: Duration,
    boot: Option<&'static str>,
    sleeps: AtomicU32,
}

/// The time of day at which each clock begins, in Unix milliseconds.
const MORNING: i64 = 1_767_225_600_000;

impl Hands {
    fn new(boot: Option<&'static str>, booted: Duration) -> Arc<Hands> {
        Arc::new(Hands {
            origin: tokio::time::Instant::now(),
            asleep: Mutex::default(),
            set: AtomicI64::new(0),
            booted,
            boot,
            sleeps: AtomicU32::new(0),
        })
    }

    fn fall_asleep(&self, duration: Duration) {
        *self.asleep.lock().expect("whole") += duration;
    }

    fn set(&self, forward: Duration, back: Duration) {
        let millis = forward.as_millis() as i64 - back.as_millis() as i64;
        self.set.fetch_add(millis, Ordering::Relaxed);
    }

    fn real(&self) -> Duration {
        self.origin.elapsed() + *self.asleep.lock().expect("whole")
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        let millis = MORNING + self.set.load(Ordering::Relaxed) + self.real().as_millis() as i64;
        Timestamp::from_millis(millis as u64)
    }

    fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        Box::pin(tokio::time::sleep(duration))
    }

    fn since_boot(&self) -> Option<Duration> {
        self.boot.map(|_| self.booted + self.real())
    }

    fn boot_id(&self) -> Option<&str> {
        self.boot
    }
}

/// Starts a wait, stays awake for a while, then applies an event to the machine. Returns the awake time from the event
/// to the end of the wait. The wait must not end before the event.
async fn awake_after(delay: Duration, awake: Duration, event: impl FnOnce(&Hands)) -> Duration {
    let hands = Hands::new(Some("one"), HOUR);
    let clock: Arc<dyn Clock> = hands.clone();
    let mut wait = wait_until(&clock, &Began::now(&*clock), delay);
    tokio::select! {
        () = &mut wait => panic!("it ended too early"),
        () = tokio::time::sleep(awake) => {}
    }
    event(&hands);
    let from = hands.elapsed();
    wait.await;
    hands.elapsed() - from
}

/// Returns whether a wait is at most a second late and never early.
fn is_due(waited: Duration, expected: Duration) -> bool {
    waited >= expected && waited <= expected + SECOND
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_passed_while_the_machine_slept_ends_soon_after_it_woke() {
    let awake = Duration::from_secs(600);
    let waited = awake_after(HOUR, awake, |hands| hands.fall_asleep(17 * HOUR)).await;
    assert!(is_due(waited, Duration::ZERO), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_longer_than_a_sleep_ends_when_it_is_due() {
    let waited = awake_after(20 * HOUR, HOUR, |hands| hands.fall_asleep(17 * HOUR)).await;
    assert!(is_due(waited, 2 * HOUR), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_the_time_of_day_neither_ends_nor_lengthens_a_wait() {
    for jump in [HOUR, DAY] {
        for (forward, back) in [(jump, Duration::ZERO), (Duration::ZERO, jump)] {
            let waited = awake_after(2 * HOUR, HOUR, |hands| hands.set(forward, back)).await;
            assert!(is_due(waited, HOUR), "{waited:?} after {forward:?} {back:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_in_slices_only_where_the_machine_can_sleep() {
    for (boot, most) in [(Some("one"), 20), (None, 1)] {
        let hands = Hands::new(boot, HOUR);
        let clock: Arc<dyn Clock> = hands.clone();
        wait_until(&clock, &Began::now(&*clock), 10 * SECOND).await;
        assert!(is_due(hands.elapsed(), 10 * SECOND), "{:?}", hands.elapsed());
        assert_eq!(hands.sleeps.load(Ordering::Relaxed), most, "{boot:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_though_its_clock_stands_still() {
    struct Still;
    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(0)
        }
        fn elapsed(&self) -> Duration {
            Duration::ZERO
        }
        fn sleep(&self, _: Duration) -> Sleep {
            Box::pin(std::future::ready(()))
        }
        fn since_boot(&self) -> Option<Duration> {
            Some(Duration::ZERO)
        }
    }
    let clock: Arc<dyn Clock> = Arc::new(Still);
    wait_until(&clock, &Began::now(&*clock), HOUR).await;
}

/// Returns the value as another process reads it.
fn read_again(began: &Began) -> Began {
    let text = serde_json::to_string(began).expect("it has a form");
    serde_json::from_str(&text).expect("that can be read")
}

#[tokio::test(start_paused = true)]
async fn another_process_goes_on_by_the_clock_of_the_machine() {
    let hands = Hands::new(Some("one"), HOUR);
    let began = read_again(&Began::now(&*hands));
    hands.fall_asleep(HOUR);
    assert_eq!(began.left(&*hands, 3 * HOUR), 2 * HOUR);
    for (forward, back) in [
        (HOUR, DAY),
        (DAY, HOUR),
        (HOUR, Duration::ZERO),
        (Duration::ZERO, DAY),
    ] {
        hands.set(forward, back);
        assert_eq!(began.left(&*hands, 3 * HOUR), 2 * HOUR, "{forward:?} {back:?}");
    }
    hands.fall_asleep(17 * HOUR);
    assert_eq!(began.left(&*hands, 3 * HOUR), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn after_a_new_start_of_the_machine_the_time_of_day_counts() {
    let began = read_again(&Began::now(&*Hands::new(Some("one"), DAY)));
    // The new machine may have been up for longer than the old one; that means nothing.
    for booted in [Duration::ZERO, 9 * DAY] {
        let hands = Hands::new(Some("two"), booted);
        hands.set(HOUR, Duration::ZERO);
        assert_eq!(began.left(&*hands, 3 * HOUR), 2 * HOUR, "{booted:?}");
        hands.set(DAY, Duration::ZERO);
        assert_eq!(began.left(&*hands, 3 * HOUR), Duration::ZERO, "{booted:?}");
        hands.set(Duration::ZERO, 9 * DAY);
        assert_eq!(
            began.left(&*hands, 3 * HOUR),
            3 * HOUR,
            "{booted:?}: no time passed, and none is added"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_without_a_name_counts_in_its_own_process_alone() {
    let hands = Hands::new(None, HOUR);
    let began = Began::now(&*hands);
    hands.set(DAY, Duration::ZERO);
    assert_eq!(began.left(&*hands, HOUR), HOUR);
    assert_eq!(read_again(&began).left(&*hands, 2 * DAY), DAY);
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_clock_went_back_is_asked_for_the_time_of_day() {
    let began = read_again(&Began::now(&*Hands::new(Some("one"), DAY)));
    let hands = Hands::new(Some("one"), Duration::ZERO);
    hands.set(HOUR, Duration::ZERO);
    assert_eq!(began.left(&*hands, 3 * HOUR), 2 * HOUR);
}
