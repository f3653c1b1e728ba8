//! Attempts of quick handlers, which a turn executes itself.

use std::sync::{Arc, Mutex, PoisonError};

use orchestra_core::{Answer, Budget, Context, EffectId, Machine, Question, Snapshot, Usage};
use orchestra_engine::{
    AttemptHost, AttemptPort, Clock as _, EventKind, HostedAttempt, HostedText, InterviewError, OverBudget,
    PastStage, PortFuture, RunId, StageHistory, SystemClock,
};
use restate_sdk::prelude::{HandlerResult, Json};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::blobs::{Blobs, TextPlace};
use crate::message::{Finished, Message, Sent};
use crate::packing::{LARGE_VALUE, Packed};

/// An attempt that a turn executes.
pub(crate) struct InlineAttempt {
    pub(crate) host: Arc<AttemptHost>,
    pub(crate) blobs: Blobs,
    pub(crate) run: RunId,
    /// The machine that the attempt sees.
    pub(crate) machine: Machine,
    pub(crate) effect: EffectId,
    pub(crate) token: u64,
    pub(crate) context: Context,
    pub(crate) budget: Budget,
}

impl InlineAttempt {
    /// Executes the attempt. Returns the message about its end, for the journal.
    pub(crate) async fn execute(self) -> HandlerResult<Json<Packed>> {
        let run = self.run;
        let port = Arc::new(InlinePort {
            machine: Mutex::new(self.machine),
            run: run.clone(),
            effect: self.effect.clone(),
            blobs: self.blobs.clone(),
            events: Mutex::default(),
        });
        let mut attempt = HostedAttempt::new(run.clone(), self.effect.clone(), self.context);
        attempt.budget = self.budget;
        attempt.is_repeat = self.token > 1;
        let result = self
            .host
            .run(attempt, port.clone(), &CancellationToken::new())
            .await;
        if !result.texts.is_empty() {
            let place = TextPlace {
                run: &run,
                record: &self.effect.record(self.host.pipeline()),
                restart: self.effect.restart,
                attempt: self.effect.attempt,
                token: self.token,
            };
            self.blobs.put_texts(place, &result.texts).await?;
        }
        let events = std::mem::take(&mut *port.events.lock().unwrap_or_else(PoisonError::into_inner));
        let finished = Finished {
            used: result.used,
            events,
            ..Finished::new(result.end)
        };
        let sent = Sent {
            at: SystemClock::new().now(),
            message: Message::Attempt {
                effect: self.effect,
                token: self.token,
                report: finished.into(),
            },
        };
        Ok(Json(Packed::pack(&self.blobs, &run, &sent, LARGE_VALUE).await?))
    }
}

/// The connection of such an attempt to the state of the turn.
struct InlinePort {
    machine: Mutex<Machine>,
    run: RunId,
    effect: EffectId,
    blobs: Blobs,
    events: Mutex<Vec<EventKind>>,
}

impl AttemptPort for InlinePort {
    /// Forgets the note: if the turn is lost, the whole attempt is made again.
    fn note(&self, _: Value, _: bool, _: Usage) -> PortFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Forgets it: stages that work on files have a pool, and are not executed within turns.
    fn snapshot(&self, _: Snapshot) {}

    fn history(&self) -> PortFuture<'_, StageHistory> {
        let machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        let history = StageHistory::from_machine(&machine, &self.effect);
        Box::pin(async { history })
    }

    fn latest(&self, nodes: Option<Vec<String>>) -> PortFuture<'_, Vec<PastStage>> {
        let machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = PastStage::latest(&machine, &self.effect, nodes.as_deref());
        Box::pin(async { latest })
    }

    fn texts(&self, records: Vec<String>) -> PortFuture<'_, Vec<HostedText>> {
        Box::pin(async move {
            let mut texts = Vec::new();
            for record in records {
                texts.extend(self.blobs.texts(&self.run, &record).await.unwrap_or_default());
            }
            texts
        })
    }

    /// Allows the call: the run has no other in progress that could be charged, and its usage counts at the end.
    fn reserve(&self, _: Usage) -> PortFuture<'_, Result<(), OverBudget>> {
        Box::pin(async { Ok(()) })
    }

    fn release(&self, _: Usage) {}

    fn ask(&self, _: Question) -> PortFuture<'_, Result<Answer, InterviewError>> {
        Box::pin(async {
            Err(InterviewError::unavailable(
                "a stage that is executed within a turn cannot ask anybody",
            ))
        })
    }

    fn event(&self, event: EventKind) {
        self.events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(event);
    }
}
