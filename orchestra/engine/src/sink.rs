//! Where events go: the callback, the subscribers, the store; to each in one order.

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

/// A function that is told every event.
pub(crate) type Callback = Arc<dyn Fn(&RunEvent) + Send + Sync>;

/// The events of one run, from the first; ends after the last.
///
/// Nothing is dropped: what is not yet received is kept. It is a [`Stream`] too.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start_loaded(pipeline, ()).await?;
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
    /// The next event; `None` after the last.
    pub async fn recv(&mut self) -> Option<Arc<RunEvent>> {
        self.receiver.recv().await
    }

    /// The next event if there is one already.
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
    /// How many events other processes told.
    before: u64,
    /// Whether anybody wants events; once false it stays false, because only a handle can add subscribers.
    wanted: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    seq: u64,
    /// All events so far, as long as a subscriber may still come.
    history: Option<Vec<Arc<RunEvent>>>,
    subscribers: Vec<UnboundedSender<Arc<RunEvent>>>,
    /// Events that the callbacks have yet to see.
    queue: VecDeque<Told>,
    delivering: bool,
    /// Whether the store failed.
    broken: bool,
    closed: bool,
}

/// An event on its way to the callbacks.
enum Told {
    Alone(RunEvent),
    Shared(Arc<RunEvent>),
}

impl Told {
    fn event(&self) -> &RunEvent {
        match self {
            Told::Alone(event) => event,
            Told::Shared(event) => event,
        }
    }
}

impl Sink {
    /// A sink of a run that told this many events before.
    pub(crate) fn new(callbacks: Arc<[Callback]>, told: u64) -> Sink {
        Sink {
            callbacks,
            before: told,
            wanted: AtomicBool::new(true),
            inner: Mutex::new(Inner {
                seq: told,
                history: Some(Vec::new()),
                ..Inner::default()
            }),
        }
    }

    /// Whether events are worth making.
    pub(crate) fn wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// How many events were told before this process went on with the run.
    pub(crate) fn told_before(&self) -> u64 {
        self.before
    }

    /// How many events were told.
    pub(crate) fn told(&self) -> u64 {
        self.lock().seq
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream of all events, those of the past included.
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

    /// No subscriber will come any more, so the past need not be kept.
    pub(crate) fn no_more_subscribers(&self, stored: bool) {
        let mut inner = self.lock();
        inner.history = None;
        let wanted = stored || !self.callbacks.is_empty() || !inner.subscribers.is_empty();
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// Tells everybody. The store comes first, so that what is seen is also written.
    ///
    /// # Errors
    /// The store could not write the event; everybody else is told all the same.
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
        // After a failure nothing more is written: a file with a gap would lie.
        let stored = match store {
            Some(store) if !inner.broken => store.event(&event),
            _ => Ok(()),
        };
        inner.broken |= stored.is_err();
        if inner.history.is_none() && inner.subscribers.is_empty() {
            self.call_back(inner, Told::Alone(event));
            return stored;
        }
        let event = Arc::new(event);
        if let Some(history) = &mut inner.history {
            history.push(event.clone());
        }
        inner
            .subscribers
            .retain(|subscriber| subscriber.send(event.clone()).is_ok());
        self.call_back(inner, Told::Shared(event));
        stored
    }

    fn call_back<'s>(&'s self, mut inner: MutexGuard<'s, Inner>, event: Told) {
        if self.callbacks.is_empty() {
            return;
        }
        // A callback may itself cause events; whoever delivers already delivers those too, in order.
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

    /// Whether nothing will be told any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Whether every callback has seen every event.
    pub(crate) fn is_idle(&self) -> bool {
        let inner = self.lock();
        inner.queue.is_empty() && !inner.delivering
    }
}
