//! One attempt of a stage: started, polled, waited for, cut short.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use orchestra_core::{EffectId, Outcome};
use orchestra_graph::Stage;
use tokio_util::sync::CancellationToken;

use crate::clock::Sleep;
use crate::handler::HandlerFuture;
use crate::resolve::Resolved;
use crate::run::Run;
use crate::stage::StageContext;
use crate::steering::Active;

/// How long a cancelled handler that ends itself is waited for; tools are killed after two seconds at the latest.
const END_GRACE: Duration = Duration::from_secs(5);

/// An attempt that has begun.
pub(crate) struct Attempt<'h> {
    pub(crate) id: EffectId,
    pub(crate) resolved: &'h Resolved,
    future: HandlerFuture<'h>,
    span: tracing::Span,
    timeout: Option<Duration>,
    started: Duration,
    _active: Option<Active>,
}

/// What came of an attempt that had to be waited for.
pub(crate) enum Ended {
    /// The handler gave an outcome.
    Outcome(Outcome),
    /// It took longer than the stage's `timeout`.
    TimedOut(Duration),
    /// It is not wanted any more.
    Cancelled,
}

impl<'h> Attempt<'h> {
    /// Calls the handler. A panic before there is a future is an outcome already.
    pub(crate) fn begin(
        run: &Run,
        resolved: &'h Resolved,
        stage: Stage<'_>,
        id: EffectId,
        context: StageContext,
    ) -> Result<Attempt<'h>, Box<Outcome>> {
        let span = tracing::info_span!(
            "stage",
            node = stage.id(),
            kind = stage.kind(),
            visit = id.visit,
            attempt = id.attempt
        );
        let timeout = stage.duration("timeout").filter(|_| !resolved.ends_itself);
        let started = match timeout {
            Some(_) => run.settings.clock.elapsed(),
            None => Duration::ZERO,
        };
        let active = context.active();
        let call = {
            let _entered = span.enter();
            catch_unwind(AssertUnwindSafe(|| resolved.handler.run(context)))
        };
        match call {
            Ok(future) => Ok(Attempt {
                id,
                resolved,
                future,
                span,
                timeout,
                started,
                _active: active,
            }),
            Err(panic) => Err(Box::new(panicked(&*panic))),
        }
    }

    /// Goes on as far as it can without waiting.
    pub(crate) fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<Outcome> {
        let _entered = self.span.enter();
        let future = &mut self.future;
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(panicked(&*panic)),
        }
    }

    /// Waits until the attempt ends, or must.
    pub(crate) async fn wait(&mut self, run: &Run, cancelled: &CancellationToken) -> Ended {
        let clock = &run.settings.clock;
        let timeout = self.timeout;
        let mut timer = timeout
            .map(|timeout| clock.sleep(timeout.saturating_sub(clock.elapsed().saturating_sub(self.started))));
        let ended = tokio::select! {
            biased;
            outcome = poll_fn(|cx| self.poll(cx)) => Ended::Outcome(outcome),
            () = cancelled.cancelled() => Ended::Cancelled,
            () = poll_fn(|cx| ring(&mut timer, cx)) => Ended::TimedOut(timeout.unwrap_or_default()),
        };
        if self.resolved.ends_itself && !matches!(ended, Ended::Outcome(_)) {
            run.release_token(&self.id, true);
            let patience = clock.sleep(END_GRACE);
            tokio::select! {
                _ = poll_fn(|cx| self.poll(cx)) => {}
                () = patience => {}
            }
        }
        ended
    }

    /// Ends what the attempt started, before anything else happens. A destructor may panic too; that is the outcome.
    pub(crate) fn end(self, run: &Run, cut_short: bool) -> Result<(), Box<Outcome>> {
        let Attempt { future, id, .. } = self;
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(future)));
        run.release_token(&id, cut_short);
        dropped.map_err(|panic| Box::new(panicked(&*panic)))
    }
}

/// Rings when the timer does; no timer never rings.
pub(crate) fn ring(timer: &mut Option<Sleep>, cx: &mut TaskContext<'_>) -> Poll<()> {
    match timer {
        Some(timer) => timer.as_mut().poll(cx),
        None => Poll::Pending,
    }
}

/// The outcome of a handler that panicked (Attractor 4.12).
fn panicked(panic: &(dyn Any + Send)) -> Outcome {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Outcome::fail(match message {
        Some(message) => format!("the handler panicked: {message}"),
        None => "the handler panicked".to_owned(),
    })
}
