//! `attach`: follows a run that another process executes, and answers its questions.

use std::future::Future;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{
    Answer, ControlClient, ControlError, EventKind, InterviewError, Interviewer, OpenQuestion, PauseCode,
    Question, RunEvent, RunFolder, RunStatus, beside,
};
use serde_json::json;
use tokio::task::JoinError;
use tokio::time::Instant;

use crate::args::AttachArgs;
use crate::console::Console;
use crate::error::{CliError, Exit};
use crate::finish::{Stopped, resume_line, verdict};
use crate::layout::now;
use crate::progress::{Shown, one_line};
use crate::runs::Runs;
use crate::signals::Signals;
use crate::tail::Tails;
use crate::terminal::{Paint, Terminal};
use crate::waiting::Waiting;

/// Interval between reads of new events.
const LOOK: Duration = Duration::from_millis(100);

/// Interval between requests for open questions, if there is a person to answer them.
const ASK: Duration = Duration::from_secs(1);

pub(crate) fn attach(args: &AttachArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let runs = Runs::new(&args.runs, program);
    let folder = runs.find(&args.run)?;
    let run = RunFolder::open(&folder)?;
    let runtime = crate::runtime::runtime()?;
    terminal.detach();
    let shown = Arc::new(Shown::new(*terminal));
    shown.progress().of_run(&run.manifest().run);
    let attended = !terminal.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let asker = Asker {
        folder: folder.clone(),
        console: Arc::new(Console::new(*terminal, shown.clone())),
        shown: shown.clone(),
        asking: if attended {
            Asking::Nothing(Instant::now())
        } else {
            Asking::Nobody
        },
    };
    let attached = Attached {
        tail: Tails::new(&folder),
        waiting: Waiting::default(),
        end: None,
        runs: &runs,
        run: &run,
        shown: &shown,
        terminal,
    };
    let ended = runtime.block_on(attached.follow(args.tail, asker));
    // Do not wait for a pending request to the owner.
    runtime.shutdown_background();
    ended
}

/// The end of a run according to its last event.
#[derive(Clone)]
struct End {
    status: RunStatus,
    exit: Exit,
    reason: Option<String>,
}

impl End {
    fn from_event(event: &RunEvent) -> Option<End> {
        let end = |status, exit, reason: Option<&String>| End {
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

impl End {
    fn words(&self) -> String {
        let reason = self
            .reason
            .as_deref()
            .map(|reason| format!(": {}", one_line(reason)));
        format!("{}{}", verdict(self.status).1, reason.unwrap_or_default())
    }
}

struct Attached<'a> {
    tail: Tails,
    waiting: Waiting,
    /// The end of the run; `None` if its last event is not an end.
    end: Option<End>,
    runs: &'a Runs,
    run: &'a RunFolder,
    shown: &'a Shown,
    terminal: &'a Terminal,
}

impl Attached<'_> {
    async fn follow(mut self, from_now: bool, mut asker: Asker) -> Result<Exit, CliError> {
        let mut signals = Signals::new();
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        let mut show = !from_now;
        let mut owned = true;
        loop {
            let news = self.look(show, &mut asker)?;
            show = true;
            // The owner may have written more events between the last read and its end.
            if !news && !owned {
                self.shown.progress().clear();
                return self.ended();
            }
            owned = self.run.owner()?.is_some();
            let pause = if owned { LOOK } else { Duration::ZERO };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = ticks.tick() => self.shown.progress().tick(),
                () = signals.next() => {
                    self.detach();
                    return Ok(Exit::Cancelled);
                }
                () = asker.step(&self.waiting) => {}
            }
        }
    }

    /// Reads and shows new events. Returns whether there were any.
    fn look(&mut self, show: bool, asker: &mut Asker) -> Result<bool, CliError> {
        let told = self.tail.read().map_err(|error| {
            let path = self.run.path().join("events.jsonl");
            CliError::usage("store_io", format!("cannot read `{}`: {error}", path.display()))
                .exit(Exit::RunFailed)
        })?;
        for told in &told {
            self.waiting.event(&told.event);
            let mut before = None;
            // Child runs end and pause too.
            if *told.event.run == self.run.manifest().run {
                before = std::mem::replace(&mut self.end, End::from_event(&told.event));
            }
            asker.event(&told.event);
            if !show {
                continue;
            }
            if self.terminal.json {
                self.terminal.event(&told.line)
            } else {
                let mut progress = self.shown.progress();
                // The run was resumed after that end.
                if let Some(end) = before {
                    progress.note(&end.words());
                }
                progress.event(&told.event);
            }
        }
        Ok(!told.is_empty())
    }

    /// Reports the end of a run that no process executes any more.
    fn ended(&self) -> Result<Exit, CliError> {
        let terminal = self.terminal;
        let stopped = Stopped::in_folder(self.runs, Some(self.run.path()));
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
                terminal.say(&format!("{}: {reason}", terminal.paint(Paint::Bad, "error")));
            }
            let (paint, word) = verdict(end.status);
            terminal.result(&format!(
                "{}: {}",
                terminal.paint_result(paint, word),
                path.join(" -> ")
            ));
        }
        if let Some(command) = resume {
            terminal.say(&resume_line(terminal, &command));
        }
        Ok(end.exit)
    }

    fn detach(&self) {
        Terminal::hurry();
        self.shown.progress().interject("detached; the run goes on");
        let command = self.runs.command("attach", self.run.path(), &[]);
        let command = self.terminal.paint(Paint::Bold, &command);
        self.terminal
            .progress(&format!("follow it again with: {command}"));
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Answer, InterviewError>>>>;

/// Forwards the questions of the run to the person at the terminal.
struct Asker {
    folder: PathBuf,
    console: Arc<Console>,
    shown: Arc<Shown>,
    asking: Asking,
}

/// A pending response of the owner of the run.
type Said<T> = Pin<Box<dyn Future<Output = Result<Result<T, ControlError>, JoinError>>>>;

/// The state of the question loop.
enum Asking {
    /// There is no person to ask.
    Nobody,
    /// Idle; the owner is queried again at this time.
    Nothing(Instant),
    /// Waiting for the owner to return its open questions.
    Owner(Said<Vec<OpenQuestion>>),
    /// Waiting for the person to answer.
    Person(Box<OpenQuestion>, Answering),
    /// Waiting for the owner to accept an answer.
    Answer(Said<()>),
}

impl Asker {
    /// Performs the next step. Cancel safe: the future may be dropped and the method called again at any time.
    async fn step(&mut self, waiting: &Waiting) {
        self.asking = match &mut self.asking {
            Asking::Nobody => std::future::pending().await,
            Asking::Nothing(until) => {
                tokio::time::sleep_until(*until).await;
                let folder = self.folder.clone();
                Asking::Owner(Box::pin(beside(move || client(&folder)?.questions())))
            }
            Asking::Owner(asked) => match asked.await {
                Ok(Ok(questions)) => match questions.into_iter().next() {
                    Some(question) => self.put(question, waiting),
                    None => later(),
                },
                // The owner may be about to end, which the events will show.
                _ => later(),
            },
            Asking::Person(question, answering) => match answering.await {
                Ok(answer) => {
                    let (folder, question) = (self.folder.clone(), question.clone());
                    Asking::Answer(Box::pin(beside(move || {
                        client(&folder)?.answer_to(&question, answer)
                    })))
                }
                Err(error) => {
                    self.say(&error.to_string());
                    Asking::Nobody
                }
            },
            Asking::Answer(asked) => {
                if let Ok(Err(error)) = asked.await {
                    self.say(&error.to_string());
                }
                Asking::Nothing(Instant::now())
            }
        };
    }

    /// Asks the person a question.
    fn put(&self, question: OpenQuestion, waiting: &Waiting) -> Asking {
        let (console, mut asked) = (self.console.clone(), Question::clone(&question));
        let open = waiting.iter().find(|open| open.question.id == asked.id);
        if let Some(left) = open.and_then(|open| open.left(now())) {
            asked.timeout = Some(left);
        }
        Asking::Person(
            Box::new(question),
            Box::pin(async move { console.ask(asked).await }),
        )
    }

    /// Withdraws a question that was answered elsewhere, or is no longer needed.
    fn event(&mut self, event: &RunEvent) {
        let (EventKind::InterviewCompleted { node, .. }
        | EventKind::InterviewTimeout { node, .. }
        | EventKind::StageCancelled { node, .. }) = &event.kind
        else {
            return;
        };
        if matches!(&self.asking, Asking::Person(question, _) if **node == *question.node) {
            self.asking = Asking::Nothing(Instant::now());
        }
    }

    fn say(&self, text: &str) {
        self.shown
            .progress()
            .interject(&format!("    {}", one_line(text)));
    }
}

fn later() -> Asking {
    Asking::Nothing(Instant::now() + ASK)
}

fn client(folder: &Path) -> Result<ControlClient, ControlError> {
    ControlClient::open(folder)
}
