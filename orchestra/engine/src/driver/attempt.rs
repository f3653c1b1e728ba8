//! An attempt of a stage, from its start until it ends or is cut short.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use orchestra_core::{EffectId, Outcome};
use orchestra_graph::{Stage, format_duration};
use tokio_util::sync::CancellationToken;

use crate::builtin::status;
use crate::clock::Sleep;
use crate::handlers::handler::HandlerFuture;
use crate::handlers::resolved::Resolved;
use crate::run::stage::StageContext;
use crate::run::state::Run;
use crate::run::steering::Active;
use crate::run::workspace::{RunFiles, StageFiles, WorkspaceStage};
use crate::stage_end::{StageEnd, Suspension};

/// The time that a cancelled handler which ends itself gets to finish. Tools are killed after two seconds at the
/// latest.
const END_GRACE: Duration = Duration::from_secs(5);

/// An attempt that has begun.
pub(crate) struct Attempt<'h> {
    pub(crate) id: EffectId,
    pub(crate) resolved: &'h Resolved,
    call: Call<'h>,
    span: tracing::Span,
    timeout: Option<Duration>,
    started: Duration,
    _active: Option<Active>,
}

/// The progress of the handler call.
enum Call<'h> {
    /// The handler is called once the stage has its files.
    Waits(Box<WorkspaceStage>, Arc<RunFiles>, StageContext),
    /// The handler has been called.
    Made(HandlerFuture<'h>),
    /// The call has ended; nothing of it is still running.
    Over,
}

/// The end of an attempt.
pub(crate) enum Ended {
    /// The attempt returned an outcome.
    Outcome(Outcome),
    /// The attempt pauses the run.
    Suspended(Suspension),
    /// The attempt exceeded the `timeout` of its stage.
    TimedOut(Duration),
    /// The attempt was cancelled.
    Cancelled,
}

impl<'h> Attempt<'h> {
    /// Calls the handler, unless the stage needs files first. Returns an outcome if the handler panics before it
    /// returns a future.
    pub(crate) fn begin(
        run: &Run,
        resolved: &'h Resolved,
        stage: Stage<'_>,
        id: EffectId,
        context: StageContext,
        files: Option<(Box<WorkspaceStage>, Arc<RunFiles>)>,
    ) -> Result<Attempt<'h>, Box<Outcome>> {
        let span = tracing::info_span!(
            "stage",
            node = stage.id(),
            kind = stage.kind(),
            visit = id.visit,
            attempt = id.attempt
        );
        let timeout = if resolved.ends_itself {
            None
        } else {
            stage.duration("timeout")
        };
        let started = match timeout {
            Some(_) => run.settings.clock.elapsed(),
            None => Duration::ZERO,
        };
        let active = context.active();
        let call = match files {
            Some((stage, files)) => Call::Waits(stage, files, context),
            None => Call::Made(call(&span, resolved, context)?),
        };
        Ok(Attempt {
            id,
            resolved,
            call,
            span,
            timeout,
            started,
            _active: active,
        })
    }

    /// Polls the handler. Stays pending while the stage waits for its files.
    pub(crate) fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<StageEnd> {
        let _entered = self.span.enter();
        let Call::Made(future) = &mut self.call else {
            return Poll::Pending;
        };
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(panicked(&*panic).into()),
        }
    }

    /// Converts the result of the handler into the end of the attempt.
    pub(crate) fn ended(&self, run: &Run, end: StageEnd) -> Ended {
        match end.into_result() {
            Ok(finished) => {
                let mut outcome = run.admit(&self.id, finished);
                if !self.resolved.heeds_status {
                    outcome = heed_status(run, &self.id, outcome);
                }
                Ended::Outcome(run.enforce_contract(&self.id, outcome))
            }
            Err(suspension) => Ended::Suspended(suspension),
        }
    }

    /// Waits until the attempt ends, times out or is cancelled. Prepares its files before the call and saves them after
    /// it.
    pub(crate) async fn wait(&mut self, run: &Run, cancelled: &CancellationToken) -> Ended {
        let (stage, files, context) = match std::mem::replace(&mut self.call, Call::Over) {
            Call::Waits(stage, files, context) => (stage, files, context),
            call => {
                self.call = call;
                return self.ends(run, cancelled).await;
            }
        };
        // Operations on files are never interrupted.
        let workplace = match files.session.enter(&stage).await {
            _ if cancelled.is_cancelled() => return Ended::Cancelled,
            Ok(workplace) => workplace,
            Err(error) => return Ended::Outcome(error.outcome()),
        };
        if self.timeout.is_some() {
            self.started = run.settings.clock.elapsed();
        }
        let saver = Box::new(StageFiles {
            stage: stage.clone(),
            of_run: files.clone(),
        });
        let context = context.with_workplace(workplace, saver);
        let mut outcome = match call(&self.span, self.resolved, context) {
            Err(outcome) => *outcome,
            Ok(future) => {
                self.call = Call::Made(future);
                match self.ends(run, cancelled).await {
                    Ended::Cancelled => return Ended::Cancelled,
                    Ended::Suspended(suspension) => return Ended::Suspended(suspension),
                    Ended::Outcome(outcome) => outcome,
                    Ended::TimedOut(limit) => {
                        run.attempts.tokens.release(&self.id, true);
                        timed_out(limit)
                    }
                }
            }
        };
        let over = std::mem::replace(&mut self.call, Call::Over);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(over))) {
            outcome = panicked(&*panic);
        }
        let before = outcome.context_updates.clone();
        // If the attempt is cancelled, the token withdraws any question that `leave` is asking.
        let token = run.attempts.tokens.get(&self.id);
        let mut leaving = files.session.leave(&stage, outcome);
        let left = tokio::select! {
            biased;
            left = &mut leaving => Some(left),
            () = cancelled.cancelled() => None,
        };
        let (end, snapshot) = match left {
            Some(left) => left,
            None => {
                token.cancel();
                leaving.await
            }
        };
        if let Some(snapshot) = snapshot {
            files.keep(&self.id, snapshot);
        }
        match end.into_result() {
            Ok(finished) => {
                let outcome = run.admit_from_workspace(&self.id, &before, finished);
                Ended::Outcome(run.enforce_contract(&self.id, outcome))
            }
            Err(suspension) => Ended::Suspended(suspension),
        }
    }

    /// Waits until the handler ends, times out or is cancelled.
    async fn ends(&mut self, run: &Run, cancelled: &CancellationToken) -> Ended {
        let clock = &run.settings.clock;
        let timeout = self.timeout;
        let mut timer = timeout
            .map(|timeout| clock.sleep(timeout.saturating_sub(clock.elapsed().saturating_sub(self.started))));
        let ended = tokio::select! {
            biased;
            end = poll_fn(|cx| self.poll(cx)) => self.ended(run, end),
            () = cancelled.cancelled() => Ended::Cancelled,
            () = poll_fn(|cx| ring(&mut timer, cx)) => Ended::TimedOut(timeout.unwrap_or_default()),
        };
        if self.resolved.ends_itself && matches!(ended, Ended::TimedOut(_) | Ended::Cancelled) {
            run.attempts.tokens.release(&self.id, true);
            let patience = clock.sleep(END_GRACE);
            tokio::select! {
                _ = poll_fn(|cx| self.poll(cx)) => {}
                () = patience => {}
            }
        }
        ended
    }

    /// Ends the attempt: drops the handler call, whose destructor may panic. Returns `None` if the attempt was cancelled.
    pub(crate) fn close(self, run: &Run, ended: Ended) -> Option<Result<Outcome, Suspension>> {
        let cut_short = matches!(ended, Ended::TimedOut(_) | Ended::Cancelled);
        let dropped = self.end(run, cut_short);
        match (ended, dropped) {
            (Ended::Outcome(outcome), Ok(())) => Some(Ok(outcome)),
            (Ended::Suspended(suspension), Ok(())) => Some(Err(suspension)),
            (Ended::Outcome(_) | Ended::Suspended(_), Err(outcome)) => Some(Ok(*outcome)),
            (Ended::TimedOut(limit), _) => Some(Ok(timed_out(limit))),
            (Ended::Cancelled, _) => None,
        }
    }

    /// Drops the handler call and releases the token of the attempt. Returns the outcome of a panic if a destructor
    /// panics.
    pub(crate) fn end(self, run: &Run, cut_short: bool) -> Result<(), Box<Outcome>> {
        let Attempt { call, id, .. } = self;
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(call)));
        run.attempts.tokens.release(&id, cut_short);
        dropped.map_err(|panic| Box::new(panicked(&*panic)))
    }
}

/// Returns the outcome of a handler, merged with the status file that the stage may have written (rule D8).
fn heed_status(run: &Run, id: &EffectId, outcome: Outcome) -> Outcome {
    if !outcome.status.is_success() || !run.stage_files.may_be_present() {
        return outcome;
    }
    let Some(files) = run.present_files() else {
        return outcome;
    };
    let stage = run.pipeline.stage(id.node);
    match status::read(&*files, run.stage_folder(id).as_ref(), stage) {
        Ok(None) => outcome,
        Ok(Some(written)) => status::merge(outcome, run.admit(id, written.into())),
        Err(problem) => Outcome::fail(problem),
    }
}

fn call<'h>(
    span: &tracing::Span,
    resolved: &'h Resolved,
    context: StageContext,
) -> Result<HandlerFuture<'h>, Box<Outcome>> {
    let _entered = span.enter();
    let call = catch_unwind(AssertUnwindSafe(|| resolved.handler.run(context)));
    call.map_err(|panic| Box::new(panicked(&*panic)))
}

/// Returns the outcome of an attempt that exceeded its `timeout` (rule Y6).
fn timed_out(limit: Duration) -> Outcome {
    Outcome::fail(format!("timed out after {}", format_duration(limit))).with_code("timeout")
}

/// Polls a timer. Returns `Pending` if there is none.
pub(crate) fn ring(timer: &mut Option<Sleep>, cx: &mut TaskContext<'_>) -> Poll<()> {
    match timer {
        Some(timer) => timer.as_mut().poll(cx),
        None => Poll::Pending,
    }
}

/// Returns the outcome of a handler that panicked (Attractor 4.12).
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
