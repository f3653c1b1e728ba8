//! The loop of the driver, from the begin of a run to its end.

use std::future::poll_fn;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use orchestra_core::{Event, RunFailure};

use crate::clock::Sleep;
use crate::driver::action::Action;
use crate::driver::attempt::ring;
use crate::driver::commit::CommitProgress;
use crate::driver::folder_watch;
use crate::driver::pending::{Done, Pending};
use crate::driver::state::Driver;
use crate::error::RunError;
use crate::event::{EventKind, PauseCode};
use crate::handlers::resolved::Handlers;
use crate::result::RunResult;
use crate::run::state::Run;
use crate::run_status::RunStatus;
use crate::store::{Commit, StoreError};

/// The number of effects that may be executed without waiting before other tasks get a turn.
const EFFECTS_A_TURN: u32 = 64;

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
    /// Executes the run to its end and returns the result.
    pub(crate) async fn drive(mut self: Box<Self>, handlers: Handlers) -> Result<RunResult, RunError> {
        folder_watch::watch(&self.run);
        self.read_clock();
        self.time.began = self.time.elapsed;
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
        self.read_clock();
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
            self.run.models().meter.open(self.limits.budget, totals);
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
        let (time, before) = (self.limits.time, self.time.before);
        let mut timer = time.map(|limit| clock.sleep(limit.saturating_sub(before)));
        loop {
            match poll_fn(|cx| Poll::Ready(self.go(run, handlers, pending, cx))).await {
                Pause::Wait => {
                    run.wait_begins();
                    // A failure to write events ends the run before it waits.
                    if run.has_failed() {
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
        let open = !self.machine.state().totals.finished && !self.stopping.begun;
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
    pub(super) fn out_of_time(&self) -> Option<Duration> {
        let limit = self.limits.time?;
        (self.time.executed_now(&*self.run.settings.clock) >= limit).then_some(limit)
    }

    /// Emits the end of the run, unless it was emitted before.
    fn emit_end(
        &mut self,
        ended: Result<Option<RunFailure>, StoreError>,
    ) -> Result<Option<RunFailure>, StoreError> {
        // Emit the end even if events cannot be written: callbacks and subscribers still receive it.
        let ended = first_failure(ended, &self.run);
        if self.run.sink.wanted() && !self.is_end_emitted() {
            let duration = self.time.executed();
            let mut end = match &ended {
                Ok(failure) => EventKind::from_end(failure.as_ref(), duration),
                // The records so far are valid, and the run can be resumed from them.
                Err(error) => EventKind::PipelinePaused {
                    code: PauseCode::Store,
                    reason: error.to_string(),
                    gate: None,
                    duration,
                },
            };
            if let EventKind::PipelineCompleted { artifact_count, .. } = &mut end {
                *artifact_count = self.run.artifact_count();
            }
            self.emit(end);
        }
        first_failure(ended, &self.run)
    }

    /// Closes the run and returns its result.
    fn conclude(
        self: Box<Self>,
        ended: Result<Option<RunFailure>, StoreError>,
    ) -> Result<RunResult, RunError> {
        let duration = self.time.executed();
        let (run, now) = (self.run, self.time.now);
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
