//! A check whether the system can start another thread for the runtime.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Id};

/// The time for which the runtime certainly keeps an idle thread.
const KEPT: Duration = Duration::from_secs(5);

/// Returns whether the runtime has a thread for a blocking function, or can start one. If not, the caller must run the
/// function in place, which delays the other stages of the run, because the runtime would panic.
pub(crate) fn has_thread() -> bool {
    static LATEST: Mutex<Option<(Id, Instant)>> = Mutex::new(None);
    let id = Handle::current().id();
    let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = latest.is_some_and(|(known, at)| known == id && at.elapsed() < KEPT);
    if !kept && !can_start_threads() {
        tracing::warn!(
            "no more threads can be started: raise `ulimit -u`, or `pids.max` of the control group"
        );
        return false;
    }
    *latest = Some((id, Instant::now()));
    true
}

/// Starts threads and waits until they end. Starts several at once, because the system counts a thread for a moment
/// after it has ended.
fn can_start_threads() -> bool {
    const PROBES: usize = 3;
    let go = Arc::new(Mutex::new(()));
    let held = go.lock().unwrap_or_else(PoisonError::into_inner);
    let mut probes = Vec::with_capacity(PROBES);
    for _ in 0..PROBES {
        let go = go.clone();
        let probe = move || drop(go.lock().unwrap_or_else(PoisonError::into_inner));
        match thread::Builder::new().spawn(probe) {
            Ok(probe) => probes.push(probe),
            Err(_) => break,
        }
    }
    drop(held);
    let started = probes.len();
    for probe in probes {
        let _ = probe.join();
    }
    started == PROBES
}
