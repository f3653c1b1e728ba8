//! The driver: does what the machine says, one task a run, and tells it what came of it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use orchestra_core::{
    Answer, Budget, Context, Effect, EffectId, Event, Machine, Outcome, Question, Reply, RunFailure, Usage,
};
use orchestra_graph::Pipeline;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::attempt::{Attempt, Ended, ring, timed_out};
use crate::builtin::simulate::answer_of;
use crate::builtin::status;
use crate::clock::{Sleep, Timestamp};
use crate::deadline::Began as Since;
use crate::error::RunError;
use crate::event::EventKind;
use crate::interview::InterviewError;
use crate::keeping::Keeping;
use crate::ledger;
use crate::pending::{Done, Pending};
use crate::requests::Request;
use crate::resolve::Handlers;
use crate::result::{RunResult, RunStatus};
use crate::run::Run;
use crate::settle::Settled;
use crate::stage::StageContext;
use crate::stage_end::{Suspension, SuspensionCause};
use crate::store::{Commit, Position, StageFile, StoreError};
use crate::stored_text::latest;
use crate::surroundings::Surroundings;
use crate::take_up::TakenUp;
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
    pub(crate) limits: Limits,
    pub(crate) began: Duration,
    /// How long the run was going in other processes.
    pub(crate) before: Duration,
    /// Whether the machine wants to know the time.
    pub(crate) timed: bool,
    pub(crate) stages_began: Began,
    /// The time of what is told now: one look at the clock for all that happens at once.
    pub(crate) now: Timestamp,
    pub(crate) elapsed: Duration,
    /// The journal; `None` where nothing is kept.
    pub(crate) keeping: Option<Box<Keeping>>,
    /// What the run was taken up with, where another process began it.
    pub(crate) taken_up: Option<Box<TakenUp>>,
    /// Whether somebody's wish that the run end is under way.
    pub(crate) stopping: bool,
    /// What will make the run stop where it is.
    pub(crate) pausing: Option<Box<Event>>,
    /// What the run needs to go on, from before it was told to stop, and how far the journal was.
    pub(crate) kept: Option<Box<(Box<RawValue>, Position)>>,
    /// What an attempt used whose end is told next.
    pub(crate) used: Option<Box<(EffectId, Usage)>>,
}

/// How much a run may use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) time: Option<Duration>,
    pub(crate) budget: Budget,
}

impl Limits {
    /// The limits of a run of a pipeline, which may set a budget itself; what is asked for at the start wins.
    fn of(self, pipeline: &Pipeline) -> Limits {
        let (asked, own) = (self.budget, ledger::of_graph(pipeline));
        Limits {
            time: self.time,
            budget: Budget {
                max_tokens: asked.max_tokens.or(own.max_tokens),
                max_cost_micros: asked.max_cost_micros.or(own.max_cost_micros),
            },
        }
    }
}

/// What is to be done: an effect that is more than to tell something. A run that waits keeps room for a few of them.
pub(crate) enum Action {
    RunNode(EffectId, Context),
    StartTimer(EffectId, Duration, Box<Since>),
    AskHuman(EffectId, Box<Question>),
    Cancel(EffectId),
    Finish(Option<Box<RunFailure>>),
}

/// Why the driver must wait.
enum Pause {
    /// For something that is under way.
    Wait,
    /// For the disk: what is written is not durable yet.
    Commit(Commit),
    /// For the disk: the journal has outgrown the checkpoint.
    Checkpoint,
    /// For other tasks, out of courtesy.
    Turn,
    /// For nothing: the run has ended.
    End(Result<Option<RunFailure>, StoreError>),
}

/// What ends a wait.
enum Woken<'h> {
    /// An answer came from outside, or a stage wants something.
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
    pub(crate) fn new(run: Arc<Run>, machine: Machine, limits: Limits) -> Box<Driver> {
        let timed = run.pipeline.nodes.iter().any(|row| row.fan_out.is_some());
        let limits = limits.of(&run.pipeline);
        Box::new(Driver {
            run,
            machine,
            effects: Vec::with_capacity(1),
            actions: VecDeque::with_capacity(2),
            limits,
            began: Duration::ZERO,
            before: Duration::ZERO,
            timed,
            stages_began: Began::default(),
            now: Timestamp::from_millis(0),
            elapsed: Duration::ZERO,
            keeping: None,
            taken_up: None,
            stopping: false,
            pausing: None,
            kept: None,
            used: None,
        })
    }

    /// Runs to the end.
    pub(crate) async fn drive(mut self: Box<Self>, handlers: Handlers) -> Result<RunResult, RunError> {
        crate::folder_watch::watch(&self.run);
        self.look_at_the_clock();
        self.began = self.elapsed;
        let over = self.taken_up.as_mut().and_then(|taken_up| taken_up.ended.take());
        let run = self.run.clone();
        let ended = match over {
            Some(failure) if self.is_end_kept() => return self.conclude(Ok(failure)),
            // It ended in a process that could not say so any more.
            Some(failure) => Ok(failure),
            None => match self.open() {
                Ok(()) => self.stages(&run, &handlers).await,
                Err(failure) => Err(failure),
            },
        };
        drop(handlers);
        self.leave_files(&ended).await;
        run.write_later();
        self.look_at_the_clock();
        let saved = match &ended {
            Ok(failure) => {
                let status = RunStatus::of(failure.as_ref()).word();
                self.checkpoint(status, failure.as_ref())
            }
            Err(_) => Ok(None),
        };
        let saved = match saved {
            Ok(Some(saved)) => saved.await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        let ended = ended.and_then(|failure| saved.map(|()| failure));
        let ended = self.tell_end(ended);
        self.run.close_artifacts();
        let ended = match (ended, &self.run.store) {
            (Ok(failure), Some(store)) => store.close().map(|()| failure),
            (Err(failure), Some(store)) => {
                // What can be kept is kept, and others may own the run.
                let _ = store.close();
                Err(failure)
            }
            (ended, None) => ended,
        };
        while !self.run.sink.is_idle() {
            tokio::task::yield_now().await;
        }
        self.conclude(ended)
    }

    /// Asks the machine for what is to be done first.
    fn open(&mut self) -> Result<(), StoreError> {
        let totals = &self.machine.state().totals;
        if !self.limits.budget.is_empty() || !totals.usage.is_zero() {
            self.run.long().ledger.open(self.limits.budget, totals);
            // What it used in another process, those around it did not hear of.
            if let Some(parent) = &self.run.origin.parent {
                parent.run.spend(parent.stage.node, totals.usage);
            }
        }
        self.machine.observe(self.run.sink.wanted());
        // A run whose process ended before it wrote anything has yet to begin.
        if self.taken_up.as_ref().is_some_and(|taken_up| taken_up.begun) {
            return self.go_on();
        }
        if let Some(taken_up) = &mut self.taken_up {
            taken_up.is_blank = true;
        }
        if let Some(keeping) = &self.keeping {
            keeping.begin(&self.run)?;
        }
        if self.run.sink.wanted() {
            let pipeline = &self.run.pipeline;
            let (name, goal) = (pipeline.name.to_string(), pipeline.goal().to_owned());
            self.emit(EventKind::PipelineStarted { name, goal });
        }
        self.machine.begin(&mut self.effects);
        Ok(())
    }

    pub(crate) fn look_at_the_clock(&mut self) {
        let clock = &self.run.settings.clock;
        self.now = clock.now();
        self.elapsed = clock.elapsed();
    }

    pub(crate) fn emit(&mut self, kind: EventKind) {
        if !self.was_told() {
            self.run.emit_at(self.now, kind);
        }
    }

    /// Stage after stage, until the machine says how the run ended.
    async fn stages<'h>(
        &mut self,
        run: &'h Run,
        handlers: &'h Handlers,
    ) -> Result<Option<RunFailure>, StoreError> {
        let mut pending = Pending::default();
        let ended = self.until_end(run, handlers, &mut pending).await;
        if ended.is_err() {
            // The run goes on later, and so does what its stages run.
            run.stop.pauses();
        }
        // What was cancelled is over before the run is: no process outlives it.
        while pending.is_ending() {
            let (done, _) = poll_fn(|cx| pending.poll(cx)).await;
            self.done(done, true);
        }
        if ended.is_ok() {
            self.tell_rest().await?;
        }
        ended
    }

    async fn until_end<'h>(
        &mut self,
        run: &'h Run,
        handlers: &'h Handlers,
        pending: &mut Pending<'h>,
    ) -> Result<Option<RunFailure>, StoreError> {
        let clock = &run.settings.clock;
        let (time, before) = (self.limits.time, self.before);
        let mut timer = time.map(|limit| clock.sleep(limit.saturating_sub(before)));
        loop {
            match poll_fn(|cx| Poll::Ready(self.go(run, handlers, pending, cx))).await {
                Pause::Wait => {
                    run.wait_begins();
                    // What could not be shown ends the run before it waits.
                    if run.is_broken() {
                        run.wait_ends();
                        continue;
                    }
                    let woken = self.wait(run, pending, &mut timer).await;
                    run.wait_ends();
                    match woken {
                        Woken::Answer => {}
                        Woken::Done(done, cancelled) => self.done(done, cancelled),
                        Woken::Stop => self.cancelled(),
                        Woken::TimeUp(limit) => self.pause(Event::TimeUp { limit }),
                    }
                }
                Pause::Commit(commit) => {
                    commit.await?;
                    if let Some(keeping) = &mut self.keeping {
                        keeping.committed();
                    }
                }
                Pause::Checkpoint => {
                    if let Some(saved) = self.checkpoint("running", None)? {
                        saved.await?;
                    }
                }
                Pause::Turn => tokio::task::yield_now().await,
                Pause::End(ended) => return ended,
            }
        }
    }

    /// Tells the machine what came of the stages that ended with the run: what they used was paid for.
    async fn tell_rest(&mut self) -> Result<(), StoreError> {
        if self.is_waiting()
            && let Some(commit) = self.commit()?
        {
            commit.await?;
            if let Some(keeping) = &mut self.keeping {
                keeping.committed();
            }
        }
        while let Some(noted) = self.keeping.as_mut().and_then(|keeping| keeping.next()) {
            self.tell_noted(noted);
        }
        Ok(())
    }

    /// Waits until something happens.
    async fn wait<'h>(&self, run: &Run, pending: &mut Pending<'h>, timer: &mut Option<Sleep>) -> Woken<'h> {
        // A run that is being ended waits only for what it has cancelled.
        let open = !self.machine.state().totals.finished && !self.stopping;
        tokio::select! {
            biased;
            () = run.questions.answered(), if open => Woken::Answer,
            (done, cancelled) = poll_fn(|cx| pending.poll(cx)) => Woken::Done(done, cancelled),
            () = run.stop.wait(), if open => Woken::Stop,
            () = poll_fn(|cx| ring(timer, cx)), if open => Woken::TimeUp(self.limits.time.unwrap_or_default()),
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
            if let Err(failure) = self.tell_all() {
                return Pause::End(Err(failure));
            }
            match self.settle() {
                Ok(Settled::Told) => continue,
                Ok(Settled::Commit(commit)) => return Pause::Commit(commit),
                Ok(Settled::Checkpoint) => return Pause::Checkpoint,
                Ok(Settled::Nothing) => {}
                Err(failure) => return Pause::End(Err(failure)),
            }
            // Answers come before the timers that would make them late.
            while let Some((id, answer)) = run.questions.take() {
                self.happened(Event::Answered { id, answer });
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
                    Poll::Pending if self.heed_request() => {}
                    Poll::Pending if self.is_waiting() => match self.commit() {
                        Ok(Some(commit)) => return Pause::Commit(commit),
                        Ok(None) => {}
                        Err(failure) => return Pause::End(Err(failure)),
                    },
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
                Action::StartTimer(id, delay, since) => pending.timer(run, id, &since, delay),
                Action::AskHuman(id, question) => self.ask(run, pending, id, *question),
                Action::Cancel(id) => {
                    run.questions.close(&id);
                    pending.cancel(&id);
                }
                Action::Finish(failure) => return Pause::End(Ok(failure.map(|failure| *failure))),
            }
        }
        Pause::Turn
    }

    /// The limit of a run that takes too long without ever waiting for a stage.
    fn out_of_time(&self) -> Option<Duration> {
        let limit = self.limits.time?;
        let taken = self.run.settings.clock.elapsed().saturating_sub(self.began);
        (self.before + taken >= limit).then_some(limit)
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
            self.pause(Event::TimeUp { limit });
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
            Poll::Ready(end) => {
                let ended = attempt.ended(run, end);
                self.ended(attempt, ended);
            }
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
            // A folder is made when somebody wants it; one that is there holds what was before.
            if id.visit > 1 || id.attempt > 1 || self.may_repeat(&id) {
                run.write_later();
                if files.has_folder(place.as_ref()) {
                    files.stage(place.as_ref(), id.visit)?;
                }
            }
            // A status that the attempt did not write itself would speak for it.
            files.remove(place.as_ref(), StageFile::Status)?;
            run.tell_moved(&id);
        }
        let Some(resolved) = handlers.of(stage) else {
            let reason = format!("no handler of kind `{}`", stage.kind());
            return Ok(Err(Box::new(Outcome::fail_terminal(reason))));
        };
        let is_repeat = self.may_repeat(&id);
        let notes = is_repeat.then(|| self.notes(&id)).flatten();
        let answer = is_repeat.then(|| self.answer(&id)).flatten();
        let context = StageContext::new(run.clone(), id.clone(), context, is_repeat, notes);
        let context = context.answered(answer);
        let files = run.work_files().map(|_| {
            let may_write = resolved.handler.may_write(stage);
            Box::new(self.files_of(&id, stage, context.clone(), may_write))
        });
        Ok(Attempt::begin(run, resolved, stage, id, context, files))
    }

    /// Returns the answer to an attempt's question that came while nobody executed the run.
    fn answer(&self, id: &EffectId) -> Option<Answer> {
        self.machine.lines_to(id).last()?.answer().cloned()
    }

    /// What an attempt noted before it was cut short.
    fn notes(&self, id: &EffectId) -> Option<Arc<[Value]>> {
        let lines = self.machine.lines_to(id);
        let notes = lines.last()?.notes();
        (!notes.is_empty()).then(|| notes.into())
    }

    /// Does what a stage wants, if one wants anything.
    pub(crate) fn heed_request(&mut self) -> bool {
        match self.run.take_request() {
            None => false,
            Some(Request::Look { id, done }) => {
                // The stage may be gone.
                let _ = done.send(Surroundings::of(&self.machine, &id));
                true
            }
            Some(Request::Latest { id, nodes, done }) => {
                let _ = done.send(latest(&self.machine, &id, nodes.as_deref()));
                true
            }
            Some(Request::Note {
                id,
                note,
                checkpoint,
                done,
            }) => {
                self.run.long().requests.noting(id.clone(), done);
                self.happened(Event::Noted { id, note, checkpoint });
                true
            }
        }
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
                None if script.hastens() => Some(Event::Answered {
                    id: id.clone(),
                    answer: Answer::timed_out(),
                }),
                None if question.timeout.is_some() => None,
                None => Some(Event::Unanswerable {
                    id: id.clone(),
                    reason: "the script leaves it unanswered, and it has no time-out".to_owned(),
                }),
            };
            match event {
                Some(event @ Event::Unanswerable { .. }) => self.pause(event),
                Some(event) => self.happened(event),
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
                let id = attempt.id.clone();
                // It is not wanted any more, so it does not matter how its destructor ended.
                let _ = attempt.end(&self.run, true);
                // What it cost was spent all the same.
                if let Some(usage) = self.run.take_usage(&id) {
                    self.happened(Event::Used { id, usage });
                }
            }
            Done::Timer(id) if !cancelled => {
                // An answer that was taken is on its way, however late it is.
                if self.run.questions.expire(&id) {
                    self.happened(Event::TimerFired { id });
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
            Err(InterviewError::Unavailable { reason }) => {
                return self.pause(Event::Unanswerable { id, reason });
            }
            Err(error) => Event::NodeFinished {
                id,
                outcome: error.outcome(),
            },
        };
        self.happened(event);
    }

    /// Tells the machine what came of an attempt.
    fn ended(&mut self, attempt: Attempt<'_>, ended: Ended) {
        let (id, heeds_status) = (attempt.id.clone(), attempt.resolved.heeds_status);
        let cut_short = matches!(ended, Ended::TimedOut(_) | Ended::Cancelled);
        let dropped = attempt.end(&self.run, cut_short);
        match (ended, dropped) {
            (Ended::Outcome(outcome), Ok(())) if heeds_status || !self.run.has_files() => {
                self.finished(id, outcome);
            }
            (Ended::Outcome(outcome), Ok(())) => {
                let outcome = self.heed_status(&id, outcome);
                self.finished(id, outcome);
            }
            (Ended::Suspended(suspension), Ok(())) => self.suspended(id, &suspension),
            (Ended::Outcome(_) | Ended::Suspended(_), Err(outcome)) => self.finished(id, *outcome),
            (Ended::TimedOut(limit), _) => {
                self.finished(id, timed_out(limit));
            }
            (Ended::Cancelled, _) => {}
        }
    }

    fn finished(&mut self, id: EffectId, outcome: Outcome) {
        self.happened(Event::NodeFinished { id, outcome });
    }

    /// Stops the run where it is, for a stage that has not ended (rule K2).
    fn suspended(&mut self, id: EffectId, suspension: &Suspension) {
        let reason = suspension.reason().to_owned();
        match suspension.cause() {
            SuspensionCause::WaitsForHuman => self.pause(Event::Unanswerable { id, reason }),
            SuspensionCause::ChildStuck => self.pause(Event::PauseRequested { reason }),
            SuspensionCause::OverBudget => {
                if let Some(usage) = self.run.take_usage(&id) {
                    self.happened(Event::Used { id, usage });
                }
                let (budget, used) = self.run.budget();
                self.pause(Event::OverBudget { budget, used });
            }
        }
    }

    /// What a handler's outcome is where the stage wrote a status of its own (rule D8).
    fn heed_status(&self, id: &EffectId, outcome: Outcome) -> Outcome {
        let Some(files) = self.run.present_files().filter(|_| outcome.status.is_success()) else {
            return outcome;
        };
        let stage = self.run.pipeline.stage(id.node);
        match status::read(&*files, self.run.place(id).as_ref(), stage) {
            Ok(None) => outcome,
            Ok(Some(written)) => status::merge(outcome, self.run.admit(id, written.into())),
            Err(problem) => Outcome::fail(problem),
        }
    }

    /// Tells the end.
    fn tell_end(
        &mut self,
        ended: Result<Option<RunFailure>, StoreError>,
    ) -> Result<Option<RunFailure>, StoreError> {
        // The last event may be what cannot be written; it is told all the same.
        let ended = first_failure(ended, &self.run);
        if self.run.sink.wanted() && !self.is_end_told() {
            let mut end = EventKind::of_end(&ended, self.duration());
            if let EventKind::PipelineCompleted { artifact_count, .. } = &mut end {
                *artifact_count = self.run.artifact_count();
            }
            self.emit(end);
        }
        first_failure(ended, &self.run)
    }

    fn duration(&self) -> Duration {
        self.before + self.elapsed.saturating_sub(self.began)
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
    let ended = match (ended, run.take_failure()) {
        (Ok(_), Some(failure)) => Err(failure),
        (ended, _) => ended,
    };
    // That somebody else owns the run is the reason behind whatever failed.
    let lost = || run.store.as_ref().and_then(|store| store.still_mine().err());
    ended.map_err(|failure| lost().unwrap_or(failure))
}
