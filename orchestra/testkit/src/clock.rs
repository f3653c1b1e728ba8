//! Simulated time, which passes only when nothing else can happen.

use std::future::Future;
use std::io;
use std::panic::resume_unwind;
use std::time::Duration;

use orchestra_engine::{Clock, Sleep, Timestamp};
use tokio::time::Instant;

/// A clock on tokio's paused time. Whenever no task can make progress, it jumps to the time of the next timer.
/// Back-offs of minutes and timeouts of days run in milliseconds, and take exactly the configured time on this clock.
///
/// Use it in programs that drive an engine themselves, in a runtime whose time is paused; a
/// [`Simulation`](crate::Simulation) has its own. Create it inside the runtime. If time is not paused, it is an
/// ordinary clock that starts on 1 January 2026.
///
/// ```
/// use std::time::Duration;
/// use orchestra_engine::{Engine, Script};
/// use orchestra_testkit::FakeClock;
/// # use orchestra_graph::{Source, load};
///
/// // In a test: `#[tokio::test(start_paused = true)]`.
/// #[tokio::main(flavor = "current_thread", start_paused = true)]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let text = r#"digraph {
///         start -> upload -> exit
///         upload [prompt="Upload it", retry_policy=patient, retry_jitter=false]
///     }"#;
///     # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
///     let script = Script::new().outcomes("upload", ["fail", "fail", "success"]);
///     let engine = Engine::builder().simulate(script).clock(FakeClock::new()).build()?;
///     let result = engine.start(pipeline, ()).await?.wait().await?;
///     assert_eq!(result.duration, Duration::from_secs(2 + 6));
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FakeClock {
    origin: Instant,
    began: Timestamp,
}

impl FakeClock {
    /// The default start time of a fake clock: 1 January 2026.
    pub const BEGINNING: Timestamp = Timestamp::from_millis(1_767_225_600_000);

    /// Creates a clock that starts at [`BEGINNING`](FakeClock::BEGINNING).
    pub fn new() -> FakeClock {
        FakeClock::beginning_at(FakeClock::BEGINNING)
    }

    /// Creates a clock that starts at the given time.
    pub fn beginning_at(began: Timestamp) -> FakeClock {
        FakeClock {
            origin: Instant::now(),
            began,
        }
    }
}

impl Default for FakeClock {
    fn default() -> FakeClock {
        FakeClock::new()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        let elapsed = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(self.began.as_millis().saturating_add(elapsed))
    }

    fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Runs a future to completion in paused time. Uses a separate thread, so that it can be called from a plain test and
/// from within another runtime.
///
/// # Errors
///
/// Returns an error if the thread or the runtime cannot be created.
pub(crate) fn in_paused_time<T: Send, F: Future<Output = T>>(
    make: impl FnOnce() -> F + Send,
) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("simulation".to_owned());
        let running = thread.spawn_scoped(scope, || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().start_paused(true).build()?;
            Ok(runtime.block_on(async { make().await }))
        })?;
        running.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
