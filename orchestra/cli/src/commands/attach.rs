//! `attach`: follows a run that another process executes, and answers its questions.

use std::future::Future;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{
    Answer, ControlClient, ControlError, EventKind, InterviewError, Interviewer, OpenQuestion, PauseCode,
    Question, RunEvent, RunFile, RunFolder, RunStatus, UnansweredQuestions, beside,
};
use serde_json::json;
use tokio::task::JoinError;
use tokio::time::Instant;

use crate::args::AttachArgs;
use crate::error::{CliError, Exit};
use crate::questions::console::Console;
use crate::report::finish::{resume_line, status_label};
use crate::report::progress::SharedProgress;
use crate::runs::Runs;
use crate::runs::signals::Signals;
use crate::runs::stopped::StoppedRun;
use crate::runs::tail::Tails;
use crate::terminal::format::{now, one_line};
use crate::terminal::{Paint, Terminal};

/// Interval between reads of new events.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Interval between requests for open questions, if there is a person to answer them.
const QUESTION_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn attach(args: &AttachArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let runs = Runs::new(&args.runs, program);
    let folder = runs.find(&args.run)?;
    let run = RunFolder::open(&folder)?;
    let runtime = crate::runs::runtime::runtime()?;
    terminal.detach();
    let shown = Arc::new(SharedProgress::new(*terminal));
    shown.progress().follow_run(&run.manifest().run);
    let attended = !terminal.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let forwarder = QuestionForwarder {
        folder: folder.clone(),
        console: Arc::new(Console::new(*terminal, shown.clone())),
        shown: shown.clone(),
        state: if attended {
            ForwardState::Idle(Instant::now())
        } else {
            ForwardState::Nobody
        },
    };
    let follower = Follower {
        tail: Tails::new(&folder),
        waiting: UnansweredQuestions::default(),
        end: None,
        runs: &runs,
        run: &run,
        shown: &shown,
        terminal,
    };
    let ended = runtime.block_on(follower.follow(args.tail, forwarder));
    // Do not wait for a pending request to the owner.
    runtime.shutdown_background();
    ended
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
}

impl RunEnd {
    fn describe(&self) -> String {
        let reason = self
            .reason
            .as_deref()
            .map(|reason| format!(": {}", one_line(reason)));
        format!("{}{}", status_label(self.status).1, reason.unwrap_or_default())
    }
}

struct Follower<'a> {
    tail: Tails,
    waiting: UnansweredQuestions,
    /// The end of the run; `None` if its last event is not an end.
    end: Option<RunEnd>,
    runs: &'a Runs,
    run: &'a RunFolder,
    shown: &'a SharedProgress,
    terminal: &'a Terminal,
}

impl Follower<'_> {
    async fn follow(mut self, from_now: bool, mut forwarder: QuestionForwarder) -> Result<Exit, CliError> {
        let mut signals = Signals::new();
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        let mut show = !from_now;
        let mut owned = true;
        loop {
            let found_events = self.show_new_events(show, &mut forwarder)?;
            show = true;
            // The owner may have written more events between the last read and its end.
            if !found_events && !owned {
                self.shown.progress().clear();
                return self.report_end();
            }
            owned = self.run.owner()?.is_some();
            let pause = if owned { POLL_INTERVAL } else { Duration::ZERO };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = ticks.tick() => self.shown.progress().tick(),
                () = signals.next() => {
                    self.detach();
                    return Ok(Exit::Cancelled);
                }
                () = forwarder.step(&self.waiting) => {}
            }
        }
    }

    /// Reads and shows new events. Returns whether there were any.
    fn show_new_events(&mut self, show: bool, forwarder: &mut QuestionForwarder) -> Result<bool, CliError> {
        let events = self.tail.read().map_err(|error| {
            let path = RunFile::Events.path(self.run.path());
            CliError::usage("store_io", format!("cannot read `{}`: {error}", path.display()))
                .exit(Exit::RunFailed)
        })?;
        for tailed in &events {
            self.waiting.apply(&tailed.event);
            let mut before = None;
            // Child runs end and pause too.
            if *tailed.event.run == self.run.manifest().run {
                before = std::mem::replace(&mut self.end, RunEnd::from_event(&tailed.event));
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
        Ok(!events.is_empty())
    }

    /// Reports the end of a run that no process executes any more.
    fn report_end(&self) -> Result<Exit, CliError> {
        let terminal = self.terminal;
        let stopped = StoppedRun::in_folder(self.runs, Some(self.run.path()));
        let Some(end) = &self.end else {
            let message = "the process that executed the run is gone, and the run has not ended";
            return Err(CliError {
                resume: stopped.resume(),
                ..CliError::usage("owner_gone", message).exit(Exit::Cancelled)
            });
        };
        let resume = match end.status {
            RunStatus::Paused => stopped.resume(),
            _ => None,
        };
        let path = self.run.checkpoint().ok().flatten();
        let path = path
            .map(|checkpoint| checkpoint.completed_nodes.to_vec())
            .unwrap_or_default();
        if terminal.json {
            terminal.object(&json!({
                "schema": "orchestra.result/1", "run": self.run.manifest().run, "status": end.status.word(),
                "path": path, "failure_reason": end.reason, "run_dir": self.run.path(), "resume": resume,
            }));
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

    fn detach(&self) {
        Terminal::limit_drain();
        self.shown.progress().interject("detached; the run goes on");
        let command = self.runs.command("attach", self.run.path(), &[]);
        let command = self.terminal.paint(Paint::Bold, &command);
        self.terminal
            .progress(&format!("follow it again with: {command}"));
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Answer, InterviewError>>>>;

/// Forwards the questions of the run to the person at the terminal.
struct QuestionForwarder {
    folder: PathBuf,
    console: Arc<Console>,
    shown: Arc<SharedProgress>,
    state: ForwardState,
}

/// A pending response of the owner of the run.
type Response<T> = Pin<Box<dyn Future<Output = Result<Result<T, ControlError>, JoinError>>>>;

/// The state of the question loop.
enum ForwardState {
    /// There is no person to ask.
    Nobody,
    /// Idle; the owner is queried again at this time.
    Idle(Instant),
    /// Waiting for the owner to return its open questions.
    Owner(Response<Vec<OpenQuestion>>),
    /// Waiting for the person to answer.
    Person(Box<OpenQuestion>, Answering),
    /// Waiting for the owner to accept an answer.
    Answer(Response<()>),
}

impl QuestionForwarder {
    /// Performs the next step. Cancel safe: the future may be dropped and the method called again at any time.
    async fn step(&mut self, waiting: &UnansweredQuestions) {
        self.state = match &mut self.state {
            ForwardState::Nobody => std::future::pending().await,
            ForwardState::Idle(until) => {
                tokio::time::sleep_until(*until).await;
                let folder = self.folder.clone();
                ForwardState::Owner(Box::pin(beside(move || client(&folder)?.questions())))
            }
            ForwardState::Owner(asked) => match asked.await {
                Ok(Ok(questions)) => match questions.into_iter().next() {
                    Some(question) => self.ask_person(question, waiting),
                    None => idle(),
                },
                // The owner may be about to end, which the events will show.
                _ => idle(),
            },
            ForwardState::Person(question, answering) => match answering.await {
                Ok(answer) => {
                    let (folder, question) = (self.folder.clone(), question.clone());
                    ForwardState::Answer(Box::pin(beside(move || {
                        client(&folder)?.answer_to(&question, answer)
                    })))
                }
                Err(error) => {
                    self.show(&error.to_string());
                    ForwardState::Nobody
                }
            },
            ForwardState::Answer(asked) => {
                if let Ok(Err(error)) = asked.await {
                    self.show(&error.to_string());
                }
                ForwardState::Idle(Instant::now())
            }
        };
    }

    /// Asks the person a question.
    fn ask_person(&self, question: OpenQuestion, waiting: &UnansweredQuestions) -> ForwardState {
        let (console, mut asked) = (self.console.clone(), Question::clone(&question));
        let open = waiting.iter().find(|open| open.question.id == asked.id);
        if let Some(left) = open.and_then(|open| open.remaining(now())) {
            asked.timeout = Some(left);
        }
        ForwardState::Person(
            Box::new(question),
            Box::pin(async move { console.ask(asked).await }),
        )
    }

    /// Withdraws a question that was answered elsewhere, or is no longer needed.
    fn event(&mut self, event: &RunEvent) {
        let ForwardState::Person(question, _) = &self.state else {
            return;
        };
        let is_over = match &event.kind {
            EventKind::InterviewCompleted { question_id, .. }
            | EventKind::InterviewTimeout { question_id, .. } => *question_id == question.id,
            EventKind::StageCancelled { stage, .. } => *stage.node == *question.node,
            _ => false,
        };
        if is_over {
            self.state = ForwardState::Idle(Instant::now());
        }
    }

    fn show(&self, text: &str) {
        self.shown
            .progress()
            .interject(&format!("    {}", one_line(text)));
    }
}

fn idle() -> ForwardState {
    ForwardState::Idle(Instant::now() + QUESTION_INTERVAL)
}

fn client(folder: &Path) -> Result<ControlClient, ControlError> {
    ControlClient::open(folder)
}
