//! Delivery of events, in the same order, to the store, the subscribers and the callbacks.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll};

use futures_core::Stream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::clock::Timestamp;
use crate::event::{EventKind, RunEvent};
use crate::id::RunId;
use crate::store::{RunStore, StoreError};

/// A function that receives every event.
pub(crate) type Callback = Arc<dyn Fn(&RunEvent) + Send + Sync>;

/// A stream of the events of one run, from the first one. It ends after the last one.
///
/// No event is dropped: events that have not been received yet are buffered. This type also implements [`Stream`].
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start(pipeline, ()).await?;
/// let mut events = run.events();
/// tokio::spawn(async move {
///     while let Some(event) = events.recv().await {
///         println!("{} {}", event.time, event.kind.name());
///     }
/// });
/// run.wait().await?;
/// # Ok(()) }
/// ```
pub struct EventStream {
    receiver: UnboundedReceiver<Arc<RunEvent>>,
}

impl EventStream {
    /// Returns the next event. Returns `None` after the last one.
    pub async fn recv(&mut self) -> Option<Arc<RunEvent>> {
        self.receiver.recv().await
    }

    /// Returns the next event if there is one already.
    pub fn try_recv(&mut self) -> Option<Arc<RunEvent>> {
        self.receiver.try_recv().ok()
    }
}

impl Stream for EventStream {
    type Item = Arc<RunEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Arc<RunEvent>>> {
        self.receiver.poll_recv(cx)
    }
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream").finish_non_exhaustive()
    }
}

pub(crate) struct Sink {
    callbacks: Arc<[Callback]>,
    /// The number of events that other processes emitted.
    before: u64,
    /// `true` if anybody wants events. Once `false`, it remains so, because only a handle can add subscribers.
    wanted: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    seq: u64,
    /// All events so far; `None` once no new subscriber can be added.
    history: Option<Vec<Arc<RunEvent>>>,
    subscribers: Vec<UnboundedSender<Arc<RunEvent>>>,
    /// The events that have not been passed to the callbacks yet.
    queue: VecDeque<QueuedEvent>,
    delivering: bool,
    /// `true` if the store failed.
    broken: bool,
    closed: bool,
}

/// An event to be passed to the callbacks.
enum QueuedEvent {
    Alone(RunEvent),
    Shared(Arc<RunEvent>),
}

impl QueuedEvent {
    fn event(&self) -> &RunEvent {
        match self {
            QueuedEvent::Alone(event) => event,
            QueuedEvent::Shared(event) => event,
        }
    }
}

impl Sink {
    /// Creates the sink of a run that emitted this many events before.
    pub(crate) fn new(callbacks: Arc<[Callback]>, emitted: u64) -> Sink {
        Sink {
            callbacks,
            before: emitted,
            wanted: AtomicBool::new(true),
            inner: Mutex::new(Inner {
                seq: emitted,
                history: Some(Vec::new()),
                ..Inner::default()
            }),
        }
    }

    /// Returns whether anybody wants events. If not, they need not be created.
    pub(crate) fn wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Returns the number of events that were emitted before this process resumed the run.
    pub(crate) fn emitted_before(&self) -> u64 {
        self.before
    }

    /// Returns the number of emitted events.
    pub(crate) fn emitted(&self) -> u64 {
        self.lock().seq
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a stream of all events, including past ones.
    pub(crate) fn subscribe(&self) -> EventStream {
        let (sender, receiver) = unbounded_channel();
        let mut inner = self.lock();
        for event in inner.history.iter().flatten() {
            let _ = sender.send(event.clone());
        }
        if !inner.closed {
            inner.subscribers.push(sender);
        }
        EventStream { receiver }
    }

    /// Drops the past events, because no subscriber can be added any more.
    pub(crate) fn no_more_subscribers(&self, stored: bool) {
        let mut inner = self.lock();
        inner.history = None;
        let wanted = stored || !self.callbacks.is_empty() || !inner.subscribers.is_empty();
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// Delivers an event to everybody. The store comes first, so that every visible event is also written.
    ///
    /// # Errors
    /// The store could not write the event. Everybody else still receives it.
    pub(crate) fn emit(
        &self,
        run: &RunId,
        time: Timestamp,
        store: Option<&dyn RunStore>,
        kind: EventKind,
    ) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if inner.closed {
            return Ok(());
        }
        inner.seq += 1;
        let event = RunEvent {
            seq: inner.seq,
            time,
            run: run.clone(),
            kind,
        };
        // Write nothing after a failure: the file would have an undetected gap.
        let stored = match store {
            Some(store) if !inner.broken => store.event(&event),
            _ => Ok(()),
        };
        inner.broken |= stored.is_err();
        if inner.history.is_none() && inner.subscribers.is_empty() {
            self.call_back(inner, QueuedEvent::Alone(event));
            return stored;
        }
        let event = Arc::new(event);
        if let Some(history) = &mut inner.history {
            history.push(event.clone());
        }
        inner
            .subscribers
            .retain(|subscriber| subscriber.send(event.clone()).is_ok());
        self.call_back(inner, QueuedEvent::Shared(event));
        stored
    }

    fn call_back<'s>(&'s self, mut inner: MutexGuard<'s, Inner>, event: QueuedEvent) {
        if self.callbacks.is_empty() {
            return;
        }
        // A callback may itself cause events. The caller that is delivering also delivers those, in order.
        if inner.delivering {
            inner.queue.push_back(event);
            return;
        }
        inner.delivering = true;
        let mut next = Some(event);
        while let Some(event) = next {
            drop(inner);
            for callback in self.callbacks.iter() {
                if catch_unwind(AssertUnwindSafe(|| callback(event.event()))).is_err() {
                    tracing::error!(event = event.event().kind.name(), "an event callback panicked");
                }
            }
            inner = self.lock();
            next = inner.queue.pop_front();
        }
        inner.delivering = false;
    }

    /// Ends all streams.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.subscribers.clear();
    }

    /// Returns whether no more events are emitted.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Returns whether all events have been passed to all callbacks.
    pub(crate) fn is_idle(&self) -> bool {
        let inner = self.lock();
        inner.queue.is_empty() && !inner.delivering
    }
}
