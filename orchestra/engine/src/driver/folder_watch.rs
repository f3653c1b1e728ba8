//! The thread that checks whether this process still owns the folders of its runs, also while they only wait for a
//! stage.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::run::state::Run;

/// The interval between two checks.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Watched {
    runs: Vec<Weak<Run>>,
    /// `true` while the thread runs.
    running: bool,
}

static WATCHED: Mutex<Watched> = Mutex::new(Watched {
    runs: Vec::new(),
    running: false,
});

/// Watches a run until it ends. The run is stopped if its folder is removed or taken over.
pub(crate) fn watch(run: &Arc<Run>) {
    // No other process can change such a folder.
    if run.settings.files.in_process() {
        return;
    }
    // A child run is stored in the folder of its parent run.
    if run.origin.depth > 0 || run.run_dir().is_none() {
        return;
    }
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    watched.runs.push(Arc::downgrade(run));
    if !watched.running {
        let thread = std::thread::Builder::new().name("orchestra-watch".to_owned());
        match thread.spawn(look) {
            Ok(_) => watched.running = true,
            // The loss is noticed with the next record.
            Err(error) => tracing::warn!("the folders of runs are not watched: {error}"),
        }
    }
}

/// Checks the folders repeatedly until no run is left.
fn look() {
    loop {
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        if watched.runs.is_empty() {
            watched.running = false;
            return;
        }
        let mut runs = std::mem::take(&mut watched.runs);
        drop(watched);
        runs.retain(|run| match run.upgrade() {
            Some(run) if !run.sink.is_closed() => {
                run.check_folder();
                true
            }
            _ => false,
        });
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        watched.runs.append(&mut runs);
        drop(watched);
        std::thread::sleep(LOOK);
    }
}
