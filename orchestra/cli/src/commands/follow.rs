//! Follows a run that another process executes: shows its events, forwards its questions and reports its end.

use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use orchestra_engine::{EventKind, Interviewer, PauseCode, RunEvent, RunStatus, UnansweredQuestions};
use serde_json::json;

use super::forward::{QuestionChannel, QuestionForwarder, Unanswered};
use crate::error::{CliError, Exit};
use crate::questions::answers::example;
use crate::report::finish::{resume_line, status_label};
use crate::report::progress::SharedProgress;
use crate::runs::signals::Signals;
use crate::runs::tail::TailedEvent;
use crate::terminal::format::one_line;
use crate::terminal::{Paint, Terminal};

/// A run that another process executes.
pub(super) trait FollowedRun {
    /// Returns the id.
    fn id(&self) -> &str;

    /// Returns the folder, if this machine has it.
    fn folder(&self) -> Option<&Path>;

    /// Returns the address of the server that has the run.
    fn server(&self) -> Option<&str>;

    /// Returns a command of this program for the run.
    fn command(&self, verb: &str, arguments: &[&str]) -> String;

    /// Returns the new events since the last call. Cancel safe.
    async fn new_events(&mut self) -> Result<Vec<TailedEvent>, CliError>;

    /// Returns whether more events may follow an event that ended the run, or one that did not.
    async fn goes_on(&mut self, has_ended: bool) -> Result<bool, CliError>;

    /// Returns the interval between reads of events while the run goes on.
    fn interval(&self) -> Duration;

    /// Returns the nodes that the main path completed.
    async fn path(&self) -> Vec<String>;
}

/// The end of a run according to its last event.
#[derive(Clone)]
struct RunEnd {
    status: RunStatus,
    exit: Exit,
    reason: Option<String>,
}

impl RunEnd {
    fn from_event(event: &RunEvent) -> Option<RunEnd> {
        let end = |status, exit, reason: Option<&String>| RunEnd {
            status,
            exit,
            reason: reason.cloned(),
        };
        Some(match &event.kind {
            EventKind::PipelineCompleted { .. } => end(RunStatus::Success, Exit::Ok, None),
            EventKind::PipelineFailed { error, .. } => end(RunStatus::Fail, Exit::RunFailed, Some(error)),
            EventKind::PipelineCancelled { reason, .. } => {
                end(RunStatus::Cancelled, Exit::Cancelled, Some(reason))
            }
            EventKind::PipelinePaused { code, reason, .. } => {
                let exit = match code {
                    PauseCode::WaitsForHuman => Exit::WaitsForHuman,
                    PauseCode::Budget => Exit::Budget,
                    PauseCode::Store => Exit::RunFailed,
                    _ => Exit::Cancelled,
                };
                end(RunStatus::Paused, exit, Some(reason))
            }
            _ => return None,
        })
    }

    fn describe(&self) -> String {
        let reason = self
            .reason
            .as_deref()
            .map(|reason| format!(": {}", one_line(reason)));
        format!("{}{}", status_label(self.status).1, reason.unwrap_or_default())
    }
}

/// Returns whether a run that has stopped goes on with an event.
fn begins_again(event: &RunEvent) -> bool {
    matches!(
        event.kind,
        EventKind::PipelineResumed { .. }
            | EventKind::StageStarted { .. }
            | EventKind::InterviewStarted { .. }
    )
}

/// What happens if nobody can answer a question.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IfUnanswered {
    /// The run is followed further.
    Follow,
    /// The command ends; the run goes on.
    #[cfg_attr(
        not(feature = "restate"),
        expect(dead_code, reason = "only runs on a server go on so")
    )]
    Stop,
}

/// The display of a run that another process executes.
pub(super) struct Follower<'a, R> {
    run: R,
    waiting: UnansweredQuestions,
    /// The end of the run; `None` if its last event is not an end.
    end: Option<RunEnd>,
    if_unanswered: IfUnanswered,
    shown: &'a SharedProgress,
    terminal: &'a Terminal,
}

impl<'a, R: FollowedRun> Follower<'a, R> {
    pub(super) fn new(
        run: R,
        if_unanswered: IfUnanswered,
        shown: &'a SharedProgress,
        terminal: &'a Terminal,
    ) -> Follower<'a, R> {
        shown.progress().follow_run(run.id());
        Follower {
            run,
            waiting: UnansweredQuestions::default(),
            end: None,
            if_unanswered,
            shown,
            terminal,
        }
    }

    /// Follows the run until it stops, or until a signal arrives. With `from_now`, earlier events are not shown.
    pub(super) async fn follow<C: QuestionChannel, I: Interviewer>(
        mut self,
        from_now: bool,
        mut forwarder: QuestionForwarder<C, I>,
    ) -> Result<Exit, CliError> {
        let mut signals = Signals::new();
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        let mut show = !from_now;
        let mut goes_on = true;
        loop {
            let read = {
                let mut reading = pin!(self.run.new_events());
                loop {
                    tokio::select! {
                        events = &mut reading => break Some(events?),
                        _ = ticks.tick() => self.shown.progress().tick(),
                        () = signals.next() => break None,
                    }
                }
            };
            let Some(events) = read else {
                self.detach();
                return Ok(Exit::Cancelled);
            };
            let found_events = !events.is_empty();
            self.show_events(&events, show, &mut forwarder);
            show = true;
            // More events may have been written between the last read and the end.
            if !found_events && !goes_on {
                self.shown.progress().clear();
                return self.report_end().await;
            }
            goes_on = self.run.goes_on(self.end.is_some()).await?;
            let pause = if goes_on {
                self.run.interval()
            } else {
                Duration::ZERO
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = ticks.tick() => self.shown.progress().tick(),
                () = signals.next() => {
                    self.detach();
                    return Ok(Exit::Cancelled);
                }
                () = forwarder.step(&self.waiting) => {}
            }
            if let Some(unanswered) = forwarder.unanswered() {
                match self.if_unanswered {
                    IfUnanswered::Follow => forwarder.show(&unanswered.reason),
                    IfUnanswered::Stop => return Err(self.unanswered(&unanswered)),
                }
            }
        }
    }

    fn show_events<C: QuestionChannel, I: Interviewer>(
        &mut self,
        events: &[TailedEvent],
        show: bool,
        forwarder: &mut QuestionForwarder<C, I>,
    ) {
        for tailed in events {
            self.waiting.apply(&tailed.event);
            let mut before = None;
            // Child runs end and pause too.
            if *tailed.event.run == *self.run.id() {
                match RunEnd::from_event(&tailed.event) {
                    Some(end) => self.end = Some(end),
                    None if begins_again(&tailed.event) => before = self.end.take(),
                    // Stages that are cut short tell what they did after the run was paused.
                    None => {}
                }
            }
            forwarder.event(&tailed.event);
            if !show {
                continue;
            }
            if self.terminal.json {
                self.terminal.event(&tailed.line)
            } else {
                let mut progress = self.shown.progress();
                // The run was resumed after that end.
                if let Some(end) = before {
                    progress.note(&end.describe());
                }
                progress.event(&tailed.event);
            }
        }
    }

    /// Reports the end of a run that nobody executes any more.
    async fn report_end(&self) -> Result<Exit, CliError> {
        let terminal = self.terminal;
        let resume = || self.run.command("resume", &[]);
        let Some(end) = &self.end else {
            let message = "the process that executed the run is gone, and the run has not ended";
            return Err(CliError {
                resume: Some(resume()),
                ..CliError::usage("owner_gone", message).exit(Exit::Cancelled)
            });
        };
        let resume = (end.status == RunStatus::Paused).then(resume);
        let path = self.run.path().await;
        if terminal.json {
            let mut result = json!({
                "schema": "orchestra.result/1", "run": self.run.id(), "status": end.status.word(),
                "path": path, "failure_reason": end.reason, "run_dir": self.run.folder(), "resume": resume,
            });
            if let Some(server) = self.run.server() {
                result["server"] = server.into();
            }
            terminal.object(&result);
        } else {
            terminal.progress("");
            if let Some(reason) = &end.reason {
                terminal.message(&format!("{}: {reason}", terminal.paint(Paint::Bad, "error")));
            }
            let (paint, word) = status_label(end.status);
            terminal.result(&format!(
                "{}: {}",
                terminal.paint_result(paint, word),
                path.join(" -> ")
            ));
        }
        if let Some(command) = resume {
            terminal.message(&resume_line(terminal, &command));
        }
        Ok(end.exit)
    }

    /// Returns the error for a question that nobody here can answer.
    fn unanswered(&self, unanswered: &Unanswered) -> CliError {
        self.shown.progress().clear();
        let node = &unanswered.question.node;
        let message = format!(
            "`{node}` waits for an answer, which nobody gives here: {}; the run goes on elsewhere",
            unanswered.reason
        );
        let answer = self.run.command("answer", &[node, example(&unanswered.question)]);
        CliError::usage("waits_for_human", message)
            .exit(Exit::WaitsForHuman)
            .help(format!(
                "answer it with `{answer}`, or follow the run and answer at a terminal with `{}`",
                self.run.command("attach", &[])
            ))
    }

    fn detach(&self) {
        Terminal::limit_drain();
        self.shown.progress().interject("detached; the run goes on");
        let command = self.terminal.paint(Paint::Bold, &self.run.command("attach", &[]));
        self.terminal
            .progress(&format!("follow it again with: {command}"));
    }
}
