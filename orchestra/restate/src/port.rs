//! The connection of an attempt that a worker executes to its run.

use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orchestra_core::{Answer, EffectId, Question, Snapshot, Usage};
use orchestra_engine::{
    AttemptPort, Clock as _, EventKind, HostedText, InterviewError, OverBudget, PastStage, PortFuture,
    StageHistory, SystemClock,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::blobs::Blobs;
use crate::ingress::{Backoff, Ingress, RequestError};
use crate::message::{Message, Refused, Reply, Report, Sent};
use crate::packing::{LARGE_VALUE, Packed};
use crate::reporter::{NotReported, Reporter};
use crate::wire::{ATTEMPT, Envelope, Look, NoteReply, NoteRequest, RUN, Seen, attempt_key};

/// The time for which events are collected before they are sent.
const COLLECTED: Duration = Duration::from_secs(1);

/// The end of a report that the run did not accept: it does not wait for the execution any more.
#[derive(Debug)]
pub(crate) struct NotAwaited;

/// The connection of one execution of an attempt to its run.
pub(crate) struct Port {
    pub(crate) ingress: Ingress,
    reporter: Reporter,
    pub(crate) blobs: Blobs,
    pub(crate) run: String,
    pub(crate) secret: String,
    pub(crate) effect: EffectId,
    /// The name of the effect.
    pub(crate) name: String,
    pub(crate) token: u64,
    /// Cancelled when the run does not wait for the execution any more.
    pub(crate) lost: CancellationToken,
    /// The number of notes of the attempt.
    notes: AtomicU64,
    has_noted: AtomicBool,
    /// The state of the files that belongs to the next note.
    snapshot: Mutex<Option<Snapshot>>,
    reservations: Mutex<Reservations>,
    events: Mutex<Vec<EventKind>>,
    has_events: Notify,
    /// The number of messages with events. They are sent one after the other, because the run takes none that is older.
    messages: tokio::sync::Mutex<u64>,
    answers: Answers,
    outgoing: mpsc::UnboundedSender<Report>,
}

/// The answers that signals brought, by the names of questions.
#[derive(Clone, Default)]
pub(crate) struct Answers(Arc<(Mutex<HashMap<String, Answer>>, Notify)>);

/// The reservations of an execution.
#[derive(Default)]
struct Reservations {
    number: u64,
    held: Vec<(u64, Usage)>,
}

/// Reports that nobody waits for, in their order.
pub(crate) type Outbox = mpsc::UnboundedReceiver<Report>;

/// One execution of an attempt.
#[derive(Clone)]
pub(crate) struct Execution {
    pub(crate) run: String,
    pub(crate) secret: String,
    pub(crate) effect: EffectId,
    pub(crate) name: String,
    pub(crate) token: u64,
    pub(crate) notes: u64,
}

impl Answers {
    /// Passes an answer on to the stage that asked.
    pub(crate) fn give(&self, question: String, answer: Answer) {
        lock(&self.0.0).insert(question, answer);
        self.0.1.notify_waiters();
    }

    async fn wait(&self, question: &str) -> Answer {
        loop {
            let changed = self.0.1.notified();
            if let Some(answer) = lock(&self.0.0).get(question) {
                return answer.clone();
            }
            changed.await;
        }
    }
}

impl Port {
    pub(crate) fn new(
        ingress: Ingress,
        reporter: Reporter,
        blobs: Blobs,
        execution: Execution,
        answers: Answers,
        lost: CancellationToken,
    ) -> (Port, Outbox) {
        let (outgoing, outbox) = mpsc::unbounded_channel();
        let port = Port {
            ingress,
            reporter,
            blobs,
            run: execution.run,
            secret: execution.secret,
            effect: execution.effect,
            name: execution.name,
            token: execution.token,
            lost,
            notes: AtomicU64::new(execution.notes),
            has_noted: AtomicBool::new(execution.notes > 0),
            snapshot: Mutex::default(),
            reservations: Mutex::default(),
            events: Mutex::default(),
            has_events: Notify::new(),
            messages: tokio::sync::Mutex::default(),
            answers,
            outgoing,
        };
        (port, outbox)
    }

    /// Returns whether the attempt has stored notes.
    pub(crate) fn has_noted(&self) -> bool {
        self.has_noted.load(Ordering::Relaxed)
    }

    /// Takes the events that were not sent yet.
    pub(crate) fn take_events(&self) -> Vec<EventKind> {
        std::mem::take(&mut *lock(&self.events))
    }

    /// Sends a report until the run accepts it. Returns the reply.
    pub(crate) async fn report(&self, report: Report) -> Result<Reply, NotAwaited> {
        let message = Message::Attempt {
            effect: self.effect.clone(),
            token: self.token,
            report,
        };
        let at = SystemClock::new().now();
        let sent = Sent { at, message };
        let mut backoff = Backoff::new();
        loop {
            match self.try_to_send(&sent).await {
                Ok(Reply::Refused(Refused::NotAwaited | Refused::Phase(_))) => return Err(NotAwaited),
                Ok(reply) => return Ok(reply),
                Err(error) if error.is_temporary => {
                    tracing::warn!(run = %self.run, attempt = %self.name, "a report is sent again: {error}");
                    backoff.wait().await;
                }
                Err(error) => {
                    tracing::warn!(run = %self.run, attempt = %self.name, "a report was refused: {error}");
                    return Err(NotAwaited);
                }
            }
        }
    }

    async fn try_to_send(&self, sent: &Sent) -> Result<Reply, NotReported> {
        let packed = Packed::pack(&self.blobs, &self.run, sent, LARGE_VALUE).await;
        let sent = packed.map_err(|error| NotReported::temporary(error.to_string()))?;
        match self.reporter.send(&self.run, &self.secret, sent).await? {
            Reply::Refused(Refused::Parked(reason)) => Err(NotReported::temporary(reason)),
            reply => Ok(reply),
        }
    }

    async fn pack(&self, value: &impl Serialize) -> Result<Packed, RequestError> {
        let packed = Packed::pack(&self.blobs, &self.run, value, LARGE_VALUE).await;
        packed.map_err(|error| RequestError::Failed {
            url: "the blob store".to_owned(),
            status: 503,
            message: error.to_string(),
        })
    }

    /// Looks at the run until it answers.
    async fn look(&self, look: Look) -> Seen {
        self.until_answered(|| self.ingress.call(RUN, &self.run, "look", &look))
            .await
    }

    /// Sends a request until it is answered. One that is refused is not answered: the attempt is lost.
    async fn until_answered<T: DeserializeOwned, F>(&self, request: impl Fn() -> F) -> T
    where
        F: Future<Output = Result<T, RequestError>>,
    {
        let mut backoff = Backoff::new();
        loop {
            match request().await {
                Ok(answered) => return answered,
                Err(error) if goes_on(&error) => {
                    tracing::warn!(run = %self.run, attempt = %self.name, "a request is sent again: {error}");
                    backoff.wait().await;
                }
                Err(error) => {
                    tracing::warn!(run = %self.run, attempt = %self.name, "a request was refused: {error}");
                    return self.lose().await;
                }
            }
        }
    }

    /// Stops the execution, which the run does not wait for any more.
    async fn lose<T>(&self) -> T {
        self.lost.cancel();
        pending().await
    }

    /// Sends reports that nobody waits for, and collected events, until the attempt has ended. A report that is being sent
    /// then arrives first, so that no event is lost or counted twice.
    pub(crate) async fn send_rest(&self, mut outbox: Outbox, ended: CancellationToken) {
        loop {
            let report = tokio::select! {
                biased;
                () = ended.cancelled() => return,
                Some(report) = outbox.recv() => report,
                () = self.has_events.notified() => {
                    tokio::select! {
                        () = ended.cancelled() => return,
                        () = tokio::time::sleep(COLLECTED) => {}
                    }
                    if self.send_events().await.is_err() {
                        return;
                    }
                    continue;
                }
            };
            if self.report(report).await.is_err() {
                self.lost.cancel();
                return;
            }
        }
    }

    /// Sends the events that were not sent yet.
    async fn send_events(&self) -> Result<(), NotAwaited> {
        let mut messages = self.messages.lock().await;
        let events = self.take_events();
        if events.is_empty() {
            return Ok(());
        }
        *messages += 1;
        let number = *messages;
        let sent = self.report(Report::Emitted { number, events }).await;
        if sent.is_err() {
            self.lost.cancel();
        }
        sent.map(drop)
    }
}

/// Returns whether a request is to be sent again: the server may come back, or an operator may repair what the run lacks.
fn goes_on(error: &RequestError) -> bool {
    let is_parked = |message: &str| message.starts_with("run_parked");
    error.is_temporary() || matches!(error, RequestError::Refused { message, .. } if is_parked(message))
}

impl AttemptPort for Port {
    fn note(&self, note: Value, _checkpoint: bool, used: Usage) -> PortFuture<'_, ()> {
        Box::pin(async move {
            let number = self.notes.fetch_add(1, Ordering::Relaxed);
            self.has_noted.store(true, Ordering::Relaxed);
            let snapshot = self
                .snapshot
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let at = SystemClock::new().now();
            let key = attempt_key(&self.run, &self.name);
            let noted = self.until_answered(async || {
                let used = match used.is_zero() {
                    true => None,
                    false => {
                        let message = Message::Attempt {
                            effect: self.effect.clone(),
                            token: self.token,
                            report: Report::Used(used),
                        };
                        Some(Envelope {
                            secret: self.secret.clone(),
                            sent: self.pack(&Sent { at, message }).await?,
                        })
                    }
                };
                let request = NoteRequest {
                    token: self.token,
                    number,
                    note: self.pack(&note).await?,
                    snapshot: snapshot.clone(),
                    used,
                    run: self.run.clone(),
                };
                self.ingress.call(ATTEMPT, &key, "note", &request).await
            });
            // Together with the note, so that a later execution does not begin behind events that nobody sees.
            let (replied, sent): (NoteReply, _) = tokio::join!(noted, self.send_events());
            if sent.is_err() || matches!(replied, NoteReply::OldToken) {
                self.lose().await
            }
        })
    }

    fn snapshot(&self, snapshot: Snapshot) {
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
    }

    fn history(&self) -> PortFuture<'_, StageHistory> {
        Box::pin(async move {
            match self.look(Look::History(self.effect.clone())).await {
                Seen::History(history) => *history,
                _ => self.lose().await,
            }
        })
    }

    fn latest(&self, nodes: Option<Vec<String>>) -> PortFuture<'_, Vec<PastStage>> {
        Box::pin(async move {
            match self.look(Look::Latest(self.effect.clone(), nodes)).await {
                Seen::Latest(latest) => latest,
                _ => self.lose().await,
            }
        })
    }

    fn texts(&self, records: Vec<String>) -> PortFuture<'_, Vec<HostedText>> {
        Box::pin(async move {
            let mut texts = Vec::new();
            for record in records {
                let mut backoff = Backoff::new();
                loop {
                    match self.blobs.texts(&self.run, &record).await {
                        Ok(found) => {
                            texts.extend(found);
                            break;
                        }
                        Err(error) => {
                            tracing::warn!(run = %self.run, attempt = %self.name, "texts are read again: {error}");
                            backoff.wait().await;
                        }
                    }
                }
            }
            texts
        })
    }

    fn reserve(&self, most: Usage) -> PortFuture<'_, Result<(), OverBudget>> {
        Box::pin(async move {
            let number = {
                let mut reservations = lock(&self.reservations);
                reservations.number += 1;
                reservations.number
            };
            let mut backoff = Backoff::new();
            loop {
                match self.report(Report::Reserved { number, most }).await {
                    Ok(Reply::Accepted) => {
                        lock(&self.reservations).held.push((number, most));
                        return Ok(());
                    }
                    Ok(Reply::Refused(Refused::OverBudget { node, budget, used })) => {
                        return Err(match node {
                            Some(node) => OverBudget::of_node(node, budget, used, most),
                            None => OverBudget::of_run(budget, used, most),
                        });
                    }
                    Ok(_) => backoff.wait().await,
                    Err(NotAwaited) => return self.lose().await,
                }
            }
        })
    }

    fn release(&self, most: Usage) {
        let mut reservations = lock(&self.reservations);
        if let Some(at) = reservations.held.iter().position(|(_, held)| *held == most) {
            let (number, _) = reservations.held.swap_remove(at);
            // Without a receiver the attempt is over, and with it its reservations.
            drop(self.outgoing.send(Report::Released { number }));
        }
    }

    fn ask(&self, question: Question) -> PortFuture<'_, Result<Answer, InterviewError>> {
        Box::pin(async move {
            let id = question.id.clone();
            match self.report(Report::Asked(Box::new(question))).await {
                Ok(Reply::Answered(answer)) => Ok(answer),
                Ok(_) => Ok(self.answers.wait(&id).await),
                Err(NotAwaited) => self.lose().await,
            }
        })
    }

    fn event(&self, event: EventKind) {
        lock(&self.events).push(event);
        self.has_events.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
