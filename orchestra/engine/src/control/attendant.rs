//! The thread that looks at the mailboxes of all runs of this process. It is no task of the runs' own: what others ask
//! is to be heard by the time of the world, whatever the clock of the runtime says.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::Mailbox;
use crate::handle::Canceller;
use crate::run::Run;

/// How often a run looks for requests.
pub(super) const LOOK: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Attended {
    runs: Vec<(Mailbox, Weak<Run>)>,
    /// Whether the thread is there.
    running: bool,
}

static ATTENDED: Mutex<Attended> = Mutex::new(Attended {
    runs: Vec::new(),
    running: false,
});

/// Does what other processes ask of a run by files in its folder, as long as it goes.
pub(crate) fn attend(run: &Arc<Run>) {
    // What a stage started is told by the run around it.
    let Some(folder) = run.run_dir().filter(|_| run.origin.depth == 0) else {
        return;
    };
    let mut attended = ATTENDED.lock().unwrap_or_else(PoisonError::into_inner);
    attended.runs.push((Mailbox::new(folder), Arc::downgrade(run)));
    if !attended.running {
        let thread = std::thread::Builder::new().name("orchestra-control".to_owned());
        match thread.spawn(look) {
            Ok(_) => attended.running = true,
            Err(error) => tracing::warn!("other processes cannot ask anything of the runs here: {error}"),
        }
    }
}

/// Looks again and again, until no run is left.
fn look() {
    loop {
        let mut attended = ATTENDED.lock().unwrap_or_else(PoisonError::into_inner);
        if attended.runs.is_empty() {
            attended.running = false;
            return;
        }
        let runs = std::mem::take(&mut attended.runs);
        drop(attended);
        let mut kept = Vec::with_capacity(runs.len());
        for (mut mailbox, weak) in runs {
            match weak.upgrade().filter(|run| !run.sink.is_closed()) {
                Some(run) => {
                    mailbox.attend(&Canceller::of(run));
                    kept.push((mailbox, weak));
                }
                None => mailbox.refuse_rest(),
            }
        }
        let mut attended = ATTENDED.lock().unwrap_or_else(PoisonError::into_inner);
        attended.runs.append(&mut kept);
        drop(attended);
        std::thread::sleep(LOOK);
    }
}
