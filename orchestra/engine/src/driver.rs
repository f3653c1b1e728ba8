//! The driver: does what the machine says, one task a run, and tells it what came of it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use orchestra_core::{Context, Effect, EffectId, Event, Machine, Observation, Outcome, RunFailure};
use orchestra_graph::{NodeIndex, Role, format_duration};

use crate::attempt::{Attempt, Ended, RunLimit};
use crate::builtin::status;
use crate::clock::Timestamp;
use crate::error::RunError;
use crate::event::EventKind;
use crate::resolve::Handlers;
use crate::result::{RunResult, RunStatus};
use crate::run::Run;
use crate::stage::StageContext;
use crate::store::{Checkpoint, RunStore, StageFile, StoreError};

/// How many stages may end without waiting before other tasks get their turn.
const STAGES_A_TURN: u32 = 64;

pub(crate) struct Driver {
    run: Arc<Run>,
    machine: Machine,
    effects: Vec<Effect>,
    limit: RunLimit,
    stage_began: Duration,
    /// The time of what is told now: one look at the clock for all that happens at once.
    now: Timestamp,
    elapsed: Duration,
}

/// Why the driver must wait.
enum Pause<'h> {
    /// For a stage.
    Stage(Attempt<'h>),
    /// For the disk.
    Checkpoint(NodeIndex),
    /// For other tasks, out of courtesy.
    Turn,
    /// For nothing: the run has ended.
    End(Result<Option<RunFailure>, StoreError>),
}

impl Driver {
    /// A driver; in a box, because a task moves what it holds more than once.
    pub(crate) fn new(run: Arc<Run>, machine: Machine, max_time: Option<Duration>) -> Box<Driver> {
        Box::new(Driver {
            run,
            machine,
            effects: Vec::with_capacity(2),
            limit: RunLimit {
                limit: max_time,
                began: Duration::ZERO,
            },
            stage_began: Duration::ZERO,
            now: Timestamp::from_millis(0),
            elapsed: Duration::ZERO,
        })
    }

    /// Runs to the end.
    pub(crate) async fn drive(mut self: Box<Self>, handlers: Handlers) -> Result<RunResult, RunError> {
        self.look_at_the_clock();
        self.limit.began = self.elapsed;
        if self.run.sink.wanted() {
            let pipeline = &self.run.pipeline;
            self.emit(EventKind::PipelineStarted {
                name: pipeline.name.to_string(),
                goal: pipeline.goal().to_owned(),
            });
        }
        let ended = self.stages(&handlers).await;
        drop(handlers);
        self.look_at_the_clock();
        let ended = match ended {
            Ok(failure) => self.checkpoint(Some(failure.as_ref())).await.map(|()| failure),
            Err(error) => Err(error),
        };
        let ended = self.tell_end(ended);
        while !self.run.sink.is_idle() {
            tokio::task::yield_now().await;
        }
        self.conclude(ended)
    }

    fn look_at_the_clock(&mut self) {
        let clock = &self.run.settings.clock;
        self.now = clock.now();
        self.elapsed = clock.elapsed();
    }

    fn emit(&self, kind: EventKind) {
        self.run.emit_at(self.now, kind);
    }

    /// Stage after stage, until the machine says how the run ended.
    async fn stages(&mut self, handlers: &Handlers) -> Result<Option<RunFailure>, StoreError> {
        self.machine.observe(self.run.sink.wanted());
        self.machine.begin(&mut self.effects);
        loop {
            match poll_fn(|cx| Poll::Ready(self.go(handlers, cx))).await {
                Pause::Stage(mut attempt) => {
                    let ended = attempt.wait(&self.run, self.limit).await;
                    self.ended(attempt, ended);
                }
                Pause::Checkpoint(node) => {
                    self.checkpoint(None).await?;
                    self.look_at_the_clock();
                    let node = self.run.name(node);
                    self.emit(EventKind::CheckpointSaved { node });
                }
                Pause::Turn => tokio::task::yield_now().await,
                Pause::End(ended) => return ended,
            }
        }
    }

    /// Goes on as far as it can without waiting. This is the hot path: no stage that is done at once leaves it.
    fn go<'h>(&mut self, handlers: &'h Handlers, cx: &mut TaskContext<'_>) -> Pause<'h> {
        for _ in 0..STAGES_A_TURN {
            if let Some(failure) = self.run.take_failure() {
                return Pause::End(Err(failure));
            }
            let next = match self.tell_all() {
                Ok(next) => next,
                Err(failure) => return Pause::End(Err(failure)),
            };
            let (id, context) = match next {
                Next::Stage(id, context) => (id, context),
                Next::Checkpoint(node) => return Pause::Checkpoint(node),
                Next::End(failure) => return Pause::End(Ok(failure)),
            };
            if self.run.stop.requested() {
                self.cancelled();
                continue;
            }
            if let Some(limit) = self.out_of_time() {
                self.machine.on(Event::TimeUp { limit }, &mut self.effects);
                continue;
            }
            let mut attempt = match self.begin(handlers, id, context) {
                Ok(Ok(attempt)) => attempt,
                Ok(Err(outcome)) => {
                    self.finished(id, *outcome);
                    continue;
                }
                Err(failure) => return Pause::End(Err(failure)),
            };
            match attempt.poll(cx) {
                Poll::Ready(outcome) => self.ended(attempt, Ended::Outcome(outcome)),
                Poll::Pending => return Pause::Stage(attempt),
            }
        }
        Pause::Turn
    }

    /// The limit of a run that takes too long without ever waiting for a stage.
    fn out_of_time(&self) -> Option<Duration> {
        let limit = self.limit.limit?;
        let taken = self.run.settings.clock.elapsed().saturating_sub(self.limit.began);
        (taken >= limit).then_some(limit)
    }

    /// Starts an attempt of a stage.
    fn begin<'h>(
        &self,
        handlers: &'h Handlers,
        id: EffectId,
        context: Context,
    ) -> Result<Result<Attempt<'h>, Box<Outcome>>, StoreError> {
        let run = &self.run;
        let stage = run.pipeline.stage(id.node);
        if let Some(files) = run.present_files() {
            files.stage(stage.id(), id.visit)?;
            // A status that the attempt did not write itself would speak for it.
            files.remove(stage.id(), StageFile::Status)?;
        }
        let Some(resolved) = handlers.of(stage) else {
            let reason = format!("no handler of kind `{}`", stage.kind());
            return Ok(Err(Box::new(Outcome::fail_terminal(reason))));
        };
        let context = StageContext::new(run.clone(), id, context);
        Ok(Attempt::begin(run, resolved, stage, id, context))
    }

    /// Tells the machine what came of an attempt.
    fn ended(&mut self, attempt: Attempt<'_>, ended: Ended) {
        let (id, heeds_status) = (attempt.id, attempt.resolved.heeds_status);
        let dropped = attempt.end(&self.run, !matches!(ended, Ended::Outcome(_)));
        match (ended, dropped) {
            (Ended::Outcome(outcome), Ok(())) if heeds_status || !self.run.has_files() => {
                self.finished(id, outcome);
            }
            (Ended::Outcome(outcome), Ok(())) => {
                let outcome = self.heed_status(id, outcome);
                self.finished(id, outcome);
            }
            (Ended::Outcome(_), Err(outcome)) => self.finished(id, *outcome),
            (Ended::TimedOut(limit), _) => {
                self.finished(
                    id,
                    Outcome::fail(format!("timed out after {}", format_duration(limit))),
                );
            }
            (Ended::Cancelled, _) => self.cancelled(),
            (Ended::TimeUp(limit), _) => self.machine.on(Event::TimeUp { limit }, &mut self.effects),
        }
    }

    fn finished(&mut self, id: EffectId, outcome: Outcome) {
        self.machine.observe(self.run.sink.wanted());
        self.machine
            .on(Event::NodeFinished { id, outcome }, &mut self.effects);
    }

    fn cancelled(&mut self) {
        let reason = self.run.stop.reason();
        self.machine
            .on(Event::CancelRequested { reason }, &mut self.effects);
    }

    /// What a handler's outcome is where the stage wrote a status of its own (rule D8).
    fn heed_status(&self, id: EffectId, outcome: Outcome) -> Outcome {
        let Some(files) = self.run.present_files().filter(|_| outcome.status.is_success()) else {
            return outcome;
        };
        match status::read(&*files, self.run.pipeline.stage(id.node)) {
            Ok(None) => outcome,
            Ok(Some(written)) => status::merge(outcome, written),
            Err(problem) => Outcome::fail(problem),
        }
    }

    /// Tells what the machine did, up to where the disk must be waited for, and finds what it wants.
    fn tell_all(&mut self) -> Result<Next, StoreError> {
        if !self
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Observe(_)))
        {
            return Ok(next_of(self.effects.drain(..)));
        }
        self.look_at_the_clock();
        let mut effects = std::mem::take(&mut self.effects);
        let last_ended = match &self.run.store {
            Some(_) => effects.iter().rposition(has_ended),
            None => None,
        };
        if let Some(last_ended) = last_ended {
            self.effects = effects.split_off(last_ended + 1);
        }
        let mut saved = None;
        let mut next = None;
        for effect in effects.drain(..) {
            match effect {
                Effect::Observe(observation) => saved = self.tell(observation)?.or(saved),
                Effect::RunNode { id, context } => next = Some(Next::Stage(id, context)),
                Effect::Finish { failure } => next = Some(Next::End(failure)),
                _ => {}
            }
        }
        match (last_ended, saved) {
            (Some(_), Some(node)) => Ok(Next::Checkpoint(node)),
            _ => {
                // The list keeps its room for the next turn.
                self.effects = effects;
                Ok(next.unwrap_or_else(|| Next::End(Some(stalled()))))
            }
        }
    }

    /// Turns an observation into an event; gives the node if a stage has ended.
    fn tell(&mut self, observation: Observation) -> Result<Option<NodeIndex>, StoreError> {
        let run = &self.run;
        match observation {
            Observation::StageStarted { id, index } => {
                self.stage_began = self.elapsed;
                self.emit(EventKind::StageStarted {
                    node: run.name(id.node),
                    index,
                    visit: id.visit,
                    attempt: id.attempt,
                });
                Ok(None)
            }
            Observation::StageCompleted { id, index, outcome } => {
                self.keep_status(id, &outcome)?;
                self.emit(EventKind::StageCompleted {
                    node: run.name(id.node),
                    index,
                    visit: id.visit,
                    attempt: id.attempt,
                    outcome: outcome.status,
                    preferred_label: outcome.preferred_label,
                    notes: outcome.notes,
                    duration: self.elapsed.saturating_sub(self.stage_began),
                });
                Ok(Some(id.node))
            }
            Observation::StageFailed {
                id,
                index,
                outcome,
                will_retry,
            } => {
                self.keep_status(id, &outcome)?;
                self.emit(EventKind::StageFailed {
                    node: run.name(id.node),
                    index,
                    visit: id.visit,
                    attempt: id.attempt,
                    error: outcome.failure_reason.unwrap_or_default(),
                    will_retry,
                    duration: self.elapsed.saturating_sub(self.stage_began),
                });
                Ok(Some(id.node))
            }
            Observation::Routed { from, decision } => {
                self.emit(EventKind::of_decision(&run.pipeline, from, decision));
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Writes the outcome that routing sees to the stage's folder; the exit has none (Attractor appendix C).
    fn keep_status(&self, id: EffectId, outcome: &Outcome) -> Result<(), StoreError> {
        let stage = self.run.pipeline.stage(id.node);
        let Some(store) = self.run.store.as_ref().filter(|_| stage.row().role != Role::Exit) else {
            return Ok(());
        };
        // No handler opened the folder of a stage that the core decides.
        if stage.row().role != Role::Work {
            store.stage(stage.id(), id.visit)?;
        }
        store.write(stage.id(), StageFile::Status, &status::write(outcome))
    }

    /// Replaces the checkpoint; `ended` says how, where the run has. It waits in a box, so that a run that keeps
    /// nothing does not carry room for it.
    async fn checkpoint(&self, ended: Option<Option<&RunFailure>>) -> Result<(), StoreError> {
        let Some(store) = &self.run.store else {
            return Ok(());
        };
        let status = ended.map_or("running", |failure| RunStatus::of(failure).word());
        let checkpoint = Checkpoint::of(
            &self.run.id,
            self.now,
            &self.run.pipeline,
            self.machine.state(),
            status,
            ended.flatten(),
        );
        Box::pin(save(store.clone(), checkpoint)).await
    }

    /// Tells the end.
    fn tell_end(
        &self,
        ended: Result<Option<RunFailure>, StoreError>,
    ) -> Result<Option<RunFailure>, StoreError> {
        // The last event may be what cannot be written; it is told all the same.
        let ended = first_failure(ended, &self.run);
        if self.run.sink.wanted() {
            self.emit(end_event(&ended, self.duration()));
        }
        first_failure(ended, &self.run)
    }

    fn duration(&self) -> Duration {
        self.elapsed.saturating_sub(self.limit.began)
    }

    /// Makes the result.
    fn conclude(
        self: Box<Self>,
        ended: Result<Option<RunFailure>, StoreError>,
    ) -> Result<RunResult, RunError> {
        let duration = self.duration();
        let run = self.run;
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

/// What the machine wants next.
enum Next {
    Stage(EffectId, Context),
    Checkpoint(NodeIndex),
    End(Option<RunFailure>),
}

/// What the machine wants, where nobody wants to know what it did.
fn next_of(effects: impl Iterator<Item = Effect>) -> Next {
    let mut next = None;
    for effect in effects {
        match effect {
            Effect::RunNode { id, context } => next = Some(Next::Stage(id, context)),
            Effect::Finish { failure } => next = Some(Next::End(failure)),
            // What an attempt started ended with its future.
            _ => {}
        }
    }
    next.unwrap_or_else(|| Next::End(Some(stalled())))
}

/// What stands for the end of a run whose machine wants nothing; that would be a fault of the machine.
fn stalled() -> RunFailure {
    RunFailure::Cancelled {
        reason: "the run has nothing left to do".to_owned(),
    }
}

fn has_ended(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Observe(Observation::StageCompleted { .. } | Observation::StageFailed { .. })
    )
}

fn first_failure(
    ended: Result<Option<RunFailure>, StoreError>,
    run: &Run,
) -> Result<Option<RunFailure>, StoreError> {
    match (ended, run.take_failure()) {
        (Ok(_), Some(failure)) => Err(failure),
        (ended, _) => ended,
    }
}

fn end_event(ended: &Result<Option<RunFailure>, StoreError>, duration: Duration) -> EventKind {
    match ended {
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
