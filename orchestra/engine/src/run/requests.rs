//! The requests of running stages to the driver: to store a note, or to read the state of the run.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use orchestra_core::EffectId;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::run::history::{PastStage, StageHistory};

pub(crate) enum Request {
    /// Stores a note for a repeat of the attempt.
    Note {
        id: EffectId,
        note: Value,
        checkpoint: bool,
        done: oneshot::Sender<()>,
    },
    /// Returns the history of the stage.
    Look {
        id: EffectId,
        done: oneshot::Sender<StageHistory>,
    },
    /// Returns the latest outcomes of nodes as the stage sees them; of all nodes if `nodes` is `None`.
    Latest {
        id: EffectId,
        nodes: Option<Vec<String>>,
        done: oneshot::Sender<Vec<PastStage>>,
    },
}

/// The requests of the stages of a run, oldest first.
#[derive(Default)]
pub(crate) struct Requests {
    inner: Mutex<Inner>,
    /// `true` if there is a request, so that a run without requests need not lock the list.
    waiting: AtomicBool,
}

#[derive(Default)]
struct Inner {
    list: VecDeque<Request>,
    /// The senders that wait for a note to be durable. Those of one attempt are in order.
    noting: Vec<(EffectId, oneshot::Sender<()>)>,
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn send(&self, request: Request) {
        self.lock().list.push_back(request);
        self.waiting.store(true, Ordering::Release);
    }

    pub(crate) fn take(&self) -> Option<Request> {
        if !self.waiting.load(Ordering::Acquire) {
            return None;
        }
        let mut inner = self.lock();
        let request = inner.list.pop_front();
        self.waiting.store(!inner.list.is_empty(), Ordering::Release);
        request
    }

    /// Stores the sender that waits for a note.
    pub(crate) fn noting(&self, id: EffectId, done: oneshot::Sender<()>) {
        self.lock().noting.push((id, done));
    }

    /// Notifies the sender that has waited longest for a note of this attempt.
    pub(crate) fn noted(&self, id: &EffectId) {
        let mut inner = self.lock();
        let at = inner.noting.iter().position(|(of, _)| of == id);
        if let Some(at) = at {
            let (_, done) = inner.noting.remove(at);
            drop(inner);
            // The stage may have been dropped.
            let _ = done.send(());
        }
    }

    /// Drops the senders of an attempt that has ended.
    pub(crate) fn forget(&self, id: &EffectId) {
        self.lock().noting.retain(|(of, _)| of != id);
    }
}
