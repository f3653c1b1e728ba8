//! What a stage asks of the driver of its run while it is under way: to note something for good, to look around.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use orchestra_core::EffectId;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::surroundings::{PastStage, Surroundings};

pub(crate) enum Request {
    /// To keep something that a repeat of the attempt wants to know.
    Note {
        id: EffectId,
        note: Value,
        checkpoint: bool,
        done: oneshot::Sender<()>,
    },
    /// To say where in the run the stage is.
    Look {
        id: EffectId,
        done: oneshot::Sender<Surroundings>,
    },
    /// To say how nodes ended last, as the stage sees them; all nodes where none are named.
    Latest {
        id: EffectId,
        nodes: Option<Vec<String>>,
        done: oneshot::Sender<Vec<PastStage>>,
    },
}

/// The requests of a run's stages, in the order in which they came.
#[derive(Default)]
pub(crate) struct Requests {
    inner: Mutex<Inner>,
    /// Whether one is there, so that a run without any needs no look at the list.
    waiting: AtomicBool,
}

#[derive(Default)]
struct Inner {
    list: VecDeque<Request>,
    /// Who waits for a note to be durable, those of one attempt in their order.
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

    /// Remembers who waits for a note.
    pub(crate) fn noting(&self, id: EffectId, done: oneshot::Sender<()>) {
        self.lock().noting.push((id, done));
    }

    /// Tells the one who waits longest for a note of this attempt that it is kept.
    pub(crate) fn noted(&self, id: &EffectId) {
        let mut inner = self.lock();
        let place = inner.noting.iter().position(|(of, _)| of == id);
        if let Some(place) = place {
            let (_, done) = inner.noting.remove(place);
            drop(inner);
            // The stage may be gone.
            let _ = done.send(());
        }
    }

    /// Forgets who waits for notes of an attempt that is over.
    pub(crate) fn forget(&self, id: &EffectId) {
        self.lock().noting.retain(|(of, _)| of != id);
    }
}
