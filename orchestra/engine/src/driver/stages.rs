//! The attempts of stages: how the driver begins them and records their ends.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use orchestra_core::{Answer, Context, EffectId, Event, Outcome};
use serde_json::Value;

use crate::driver::attempt::{Attempt, Ended};
use crate::driver::pending::{Done, Pending};
use crate::driver::state::Driver;
use crate::handlers::resolved::Handlers;
use crate::run::history::{PastStage, StageHistory};
use crate::run::path_files::PathFiles;
use crate::run::requests::Request;
use crate::run::stage::StageContext;
use crate::run::state::Run;
use crate::stage_end::{Suspension, SuspensionCause};
use crate::store::{StageFile, StoreError};

impl Driver {
    /// Starts an attempt of a stage, and ends it if it is done at once.
    pub(super) fn run_node<'h>(
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
        if run.stage_files.may_be_present()
            && let Some(files) = run.present_files()
        {
            let stage_folder = run.stage_folder(&id);
            // Stage folders are created on demand. An existing one holds files of an earlier visit or attempt.
            let may_be_used = id.visit > 1 || id.attempt > 1 || self.may_repeat(&id);
            if may_be_used && files.has_folder(stage_folder.as_ref()) {
                files.stage(stage_folder.as_ref(), id.visit)?;
            }
            // A status file that this attempt did not write must not count for it.
            files.remove(stage_folder.as_ref(), StageFile::Status)?;
            run.warn_moved(&id);
        }
        let Some(resolved) = handlers.handler(stage) else {
            let reason = format!("no handler of kind `{}`", stage.kind());
            return Ok(Err(Box::new(Outcome::fail_terminal(reason))));
        };
        let may_repeat = self.may_repeat(&id);
        let notes = may_repeat.then(|| self.notes(&id)).flatten();
        let answer = may_repeat.then(|| self.answer(&id)).flatten();
        // A replayed run has made an attempt before only if it has the attempt's notes.
        let is_repeat = may_repeat && (!self.is_replay() || notes.is_some());
        let context = StageContext::new(run.clone(), id.clone(), context, is_repeat, notes);
        let context = context.answered(answer);
        let files = self.files.as_ref().map(|files| {
            let state = PathFiles::from_machine(&self.machine, &id);
            let stage = run.workspace_stage(&id, context.clone(), resolved, state);
            (Box::new(stage), files.clone())
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
                let _ = done.send(StageHistory::from_machine(&self.machine, &id));
                true
            }
            Some(Request::Latest { id, nodes, done }) => {
                let _ = done.send(PastStage::latest(&self.machine, &id, nodes.as_deref()));
                true
            }
            Some(Request::Note {
                id,
                note,
                checkpoint,
                done,
            }) => {
                self.run.models().requests.noting(id.clone(), done);
                self.record(Event::Noted { id, note, checkpoint });
                true
            }
        }
    }

    /// Records the end of a task.
    pub(super) fn done(&mut self, done: Done<'_>, cancelled: bool) {
        match done {
            Done::Stage(attempt, ended) if !cancelled => self.ended(*attempt, ended),
            Done::Stage(attempt, _) => {
                let id = attempt.id.clone();
                // The attempt was cancelled, so a panic of its destructor does not matter.
                let _ = attempt.end(&self.run, true);
                // Its usage was spent all the same.
                if let Some(usage) = self.run.attempts.usage.take(&id) {
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

    /// Records how an attempt ended.
    pub(super) fn ended(&mut self, attempt: Attempt<'_>, ended: Ended) {
        let id = attempt.id.clone();
        match attempt.close(&self.run, ended) {
            Some(Ok(outcome)) => self.finished(id, outcome),
            Some(Err(suspension)) => self.suspended(id, &suspension),
            None => {}
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
                if let Some(usage) = self.run.attempts.usage.take(&id) {
                    self.record(Event::Used { id, usage });
                }
                let (budget, used) = self.run.budget();
                self.pause(Event::OverBudget { budget, used });
            }
        }
    }
}
