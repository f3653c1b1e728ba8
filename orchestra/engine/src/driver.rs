//! The driver: executes the effects of the machine and applies the resulting events to it, in one task per run.

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
use crate::commit::CommitProgress;
use crate::deadline::Began as Since;
use crate::emit::Began;
use crate::error::RunError;
use crate::event::EventKind;
use crate::history::StageHistory;
use crate::interview::InterviewError;
use crate::journal_writer::JournalWriter;
use crate::pending::{Done, Pending};
use crate::recovery::Recovery;
use crate::requests::Request;
use crate::resolve::Handlers;
use crate::result::{RunResult, RunStatus};
use crate::run::Run;
use crate::stage::StageContext;
use crate::stage_end::{Suspension, SuspensionCause};
use crate::store::{Commit, Position, StageFile, StoreError};
use crate::stored_text::latest;
use crate::usage_meter;

/// The number of effects that may be executed without waiting before other tasks get a turn.
const EFFECTS_A_TURN: u32 = 64;

pub(crate) struct Driver {
    pub(crate) run: Arc<Run>,
    pub(crate) machine: Machine,
    /// The effects that the machine returned and the driver has not handled yet.
    pub(crate) effects: Vec<Effect>,
    /// The actions to execute, in order.
    pub(crate) actions: VecDeque<Action>,
    pub(crate) limits: Limits,
    pub(crate) began: Duration,
    /// The time for which other processes executed the run.
    pub(crate) before: Duration,
    /// `true` if the machine needs to receive the elapsed time.
    pub(crate) timed: bool,
    pub(crate) stages_began: Began,
    /// The time of the events that are emitted now. The clock is read once for all events that occur together.
    pub(crate) now: Timestamp,
    pub(crate) elapsed: Duration,
    /// The journal; `None` if nothing is persisted.
    pub(crate) journal: Option<Box<JournalWriter>>,
    /// The recovery of the run; `None` if this process started the run.
    pub(crate) recovery: Option<Box<Recovery>>,
    /// `true` while a request to end the run is in progress.
    pub(crate) stopping: bool,
    /// The event that will pause the run.
    pub(crate) pausing: Option<Box<Event>>,
    /// The state that is needed to resume the run, taken before it was stopped, and the position of the journal then.
    pub(crate) stopped_at: Option<Box<(Box<RawValue>, Position)>>,
    /// The usage of the attempt whose end is emitted next.
    pub(crate) used: Option<Box<(EffectId, Usage)>>,
}

/// The limits on the time and the model usage of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) time: Option<Duration>,
    pub(crate) budget: Budget,
}

impl Limits {
    /// Adds the budget that the pipeline sets. A limit that was requested at the start takes precedence.
    fn of(self, pipeline: &Pipeline) -> Limits {
        let (asked, own) = (self.budget, usage_meter::of_graph(pipeline));
        Limits {
            time: self.time,
            budget: Budget {
                max_tokens: asked.max_tokens.or(own.max_tokens),
                max_cost_micros: asked.max_cost_micros.or(own.max_cost_micros),
            },
        }
    }
}

/// An effect that requires more than emitting an event. It is small, because a waiting run holds capacity for a few.
pub(crate) enum Action {
    RunNode(EffectId, Context),
    StartTimer(EffectId, Duration, Box<Since>),
    AskHuman(EffectId, Box<Question>),
    Cancel(EffectId),
    Finish(Option<Box<RunFailure>>),
}

/// The reason why the driver stops executing effects.
enum Pause {
    /// It waits for tasks in progress.
    Wait,
    /// It waits for the disk: written records are not durable yet.
    Commit(Commit),
    /// It waits for the disk: the journal has outgrown the checkpoint.
    Checkpoint,
    /// It yields to other tasks.
    Turn,
    /// The run has ended.
    End(Result<Option<RunFailure>, StoreError>),
}

/// The reason why a wait ended.
enum Woken<'h> {
    /// An answer or a request of a stage has arrived.
    Answer,
    /// A task is done. The flag is `true` if the task was cancelled before.
    Done(Done<'h>, bool),
    /// The end or a pause of the run was requested.
    Stop,
    /// The run exceeded its time limit.
    TimeUp(Duration),
}

impl Driver {
    /// Creates a driver. It is boxed because a task moves its contents more than once.
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
            journal: None,
            recovery: None,
            stopping: false,
            pausing: None,
            stopped_at: None,
            used: None,
        })
    }

    /// Executes the run to its end and returns the result.
    pub(crate) async fn drive(mut self: Box<Self>, handlers: Handlers) -> Result<RunResult, RunError> {
        crate::folder_watch::watch(&self.run);
        self.look_at_the_clock();
        self.began = self.elapsed;
        let over = self.recovery.as_mut().and_then(|recovery| recovery.ended.take());
        let run = self.run.clone();
        let ended = match over {
            Some(failure) if self.is_end_saved() => return self.conclude(Ok(failure)),
            // The run ended in a process that stopped before it saved the end.
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
                let status = RunStatus::from_failure(failure.as_ref()).word();
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
        let ended = self.emit_end(ended);
        self.run.close_artifacts();
        let ended = match (ended, &self.run.store) {
            (Ok(failure), Some(store)) => store.close().map(|()| failure),
            (Err(failure), Some(store)) => {
                // The run has failed already, and another process may own it.
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

    /// Begins the run, or resumes it if it was recovered.
    fn open(&mut self) -> Result<(), StoreError> {
        let totals = &self.machine.state().totals;
        if !self.limits.budget.is_empty() || !totals.usage.is_zero() {
            self.run.long().meter.open(self.limits.budget, totals);
            // The parent runs have not counted the usage from another process yet.
            if let Some(parent) = &self.run.origin.parent {
                parent.run.spend(parent.stage.node, totals.usage);
            }
        }
        self.machine.observe(self.run.sink.wanted());
        // A run whose process ended before it wrote anything has not begun yet.
        if self.recovery.as_ref().is_some_and(|recovery| recovery.begun) {
            return self.go_on();
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.is_blank = true;
        }
        if let Some(journal) = &self.journal {
            journal.begin(&self.run)?;
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
        if !self.already_emitted() {
            self.run.emit_at(self.now, kind);
        }
    }

    /// Executes stages until the machine finishes the run.
    async fn stages<'h>(
        &mut self,
        run: &'h Run,
        handlers: &'h Handlers,
    ) -> Result<Option<RunFailure>, StoreError> {
        let mut pending = Pending::default();
        let ended = self.until_end(run, handlers, &mut pending).await;
        if ended.is_err() {
            // The run is resumed later, and so are its child runs.
            run.stop.pauses();
        }
        // Cancelled tasks end before the run does, so that no process outlives it.
        while pending.is_ending() {
            let (done, _) = poll_fn(|cx| pending.poll(cx)).await;
            self.done(done, true);
        }
        if ended.is_ok() {
            self.apply_rest().await?;
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
                    // A failure to write events ends the run before it waits.
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
                    if let Some(journal) = &mut self.journal {
                        journal.committed();
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

    /// Applies the events of stages that ended together with the run, because their usage has been paid for.
    async fn apply_rest(&mut self) -> Result<(), StoreError> {
        if self.is_waiting()
            && let Some(commit) = self.commit()?
        {
            commit.await?;
            if let Some(journal) = &mut self.journal {
                journal.committed();
            }
        }
        while let Some(pending) = self.journal.as_mut().and_then(|journal| journal.next()) {
            self.apply_pending(pending);
        }
        Ok(())
    }

    /// Waits until something happens.
    async fn wait<'h>(&self, run: &Run, pending: &mut Pending<'h>, timer: &mut Option<Sleep>) -> Woken<'h> {
        // A run that is ending only waits for what it has cancelled.
        let open = !self.machine.state().totals.finished && !self.stopping;
        tokio::select! {
            biased;
            () = run.questions.answered(), if open => Woken::Answer,
            (done, cancelled) = poll_fn(|cx| pending.poll(cx)) => Woken::Done(done, cancelled),
            () = run.stop.wait(), if open => Woken::Stop,
            () = poll_fn(|cx| ring(timer, cx)), if open => Woken::TimeUp(self.limits.time.unwrap_or_default()),
        }
    }

    /// Proceeds as far as possible without waiting. This is the hot path: a stage that ends at once never leaves it.
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
            if let Err(failure) = self.handle_effects() {
                return Pause::End(Err(failure));
            }
            match self.commit_next() {
                Ok(CommitProgress::Applied) => continue,
                Ok(CommitProgress::Commit(commit)) => return Pause::Commit(commit),
                Ok(CommitProgress::Checkpoint) => return Pause::Checkpoint,
                Ok(CommitProgress::Nothing) => {}
                Err(failure) => return Pause::End(Err(failure)),
            }
            // Take answers before timers, so that a timer does not make an answer late.
            while let Some((id, answer)) = run.questions.take() {
                self.record(Event::Answered { id, answer });
            }
            let stage = matches!(self.actions.front(), Some(Action::RunNode(..)));
            // A cancelled stage may still be writing where the next stage reads.
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

    /// Returns the time limit if the run has exceeded it. This covers runs that never wait for a stage.
    fn out_of_time(&self) -> Option<Duration> {
        let limit = self.limits.time?;
        let taken = self.run.settings.clock.elapsed().saturating_sub(self.began);
        (self.before + taken >= limit).then_some(limit)
    }

    /// Starts an attempt of a stage, and ends it if it is done at once.
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
            let stage_folder = run.stage_folder(&id);
            // Stage folders are created on demand. An existing one holds files of an earlier visit or attempt.
            if id.visit > 1 || id.attempt > 1 || self.may_repeat(&id) {
                run.write_later();
                if files.has_folder(stage_folder.as_ref()) {
                    files.stage(stage_folder.as_ref(), id.visit)?;
                }
            }
            // A status file that this attempt did not write must not count for it.
            files.remove(stage_folder.as_ref(), StageFile::Status)?;
            run.warn_moved(&id);
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

    /// Returns the answer to an attempt's question that was given while no process executed the run.
    fn answer(&self, id: &EffectId) -> Option<Answer> {
        self.machine.paths_to(id).last()?.answer().cloned()
    }

    /// Returns the notes that an attempt stored before it was interrupted. Returns `None` if there are none.
    fn notes(&self, id: &EffectId) -> Option<Arc<[Value]>> {
        let paths = self.machine.paths_to(id);
        let notes = paths.last()?.notes();
        (!notes.is_empty()).then(|| notes.into())
    }

    /// Handles the next request of a stage. Returns `false` if there is none.
    pub(crate) fn heed_request(&mut self) -> bool {
        match self.run.take_request() {
            None => false,
            Some(Request::Look { id, done }) => {
                // The stage may have been dropped.
                let _ = done.send(StageHistory::new(&self.machine, &id));
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
                self.record(Event::Noted { id, note, checkpoint });
                true
            }
        }
    }

    /// Opens a question to a person, and asks the interviewer if there is one. A script answers it in a simulation.
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
                Some(event) => self.record(event),
                None => run.questions.open(id, question),
            }
            return;
        }
        run.questions.open(id.clone(), question.clone());
        if let Some(interviewer) = &run.settings.interviewer {
            pending.question(interviewer, id, question);
        }
    }

    /// Records the end of a task.
    fn done(&mut self, done: Done<'_>, cancelled: bool) {
        match done {
            Done::Stage(attempt, ended) if !cancelled => self.ended(*attempt, ended),
            Done::Stage(attempt, _) => {
                let id = attempt.id.clone();
                // The attempt was cancelled, so a panic of its destructor does not matter.
                let _ = attempt.end(&self.run, true);
                // Its usage was spent all the same.
                if let Some(usage) = self.run.take_usage(&id) {
                    self.record(Event::Used { id, usage });
                }
            }
            Done::Timer(id) if !cancelled => {
                // An answer that was accepted before takes precedence over the timer.
                if self.run.questions.expire(&id) {
                    self.record(Event::TimerFired { id });
                }
            }
            Done::Question(id, answer) if !cancelled => self.answered(id, answer),
            Done::Timer(_) | Done::Question(..) | Done::Dropped(_) => {}
        }
    }

    fn answered(&mut self, id: EffectId, answer: Result<Answer, InterviewError>) {
        // Somebody else has answered already.
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
        self.record(event);
    }

    /// Records how an attempt ended.
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
        self.record(Event::NodeFinished { id, outcome });
    }

    /// Pauses the run for a stage that has not ended (rule K2).
    fn suspended(&mut self, id: EffectId, suspension: &Suspension) {
        let reason = suspension.reason().to_owned();
        match suspension.cause() {
            SuspensionCause::WaitsForHuman => self.pause(Event::Unanswerable { id, reason }),
            SuspensionCause::ChildStuck => self.pause(Event::PauseRequested { reason }),
            SuspensionCause::OverBudget => {
                if let Some(usage) = self.run.take_usage(&id) {
                    self.record(Event::Used { id, usage });
                }
                let (budget, used) = self.run.budget();
                self.pause(Event::OverBudget { budget, used });
            }
        }
    }

    /// Returns the outcome of a handler, merged with the status file that the stage may have written (rule D8).
    fn heed_status(&self, id: &EffectId, outcome: Outcome) -> Outcome {
        let Some(files) = self.run.present_files().filter(|_| outcome.status.is_success()) else {
            return outcome;
        };
        let stage = self.run.pipeline.stage(id.node);
        match status::read(&*files, self.run.stage_folder(id).as_ref(), stage) {
            Ok(None) => outcome,
            Ok(Some(written)) => status::merge(outcome, self.run.admit(id, written.into())),
            Err(problem) => Outcome::fail(problem),
        }
    }

    /// Emits the end of the run, unless it was emitted before.
    fn emit_end(
        &mut self,
        ended: Result<Option<RunFailure>, StoreError>,
    ) -> Result<Option<RunFailure>, StoreError> {
        // Emit the end even if events cannot be written: callbacks and subscribers still receive it.
        let ended = first_failure(ended, &self.run);
        if self.run.sink.wanted() && !self.is_end_emitted() {
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

    /// Closes the run and returns its result.
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

/// Returns the failure of a run whose machine has nothing left to do but has not finished. That would be a bug of the
/// machine.
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
    // If another process owns the run, that is the cause of the other failures.
    let lost = || run.store.as_ref().and_then(|store| store.check_ownership().err());
    ended.map_err(|failure| lost().unwrap_or(failure))
}
