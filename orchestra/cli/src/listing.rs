//! How a run that this process executes gets into the index of runs. The index never stops a run, nor makes it wait.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use orchestra_engine::RunEvent;
use orchestra_sessions::{SessionError, SessionIndex};

use crate::terminal::{Paint, Terminal};

/// How long another process may hold the index before this one goes without it.
const PATIENCE: Duration = Duration::from_secs(2);

type Listener = Box<dyn Fn(&RunEvent) + Send + Sync>;

/// Tells the index of events, once it listens.
#[derive(Clone, Default)]
pub(crate) struct Ear(Arc<OnceLock<Listener>>);

impl Ear {
    pub(crate) fn hear(&self, event: &RunEvent) {
        if let Some(listener) = self.0.get() {
            listener(event);
        }
    }
}

/// A run on its way into the index.
pub(crate) enum Listing {
    /// It stays outside.
    None,
    /// A thread opens the index and lists the run; what happened until then is read from the run's folder.
    Opening(JoinHandle<Result<SessionIndex, SessionError>>),
    Open(SessionIndex),
}

impl Listing {
    /// Lists a run that has begun. Below the runs folder its own folder lists it already; one elsewhere is waited for,
    /// since else nobody would find it.
    pub(crate) fn begin(runs: &Path, folder: Option<&Path>, ear: Ear, terminal: &Terminal) -> Listing {
        let Some(folder) = folder.map(Path::to_owned) else {
            return Listing::None;
        };
        let below = std::path::absolute(runs).is_ok_and(|runs| folder.parent() == Some(&*runs));
        let runs = runs.to_owned();
        let open = move || open(runs, folder, &ear);
        if below {
            let spawned = std::thread::Builder::new().spawn(open);
            return spawned.map_or(Listing::None, Listing::Opening);
        }
        match open() {
            Ok(index) => Listing::Open(index),
            Err(error) => {
                warn(terminal, &error);
                Listing::None
            }
        }
    }

    /// Takes in what is outstanding.
    pub(crate) fn end(self, terminal: &Terminal) {
        let opened = match self {
            Listing::None => return,
            Listing::Opening(thread) => match thread.join() {
                Ok(opened) => opened,
                Err(_) => return,
            },
            Listing::Open(index) => Ok(index),
        };
        if let Err(error) = opened.and_then(|index| index.flush()) {
            warn(terminal, &error);
        }
    }
}

fn open(runs: PathBuf, folder: PathBuf, ear: &Ear) -> Result<SessionIndex, SessionError> {
    let index = SessionIndex::open_patiently(runs, PATIENCE)?;
    index.accept(&folder)?;
    // Nobody else sets it.
    let _ = ear.0.set(Box::new(index.listener()));
    Ok(index)
}

fn warn(terminal: &Terminal, error: &SessionError) {
    let mark = terminal.paint(Paint::Warn, &format!("warning[{}]", error.code()));
    terminal.progress(&format!("{mark}: {error}; the run itself is not harmed"));
}
