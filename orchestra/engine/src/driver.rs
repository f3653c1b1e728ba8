//! The driver: does what the machine says, one task a run, and tells it what came of it (architecture 6).

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use orchestra_core::{Context, Effect, EffectId, Event, Machine, Observation, Outcome, RunFailure};
use orchestra_graph::{NodeIndex, format_duration};

use crate::builtin::status;
use crate::clock::Sleep;
use crate::error::RunError;
use crate::event::EventKind;
use crate::handler::{Handler, HandlerFuture};
use crate::result::{RunResult, RunStatus};
use crate::run::Run;
use crate::stage::StageContext;
use crate::store::{Checkpoint, RunStore, StageFile, StoreError};

/// How long a cancelled handler that ends itself is waited for; tools are killed after two seconds at the latest.
const END_GRACE: Duration = Duration::from_secs(5);

/// A handler as a run uses it.
pub(crate) struct Resolved {
    pub(crate) handler: Arc<dyn Handler>,
    /// Whether the handler itself heeds a status file; the driver does for those that do not.
    pub(crate) heeds_status: bool,
    /// Whether the handler itself keeps to the timeout and ends soon after its token is cancelled. It is waited for,
    /// so that nothing of it is left when the stage has ended.
    pub(crate) ends_itself: bool,
}

pub(crate) struct Driver {
    pub(crate) run: Arc<Run>,
    pub(crate) machine: Machine,
    /// By the index of the kind.
    pub(crate) handlers: Box<[Option<Resolved>]>,
    pub(crate) max_time: Option<Duration>,
    began: Duration,
    stage_began: Duration,
}

/// What came of an attempt.
enum Attempt {
    Ended(Outcome),
    /// The attempt took longer than the stage's `timeout`.
    TimedOut(Duration),
    Cancelled,
    /// The run took longer than it may.
    TimeUp(Duration),
}

/// What the machine wants next.
enum Next {
    Stage(EffectId, Context),
    End(Option<RunFailure>),
}

impl Driver {
    pub(crate) fn new(
        run: Arc<Run>,
        machine: Machine,
        handlers: Box<[Option<Resolved>]>,
        max_time: Option<Duration>,
    ) -> Driver {
        Driver {
            run,
            machine,
            handlers,
            max_time,
            began: Duration::ZERO,
            stage_began: Duration::ZERO,
        }
    }

    /// Runs to the end.
    pub(crate) async fn drive(mut self) -> Result<RunResult, RunError> {
        self.began = self.elapsed();
        if self.run.sink.wanted() {
            let pipeline = &self.run.pipeline;
            self.run.emit(EventKind::PipelineStarted {
                name: pipeline.name.to_string(),
                goal: pipeline.goal().to_owned(),
            });
        }
        let ended = self.turns().await;
        let ended = match ended {
            Ok(failure) => self.checkpoint(Some(failure.as_ref())).await.map(|()| failure),
            Err(error) => Err(error),
        };
        let duration = self.elapsed().saturating_sub(self.began);
        self.conclude(ended, duration).await
    }

    fn elapsed(&self) -> Duration {
        self.run.settings.clock.elapsed()
    }

    /// Stage after stage, until the machine says how the run ended.
    async fn turns(&mut self) -> Result<Option<RunFailure>, StoreError> {
        let mut effects = Vec::with_capacity(4);
        self.machine.observe(self.run.sink.wanted());
        self.machine.begin(&mut effects);
        loop {
            let (id, context) = match self.settle(&mut effects).await? {
                Next::Stage(id, context) => (id, context),
                Next::End(failure) => return Ok(failure),
            };
            let event = match self.attempt(id, context).await? {
                Attempt::Ended(outcome) => Event::NodeFinished { id, outcome },
                Attempt::TimedOut(limit) => {
                    let outcome = Outcome::fail(format!("timed out after {}", format_duration(limit)));
                    Event::NodeFinished { id, outcome }
                }
                Attempt::Cancelled => Event::CancelRequested {
                    reason: self.run.stop.reason(),
                },
                Attempt::TimeUp(limit) => Event::TimeUp { limit },
            };
            if let Some(failure) = self.run.take_failure() {
                return Err(failure);
            }
            self.machine.observe(self.run.sink.wanted());
            self.machine.on(event, &mut effects);
            // A chain of stages that never wait must not keep other tasks from running.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Tells what the machine did, and finds what it wants.
    async fn settle(&mut self, effects: &mut Vec<Effect>) -> Result<Next, StoreError> {
        let last_ended = effects
            .iter()
            .rposition(|effect| matches!(effect, Effect::Observe(observation) if has_ended(observation)));
        let mut next = None;
        for (at, effect) in effects.drain(..).enumerate() {
            match effect {
                Effect::RunNode { id, context } => next = Some(Next::Stage(id, context)),
                Effect::Finish { failure } => next = Some(Next::End(failure)),
                Effect::Observe(observation) => {
                    let ended = self.tell(observation)?;
                    if let Some(node) = ended
                        && Some(at) == last_ended
                        && self.run.store.is_some()
                    {
                        self.checkpoint(None).await?;
                        let node = self.run.name(node);
                        self.run.emit(EventKind::CheckpointSaved { node });
                    }
                }
                // What an attempt started ended with its future.
                _ => {}
            }
        }
        // The machine always waits for a stage or ends; should it do neither, the run ends visibly.
        Ok(next.unwrap_or_else(|| Next::End(Some(stalled()))))
    }

    /// Turns an observation into an event; gives the node if a stage has ended.
    fn tell(&mut self, observation: Observation) -> Result<Option<NodeIndex>, StoreError> {
        let run = &self.run;
        match observation {
            Observation::StageStarted { id, index } => {
                self.stage_began = self.elapsed();
                self.run.emit(EventKind::StageStarted {
                    node: self.run.name(id.node),
                    index,
                    visit: id.visit,
                    attempt: id.attempt,
                });
                return Ok(None);
            }
            Observation::StageCompleted { id, index, outcome } => {
                self.keep_status(id, &outcome)?;
                run.emit(EventKind::StageCompleted {
                    node: run.name(id.node),
                    index,
                    visit: id.visit,
                    attempt: id.attempt,
                    outcome: outcome.status.word().to_owned(),
                    preferred_label: outcome.preferred_label,
                    notes: outcome.notes,
                    duration: self.elapsed().saturating_sub(self.stage_began),
                });
                return Ok(Some(id.node));
            }
            Observation::StageFailed {
                id,
                index,
                outcome,
                will_retry,
            } => {
                self.keep_status(id, &outcome)?;
                run.emit(EventKind::StageFailed {
                    node: run.name(id.node),
                    index,
                    visit: id.visit,
                    attempt: id.attempt,
                    error: outcome.failure_reason.unwrap_or_default(),
                    will_retry,
                    duration: self.elapsed().saturating_sub(self.stage_began),
                });
                return Ok(Some(id.node));
            }
            Observation::Routed { from, decision } => {
                run.emit(EventKind::of_decision(&run.pipeline, from, decision));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Writes the outcome that routing sees to the stage's folder (Attractor appendix C).
    fn keep_status(&self, id: EffectId, outcome: &Outcome) -> Result<(), StoreError> {
        let Some(store) = &self.run.store else {
            return Ok(());
        };
        let stage = self.run.pipeline.stage(id.node);
        if stage.row().role != orchestra_graph::Role::Work {
            return Ok(());
        }
        store.write(stage.id(), StageFile::Status, &status::write(outcome))
    }

    /// Replaces the checkpoint; `ended` says how, where the run has.
    async fn checkpoint(&self, ended: Option<Option<&RunFailure>>) -> Result<(), StoreError> {
        let Some(store) = &self.run.store else {
            return Ok(());
        };
        let status = ended.map_or("running", |failure| RunStatus::of(failure).word());
        let checkpoint = Checkpoint::of(
            &self.run.id,
            self.run.settings.clock.now(),
            &self.run.pipeline,
            self.machine.state(),
            status,
            ended.flatten(),
        );
        save(store.clone(), checkpoint).await
    }

    /// Runs one attempt of a stage.
    async fn attempt(&self, id: EffectId, context: Context) -> Result<Attempt, StoreError> {
        let run = &self.run;
        if run.stop.requested() {
            return Ok(Attempt::Cancelled);
        }
        let stage = run.pipeline.stage(id.node);
        if let Some(files) = run.present_files() {
            files.stage(stage.id(), id.visit)?;
            // A status that the attempt did not write itself would speak for it.
            files.remove(stage.id(), StageFile::Status)?;
        }
        let resolved = self.handlers.get(stage.row().kind as usize);
        let Some(resolved) = resolved.and_then(Option::as_ref) else {
            let reason = format!("no handler of kind `{}`", stage.kind());
            return Ok(Attempt::Ended(Outcome::fail_terminal(reason)));
        };
        let span = tracing::info_span!(
            "stage",
            node = stage.id(),
            kind = stage.kind(),
            visit = id.visit,
            attempt = id.attempt
        );
        let timeout = stage.duration("timeout").filter(|_| !resolved.ends_itself);
        let started = match timeout {
            Some(_) => self.elapsed(),
            None => Duration::ZERO,
        };
        let call = {
            let _entered = span.enter();
            let stage = StageContext::new(run.clone(), id, context);
            catch_unwind(AssertUnwindSafe(|| resolved.handler.run(stage)))
        };
        let mut future = match call {
            Ok(future) => future,
            Err(panic) => return Ok(Attempt::Ended(panicked(&*panic))),
        };
        // Most stages that only compute are done at the first poll; they pay for no timer.
        let mut poll = |cx: &mut TaskContext<'_>| {
            let _entered = span.enter();
            poll_caught(&mut future, cx)
        };
        let attempt = match poll_fn(|cx| Poll::Ready(poll(cx))).await {
            Poll::Ready(outcome) => Attempt::Ended(outcome),
            Poll::Pending => {
                let attempt = self.wait_for(&mut poll, timeout, started).await;
                if resolved.ends_itself && !matches!(attempt, Attempt::Ended(_)) {
                    run.release_token(id, true);
                    self.wait_for_end(poll).await;
                }
                attempt
            }
        };
        // What the attempt started ends here, before anything else happens; a destructor may panic too.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
            run.release_token(id, true);
            return Ok(Attempt::Ended(panicked(&*panic)));
        }
        run.release_token(id, !matches!(attempt, Attempt::Ended(_)));
        match attempt {
            Attempt::Ended(outcome) if !resolved.heeds_status && outcome.status.is_success() => {
                Ok(Attempt::Ended(self.heed_status(id, outcome)))
            }
            other => Ok(other),
        }
    }

    /// Waits for an attempt that was not done at once.
    async fn wait_for(
        &self,
        poll: impl FnMut(&mut TaskContext<'_>) -> Poll<Outcome>,
        timeout: Option<Duration>,
        started: Duration,
    ) -> Attempt {
        let clock = &self.run.settings.clock;
        let timer = |limit: Option<Duration>, since: Duration| {
            limit.map(|limit| clock.sleep(limit.saturating_sub(self.elapsed().saturating_sub(since))))
        };
        let mut stage_timer = timer(timeout, started);
        let mut run_timer = timer(self.max_time, self.began);
        tokio::select! {
            biased;
            outcome = poll_fn(poll) => Attempt::Ended(outcome),
            () = self.run.stop.wait() => Attempt::Cancelled,
            () = poll_fn(|cx| ring(&mut run_timer, cx)) => Attempt::TimeUp(self.max_time.unwrap_or_default()),
            () = poll_fn(|cx| ring(&mut stage_timer, cx)) => Attempt::TimedOut(timeout.unwrap_or_default()),
        }
    }

    /// Waits until a cancelled attempt has ended by itself.
    async fn wait_for_end(&self, poll: impl FnMut(&mut TaskContext<'_>) -> Poll<Outcome>) {
        let patience = self.run.settings.clock.sleep(END_GRACE);
        tokio::select! {
            _ = poll_fn(poll) => {}
            () = patience => {}
        }
    }

    /// What a handler's outcome is where the stage wrote a status of its own (rule D8).
    fn heed_status(&self, id: EffectId, outcome: Outcome) -> Outcome {
        let Some(files) = self.run.present_files() else {
            return outcome;
        };
        match status::read(&*files, self.run.pipeline.stage(id.node).id()) {
            Ok(None) => outcome,
            Ok(Some(written)) => status::merge(outcome, written),
            Err(problem) => Outcome::fail(problem),
        }
    }

    /// Tells the end, and makes the result.
    async fn conclude(
        self,
        ended: Result<Option<RunFailure>, StoreError>,
        duration: Duration,
    ) -> Result<RunResult, RunError> {
        let run = self.run;
        // What could not be written until now may be the last event; the end is told all the same.
        let ended = match (ended, run.take_failure()) {
            (Ok(_), Some(failure)) => Err(failure),
            (ended, _) => ended,
        };
        if run.sink.wanted() {
            run.emit(match &ended {
                Ok(None) => EventKind::PipelineCompleted {
                    duration,
                    artifact_count: 0,
                },
                Ok(Some(RunFailure::Cancelled { reason })) => EventKind::PipelineCancelled {
                    reason: reason.clone(),
                    duration,
                },
                Ok(Some(failure)) => EventKind::PipelineFailed {
                    error: failure.to_string(),
                    failure: Some(failure.clone()),
                    duration,
                },
                Err(error) => EventKind::PipelineFailed {
                    error: error.to_string(),
                    failure: None,
                    duration,
                },
            });
            while !run.sink.is_idle() {
                tokio::task::yield_now().await;
            }
        }
        let ended = match (ended, run.take_failure()) {
            (Ok(_), Some(failure)) => Err(failure),
            (ended, _) => ended,
        };
        run.close();
        match ended {
            Ok(failure) => Ok(RunResult::new(
                run.id.clone(),
                run.pipeline.clone(),
                self.machine.into_state(),
                failure,
                duration,
                run.run_dir().map(std::path::Path::to_owned),
            )),
            Err(source) => Err(RunError::Store {
                run: run.id.clone(),
                source,
            }),
        }
    }
}

/// Writes a checkpoint away from the threads that run stages, because syncing takes milliseconds.
async fn save(store: Arc<dyn RunStore>, checkpoint: Checkpoint) -> Result<(), StoreError> {
    let folder = store.folder().to_owned();
    let saved = tokio::task::spawn_blocking(move || store.checkpoint(&checkpoint)).await;
    saved.unwrap_or_else(|error| {
        let source = std::io::Error::other(error);
        Err(StoreError::io("write the checkpoint in", &folder, source))
    })
}

/// Rings when the timer does; no timer never rings.
fn ring(timer: &mut Option<Sleep>, cx: &mut TaskContext<'_>) -> Poll<()> {
    match timer {
        Some(timer) => timer.as_mut().poll(cx),
        None => Poll::Pending,
    }
}

fn poll_caught(future: &mut HandlerFuture<'_>, cx: &mut TaskContext<'_>) -> Poll<Outcome> {
    match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll,
        Err(panic) => Poll::Ready(panicked(&*panic)),
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

fn has_ended(observation: &Observation) -> bool {
    matches!(
        observation,
        Observation::StageCompleted { .. } | Observation::StageFailed { .. }
    )
}

/// What stands for the end of a run whose machine said nothing.
fn stalled() -> RunFailure {
    RunFailure::Cancelled {
        reason: "the run has nothing left to do".to_owned(),
    }
}
