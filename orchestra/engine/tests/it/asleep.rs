//! Tests with a machine that sleeps during a run: deadlines of people continue, those of stages do not (rules H3, Y6).
#![allow(dead_code)]

use crate::support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use orchestra_engine::{Clock, Engine, Outcome, RunHandle, RunStatus, Sleep, Timestamp};
use support::{Acts, pipeline};
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

/// A clock of a machine that can sleep, with an adjustable time of day. While the machine is awake, it follows tokio.
#[derive(Clone)]
struct Machine {
    origin: Instant,
    asleep: Arc<Mutex<Duration>>,
    day: Arc<Mutex<u64>>,
}

impl Machine {
    fn new() -> Machine {
        Machine {
            origin: Instant::now(),
            asleep: Arc::default(),
            day: Arc::new(Mutex::new(1_767_225_600_000)),
        }
    }

    fn sleeps_for(&self, duration: Duration) {
        *self.asleep.lock().unwrap() += duration;
    }

    /// Sets the time of day forward or back.
    fn is_set_by(&self, millis: i64) {
        let mut day = self.day.lock().unwrap();
        *day = day.checked_add_signed(millis).unwrap();
    }

    fn real(&self) -> Duration {
        self.origin.elapsed() + *self.asleep.lock().unwrap()
    }
}

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(*self.day.lock().unwrap() + self.real().as_millis() as u64)
    }

    fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }

    fn since_boot(&self) -> Option<Duration> {
        Some(self.real())
    }

    fn boot_id(&self) -> Option<&str> {
        Some("one")
    }
}

async fn begin(machine: &Machine, text: &str, acts: Acts) -> RunHandle {
    let engine = Engine::builder().clock(machine.clone()).build().unwrap();
    engine.start(pipeline(text), acts).seed(1).await.unwrap()
}

const GATE: &str = "digraph t { start -> ask; ask [shape=hexagon, label=\"Ship it?\", timeout=1h, human.default_choice=mend]
    ask -> ship [label=Yes]; ask -> mend [label=No]; ship [type=act]; mend [type=act]; ship -> exit; mend -> exit }";

/// Runs a gate with a time-out of one hour and applies an event after ten minutes. Returns the awake time from the
/// event to the end of the run.
async fn gate_after(event: impl FnOnce(&Machine)) -> Duration {
    let machine = Machine::new();
    let run = begin(&machine, GATE, Acts::new()).await;
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(run.questions().len(), 1, "the gate is open");
    event(&machine);
    let from = machine.elapsed();
    let result = run.wait().await.unwrap();
    assert_eq!(result.path, ["start", "ask", "mend", "exit"]);
    machine.elapsed() - from
}

#[tokio::test(start_paused = true)]
async fn a_gate_whose_time_was_up_during_the_sleep_takes_its_default_soon_after() {
    let waited = gate_after(|machine| machine.sleeps_for(17 * HOUR)).await;
    assert!(waited <= Duration::from_secs(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_gate_whose_time_is_not_up_waits_for_the_rest() {
    let waited = gate_after(|machine| machine.sleeps_for(30 * MINUTE)).await;
    let rest = 20 * MINUTE;
    assert!(
        waited >= rest && waited <= rest + Duration::from_secs(1),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_gate_does_not_look_at_the_time_of_day() {
    let hour = HOUR.as_millis() as i64;
    for jump in [hour, -hour, 24 * hour, -24 * hour] {
        let waited = gate_after(|machine| machine.is_set_by(jump)).await;
        let rest = 50 * MINUTE;
        assert!(
            waited >= rest && waited <= rest + Duration::from_secs(1),
            "{waited:?} after {jump}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn stages_and_blocks_are_not_timed_out_by_a_sleep() {
    let machine = Machine::new();
    let text = "digraph t { start -> fan; fan [shape=component, timeout=1h]; fan -> a -> join; fan -> b -> join
        a [type=act, timeout=50m]; b [type=act, retry_policy=patient]; join [shape=tripleoctagon]; join -> exit }";
    let work = |_| async {
        tokio::time::sleep(40 * MINUTE).await;
        Outcome::success()
    };
    let run = begin(&machine, text, Acts::new().on("a", work).on("b", work)).await;
    tokio::time::sleep(10 * MINUTE).await;
    machine.sleeps_for(17 * HOUR);
    machine.is_set_by(24 * HOUR.as_millis() as i64);
    let result = run.wait().await.unwrap();
    assert_eq!(result.status, RunStatus::Success, "{:?}", result.failure);
    assert_eq!(machine.elapsed(), 40 * MINUTE);
}
