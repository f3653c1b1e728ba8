//! Whether the system gives the runtime another thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Id};

/// How long the runtime has surely kept a thread that it had.
const KEPT: Duration = Duration::from_secs(5);

/// Reports whether the runtime has a thread for a function that blocks, or can start one. Where the system gives no more
/// threads the function runs in place, which holds up the other stages of the run; the runtime would panic.
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

/// Starts threads and waits for their ends. More than one at a time: the system counts one that has just ended for a
/// moment longer.
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
