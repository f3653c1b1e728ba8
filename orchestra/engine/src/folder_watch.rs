//! The thread that looks whether the folders of the runs of this process are still theirs, while stages run that nobody
//! waits for otherwise.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::run::Run;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Watched {
    runs: Vec<Weak<Run>>,
    /// Whether the thread is there.
    running: bool,
}

static WATCHED: Mutex<Watched> = Mutex::new(Watched {
    runs: Vec::new(),
    running: false,
});

/// Ends a run whose folder is removed or taken over, as long as it goes.
pub(crate) fn watch(run: &Arc<Run>) {
    // Nobody else changes such a folder.
    if run.settings.files().in_process() {
        return;
    }
    // A run within a run is kept in the folder of that one.
    if run.origin.depth > 0 || run.run_dir().is_none() {
        return;
    }
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    watched.runs.push(Arc::downgrade(run));
    if !watched.running {
        let thread = std::thread::Builder::new().name("orchestra-watch".to_owned());
        match thread.spawn(look) {
            Ok(_) => watched.running = true,
            // It is found out with the next record.
            Err(error) => tracing::warn!("the folders of runs are not watched: {error}"),
        }
    }
}

/// Looks again and again, until no run is left.
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
