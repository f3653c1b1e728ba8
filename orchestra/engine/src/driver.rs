//! The driver: does what the machine says, one task a run, and tells it what came of it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use orchestra_core::{
    Answer, Context, Effect, EffectId, Event, FailureCategory, Machine, Outcome, Question, Reply, RunFailure,
};
use orchestra_graph::{NodeIndex, format_duration};

use crate::attempt::{Attempt, Ended, ring};
use crate::builtin::child::WAITS_FOR_HUMAN;
use crate::builtin::simulate::answer_of;
use crate::builtin::status;
use crate::clock::{Sleep, Timestamp};
use crate::error::RunError;
use crate::event::EventKind;
use crate::interview::InterviewError;
use crate::pending::{Done, Pending};
use crate::resolve::Handlers;
use crate::result::{RunResult, RunStatus};
use crate::run::Run;
use crate::stage::StageContext;
use crate::store::{Checkpoint, RunStore, StageFile, StoreError};
use crate::tell::Began;

/// How many effects may be done without waiting before other tasks get their turn.
const EFFECTS_A_TURN: u32 = 64;

pub(crate) struct Driver {
    pub(crate) run: Arc<Run>,
    pub(crate) machine: Machine,
    /// What the machine said, and nobody was told yet.
    pub(crate) effects: Vec<Effect>,
    /// What is to be done, in order.
    pub(crate) actions: VecDeque<Action>,
    limit: Option<Duration>,
    began: Duration,
    /// Whether the machine wants to know the time.
    timed: bool,
    pub(crate) stages_began: Began,
    /// The time of what is told now: one look at the clock for all that happens at once.
    now: Timestamp,
    pub(crate) elapsed: Duration,
}

/// What is to be done: an effect that is more than to tell something. A run that waits keeps room for a few of them.
pub(crate) enum Action {
    RunNode(EffectId, Context),
    StartTimer(EffectId, Duration),
    AskHuman(EffectId, Box<Question>),
    Cancel(EffectId),
    Restart(u32),
    Finish(Option<Box<RunFailure>>),
}

impl Action {
    /// The action of an effect; `None` for one that only tells something.
    pub(crate) fn of(effect: Effect) -> Option<Action> {
        Some(match effect {
            Effect::RunNode { id, context } => Action::RunNode(id, context),
            Effect::StartTimer { id, delay } => Action::StartTimer(id, delay),
            Effect::AskHuman { id, question } => Action::AskHuman(id, question),
            Effect::CancelEffect { id } => Action::Cancel(id),
            Effect::Restart { restart, .. } => Action::Restart(restart),
            Effect::Finish { failure } => Action::Finish(failure.map(Box::new)),
            _ => return None,
        })
    }
}

/// Why the driver must wait.
enum Pause {
    /// For something that is under way.
    Wait,
    /// For the disk.
    Checkpoint(NodeIndex),
    /// For other tasks, out of courtesy.
    Turn,
    /// For nothing: the run has ended.
    End(Result<Option<RunFailure>, StoreError>),
}

/// What ends a wait.
enum Woken<'h> {
    /// An answer came from outside.
    Answer,
    /// Something is over.
    Done(Done<'h>, bool),
    /// Somebody wants the run to end.
    Stop,
    /// The run takes too long.
    TimeUp(Duration),
}

impl Driver {
    /// A driver; in a box, because a task moves what it holds more than once.
    pub(crate) fn new(run: Arc<Run>, machine: Machine, max_time: Option<Duration>) -> Box<Driver> {
        let timed = run.pipeline.nodes.iter().any(|row| row.fan_out.is_some());
        Box::new(Driver {
            run,
            machine,
            effects: Vec::with_capacity(1),
            actions: VecDeque::with_capacity(2),
            limit: max_time,
            began: Duration::ZERO,
            timed,
            stages_began: Began::default(),
            now: Timestamp::from_millis(0),
            elapsed: Duration::ZERO,
        })
    }

    /// Runs to the end.
    pub(crate) async fn drive(mut self: Box<Self>, handlers: Handlers) -> Result<RunResult, RunError> {
        self.look_at_the_clock();
        self.began = self.elapsed;
        if self.run.sink.wanted() {
            let pipeline = &self.run.pipeline;
            self.emit(EventKind::PipelineStarted {
                name: pipeline.name.to_string(),
                goal: pipeline.goal().to_owned(),
            });
        }
        let run = self.run.clone();
        let ended = self.stages(&run, &handlers).await;
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

    pub(crate) fn look_at_the_clock(&mut self) {
        let clock = &self.run.settings.clock;
        self.now = clock.now();
        self.elapsed = clock.elapsed();
    }

    pub(crate) fn emit(&self, kind: EventKind) {
        self.run.emit_at(self.now, kind);
    }

    /// Stage after stage, until the machine says how the run ended.
    async fn stages<'h>(
        &mut self,
        run: &'h Run,
        handlers: &'h Handlers,
    ) -> Result<Option<RunFailure>, StoreError> {
        let clock = &run.settings.clock;
        let mut timer = self.limit.map(|limit| clock.sleep(limit));
        let mut pending = Pending::default();
        self.machine.observe(run.sink.wanted());
        self.machine.begin(&mut self.effects);
        let ended = loop {
            match poll_fn(|cx| Poll::Ready(self.go(run, handlers, &mut pending, cx))).await {
                Pause::Wait => match self.wait(run, &mut pending, &mut timer).await {
                    Woken::Answer => {}
                    Woken::Done(done, cancelled) => self.done(done, cancelled),
                    Woken::Stop => self.cancelled(),
                    Woken::TimeUp(limit) => self.tell_machine(Event::TimeUp { limit }),
                },
                Pause::Checkpoint(node) => {
                    self.checkpoint(None).await?;
                    self.look_at_the_clock();
                    let node = self.run.name(node);
                    self.emit(EventKind::CheckpointSaved {
                        node,
                        checkpoint: String::new(),
                    });
                }
                Pause::Turn => tokio::task::yield_now().await,
                Pause::End(ended) => break ended,
            }
        };
        // What was cancelled is over before the run is: no process outlives it.
        while pending.is_ending() {
            let (done, _) = poll_fn(|cx| pending.poll(cx)).await;
            self.done(done, true);
        }
        ended
    }

    /// Waits until something happens.
    async fn wait<'h>(&self, run: &Run, pending: &mut Pending<'h>, timer: &mut Option<Sleep>) -> Woken<'h> {
        // A run that is being ended waits only for what it has cancelled.
        let open = !self.machine.state().totals.finished;
        tokio::select! {
            biased;
            () = run.questions.answered(), if open => Woken::Answer,
            (done, cancelled) = poll_fn(|cx| pending.poll(cx)) => Woken::Done(done, cancelled),
            () = run.stop.wait(), if open => Woken::Stop,
            () = poll_fn(|cx| ring(timer, cx)), if open => Woken::TimeUp(self.limit.unwrap_or_default()),
        }
    }

    /// Goes on as far as it can without waiting. This is the hot path: no stage that is done at once leaves it.
    fn go<'h>(
        &mut self,
        run: &'h Run,
        handlers: &'h Handlers,
        pending: &mut Pending<'h>,
        cx: &mut TaskContext<'_>,
    ) -> Pause {
        for _ in 0..EFFECTS_A_TURN {
            if let Some(failure) = run.take_failure() {
                return Pause::End(Err(failure));
            }
            match self.tell_all() {
                Ok(None) => {}
                Ok(Some(node)) => return Pause::Checkpoint(node),
                Err(failure) => return Pause::End(Err(failure)),
            }
            // Answers come before the timers that would make them late.
            while let Some((id, answer)) = run.questions.take() {
                self.tell_machine(Event::Answered { id, answer });
            }
            let stage = matches!(self.actions.front(), Some(Action::RunNode(..)));
            // What was cancelled may still write where the next stage reads.
            let blocked = stage && pending.is_ending();
            let Some(action) = self.actions.pop_front_if(|_| !blocked) else {
                if !self.effects.is_empty() {
                    continue;
                }
                match pending.poll(cx) {
                    Poll::Ready((done, cancelled)) => self.done(done, cancelled),
                    Poll::Pending if pending.is_empty() && !run.questions.are_open() => {
                        return Pause::End(Ok(Some(stalled())));
                    }
                    Poll::Pending => return Pause::Wait,
                }
                continue;
            };
            match action {
                Action::RunNode(id, context) => {
                    if let Err(failure) = self.run_node(run, handlers, pending, cx, id, context) {
                        return Pause::End(Err(failure));
                    }
                }
                Action::StartTimer(id, delay) => pending.timer(run, id, delay),
                Action::AskHuman(id, question) => self.ask(run, pending, id, *question),
                Action::Cancel(id) => {
                    run.questions.close(&id);
                    pending.cancel(&id);
                }
                Action::Restart(restart) => {
                    if let Err(failure) = run.restarted(restart) {
                        return Pause::End(Err(failure));
                    }
                }
                Action::Finish(failure) => return Pause::End(Ok(failure.map(|failure| *failure))),
            }
        }
        Pause::Turn
    }

    /// Tells the machine what happened; before, how late it is, where that counts.
    fn tell_machine(&mut self, event: Event) {
        self.machine.observe(self.run.sink.wanted());
        if self.timed {
            let elapsed = self.run.settings.clock.elapsed().saturating_sub(self.began);
            self.machine.on(Event::Tick { elapsed }, &mut self.effects);
        }
        self.machine.on(event, &mut self.effects);
    }

    /// The limit of a run that takes too long without ever waiting for a stage.
    fn out_of_time(&self) -> Option<Duration> {
        let limit = self.limit?;
        let taken = self.run.settings.clock.elapsed().saturating_sub(self.began);
        (taken >= limit).then_some(limit)
    }

    /// Starts an attempt of a stage, and ends it where it is done at once.
    fn run_node<'h>(
        &mut self,
        run: &'h Run,
        handlers: &'h Handlers,
        pending: &mut Pending<'h>,
        cx: &mut TaskContext<'_>,
        id: EffectId,
        context: Context,
    ) -> Result<(), StoreError> {
        if run.stop.requested() {
            self.cancelled();
            return Ok(());
        }
        if let Some(limit) = self.out_of_time() {
            self.tell_machine(Event::TimeUp { limit });
            return Ok(());
        }
        let mut attempt = match self.begin(handlers, id.clone(), context)? {
            Ok(attempt) => attempt,
            Err(outcome) => {
                self.finished(id, *outcome);
                return Ok(());
            }
        };
        match attempt.poll(cx) {
            Poll::Ready(outcome) => self.ended(attempt, Ended::Outcome(outcome)),
            Poll::Pending => pending.stage(run, attempt),
        }
        Ok(())
    }

    fn begin<'h>(
        &self,
        handlers: &'h Handlers,
        id: EffectId,
        context: Context,
    ) -> Result<Result<Attempt<'h>, Box<Outcome>>, StoreError> {
        let run = &self.run;
        let stage = run.pipeline.stage(id.node);
        if let Some(files) = run.present_files() {
            let place = run.place(&id);
            files.stage(place.as_ref(), id.visit)?;
            // A status that the attempt did not write itself would speak for it.
            files.remove(place.as_ref(), StageFile::Status)?;
        }
        let Some(resolved) = handlers.of(stage) else {
            let reason = format!("no handler of kind `{}`", stage.kind());
            return Ok(Err(Box::new(Outcome::fail_terminal(reason))));
        };
        let context = StageContext::new(run.clone(), id.clone(), context);
        Ok(Attempt::begin(run, resolved, stage, id, context))
    }

    /// Asks a person, and lets others answer too.
    fn ask<'h>(&mut self, run: &'h Run, pending: &mut Pending<'h>, id: EffectId, question: Question) {
        if let Some(script) = &run.settings.script
            && let Some(said) = script.turn(&question.node, || run.next_turn(id.node)).outcome
        {
            let event = match answer_of(&question, said) {
                Some(answer) => match question.accept(&answer) {
                    Err(refused) if answer.reply != Reply::Skipped => Some(Event::NodeFinished {
                        id: id.clone(),
                        outcome: Outcome::fail_terminal(format!("the script's answer is refused: {refused}")),
                    }),
                    _ => Some(Event::Answered {
                        id: id.clone(),
                        answer,
                    }),
                },
                None if question.timeout.is_some() => None,
                None => Some(Event::Unanswerable {
                    id: id.clone(),
                    reason: "the script leaves it unanswered, and it has no time-out".to_owned(),
                }),
            };
            match event {
                Some(event) => self.tell_machine(event),
                None => run.questions.open(id, question),
            }
            return;
        }
        run.questions.open(id.clone(), question.clone());
        if let Some(interviewer) = &run.settings.interviewer {
            pending.question(interviewer, id, question);
        }
    }

    /// Tells the machine what is over.
    fn done(&mut self, done: Done<'_>, cancelled: bool) {
        match done {
            Done::Stage(attempt, ended) if !cancelled => self.ended(*attempt, ended),
            Done::Stage(attempt, _) => {
                // It is not wanted any more, so it does not matter how its destructor ended.
                let _ = attempt.end(&self.run, true);
            }
            Done::Timer(id) if !cancelled => {
                // An answer that was taken is on its way, however late it is.
                if !self.run.questions.is_answered(&id) {
                    self.run.questions.close(&id);
                    self.tell_machine(Event::TimerFired { id });
                }
            }
            Done::Question(id, answer) if !cancelled => self.answered(id, answer),
            Done::Timer(_) | Done::Question(..) | Done::Dropped(_) => {}
        }
    }

    fn answered(&mut self, id: EffectId, answer: Result<Answer, InterviewError>) {
        // Somebody else was faster.
        if !self.run.questions.claim(&id) {
            return;
        }
        let event = match answer {
            Ok(answer) => Event::Answered { id, answer },
            Err(InterviewError::Unavailable { reason }) => Event::Unanswerable { id, reason },
            Err(InterviewError::Failed {
                ref reason, category, ..
            }) => {
                let mut outcome = Outcome::fail(reason);
                outcome.failure_category = category;
                Event::NodeFinished { id, outcome }
            }
        };
        self.tell_machine(event);
    }

    /// Tells the machine what came of an attempt.
    fn ended(&mut self, attempt: Attempt<'_>, ended: Ended) {
        let (id, heeds_status) = (attempt.id.clone(), attempt.resolved.heeds_status);
        let dropped = attempt.end(&self.run, !matches!(ended, Ended::Outcome(_)));
        match (ended, dropped) {
            (Ended::Outcome(outcome), Ok(())) if heeds_status || !self.run.has_files() => {
                self.finished(id, outcome);
            }
            (Ended::Outcome(outcome), Ok(())) => {
                let outcome = self.heed_status(&id, outcome);
                self.finished(id, outcome);
            }
            (Ended::Outcome(_), Err(outcome)) => self.finished(id, *outcome),
            (Ended::TimedOut(limit), _) => {
                let outcome = Outcome::fail(format!("timed out after {}", format_duration(limit)));
                self.finished(id, outcome.with_code("timeout"));
            }
            (Ended::Cancelled, _) => {}
        }
    }

    fn finished(&mut self, id: EffectId, outcome: Outcome) {
        let event = match outcome.failure_code.as_deref() {
            // A run that the stage started waits for a person, so this one does too.
            Some(WAITS_FOR_HUMAN) if outcome.failure_category == FailureCategory::Pipeline => {
                let reason = outcome.failure_reason.unwrap_or_default();
                Event::Unanswerable { id, reason }
            }
            _ => Event::NodeFinished { id, outcome },
        };
        self.tell_machine(event);
    }

    fn cancelled(&mut self) {
        let reason = self.run.stop.reason();
        self.tell_machine(Event::CancelRequested { reason });
    }

    /// What a handler's outcome is where the stage wrote a status of its own (rule D8).
    fn heed_status(&self, id: &EffectId, outcome: Outcome) -> Outcome {
        let Some(files) = self.run.present_files().filter(|_| outcome.status.is_success()) else {
            return outcome;
        };
        let stage = self.run.pipeline.stage(id.node);
        match status::read(&*files, self.run.place(id).as_ref(), stage) {
            Ok(None) => outcome,
            Ok(Some(written)) => status::merge(outcome, written),
            Err(problem) => Outcome::fail(problem),
        }
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
            self.emit(EventKind::of_end(&ended, self.duration()));
        }
        first_failure(ended, &self.run)
    }

    fn duration(&self) -> Duration {
        self.elapsed.saturating_sub(self.began)
    }

    /// Makes the result.
    fn conclude(
        self: Box<Self>,
        ended: Result<Option<RunFailure>, StoreError>,
    ) -> Result<RunResult, RunError> {
        let duration = self.duration();
        let (run, now) = (self.run, self.now);
        run.close();
        match ended {
            Ok(failure) => Ok(RunResult::new(
                run.id.clone(),
                run.pipeline.clone(),
                self.machine.into_state(),
                failure,
                now,
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

/// What stands for the end of a run whose machine wants nothing; that would be a fault of the machine.
fn stalled() -> RunFailure {
    RunFailure::Cancelled {
        reason: "the run has nothing left to do".to_owned(),
    }
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

/// Writes a checkpoint away from the threads that run stages, because syncing takes milliseconds.
async fn save(store: Arc<dyn RunStore>, checkpoint: Checkpoint) -> Result<(), StoreError> {
    let folder = store.folder().to_owned();
    let saved = tokio::task::spawn_blocking(move || store.checkpoint(&checkpoint)).await;
    saved.unwrap_or_else(|error| {
        let source = std::io::Error::other(error);
        Err(StoreError::io("write the checkpoint in", &folder, source))
    })
}
