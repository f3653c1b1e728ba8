//! Adds a run that this process executes to the index of runs. The index never stops or delays a run.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use orchestra_engine::RunEvent;
use orchestra_sessions::{SessionError, SessionIndex};

use crate::terminal::{Paint, Terminal};

/// Maximum time that another process may hold the index before this run is not indexed.
const INDEX_TIMEOUT: Duration = Duration::from_secs(2);

type Listener = Box<dyn Fn(&RunEvent) + Send + Sync>;

/// Forwards events to the index once it is open.
#[derive(Clone, Default)]
pub(crate) struct EventForwarder(Arc<OnceLock<Listener>>);

impl EventForwarder {
    pub(crate) fn forward(&self, event: &RunEvent) {
        if let Some(listener) = self.0.get() {
            listener(event);
        }
    }
}

/// The state of adding a run to the index.
pub(crate) enum Indexing {
    /// The run is not indexed.
    None,
    /// A thread opens the index and adds the run. Earlier events are read from the folder of the run.
    Opening(JoinHandle<Result<SessionIndex, SessionError>>),
    Open(SessionIndex),
}

impl Indexing {
    /// Adds a run that has started. A run in the runs folder is found by its folder, so this method does not wait. A
    /// run elsewhere must be added before this method returns, because nobody would find it otherwise.
    pub(crate) fn begin(
        runs: &Path,
        folder: Option<&Path>,
        forwarder: EventForwarder,
        terminal: &Terminal,
    ) -> Indexing {
        let Some(folder) = folder.map(Path::to_owned) else {
            return Indexing::None;
        };
        let below = std::path::absolute(runs).is_ok_and(|runs| folder.parent() == Some(&*runs));
        let runs = runs.to_owned();
        let open = move || open(runs, folder, &forwarder);
        if below {
            let spawned = std::thread::Builder::new().spawn(open);
            return spawned.map_or(Indexing::None, Indexing::Opening);
        }
        match open() {
            Ok(index) => Indexing::Open(index),
            Err(error) => {
                warn(terminal, &error);
                Indexing::None
            }
        }
    }

    /// Applies the outstanding events.
    pub(crate) fn end(self, terminal: &Terminal) {
        let opened = match self {
            Indexing::None => return,
            Indexing::Opening(thread) => match thread.join() {
                Ok(opened) => opened,
                Err(_) => return,
            },
            Indexing::Open(index) => Ok(index),
        };
        if let Err(error) = opened.and_then(|index| index.flush()) {
            warn(terminal, &error);
        }
    }
}

fn open(runs: PathBuf, folder: PathBuf, forwarder: &EventForwarder) -> Result<SessionIndex, SessionError> {
    let index = SessionIndex::open_patiently(runs, INDEX_TIMEOUT)?;
    index.accept(&folder)?;
    // Nobody else sets it.
    let _ = forwarder.0.set(Box::new(index.listener()));
    Ok(index)
}

fn warn(terminal: &Terminal, error: &SessionError) {
    let mark = terminal.paint(Paint::Warn, &format!("warning[{}]", error.code()));
    terminal.progress(&format!("{mark}: {error}; the run itself is not harmed"));
}
