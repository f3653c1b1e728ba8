//! `attach`: follows a run that another process executes, and answers its questions.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{Answer, ControlClient, ControlError, OpenQuestion, RunFile, RunFolder, beside};

use super::follow::{FollowedRun, Follower, IfUnanswered};
use super::forward::{QuestionChannel, QuestionForwarder, Response};
use crate::args::AttachArgs;
use crate::error::{CliError, Exit};
use crate::questions::console::Console;
use crate::report::progress::SharedProgress;
use crate::runs::Runs;
use crate::runs::tail::{TailedEvent, Tails};
use crate::terminal::Terminal;

/// Interval between reads of new events.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn attach(args: &AttachArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let runs = Runs::new(&args.runs, program);
    let folder = runs.find(&args.run)?;
    let run = RunFolder::open(&folder)?;
    let runtime = crate::runs::runtime::runtime()?;
    terminal.detach();
    let shown = Arc::new(SharedProgress::new(*terminal));
    let forwarder = QuestionForwarder::new(
        Owner {
            folder: folder.clone(),
        },
        Console::new(*terminal, shown.clone()),
        is_attended(terminal),
        shown.clone(),
    );
    let run = OwnedRun {
        tail: Tails::new(&folder),
        runs,
        run,
    };
    let follower = Follower::new(run, IfUnanswered::Follow, &shown, terminal);
    let ended = runtime.block_on(follower.follow(args.tail, forwarder));
    // Do not wait for a pending request to the owner.
    runtime.shutdown_background();
    ended
}

/// Returns whether a person sees and answers what is asked.
pub(super) fn is_attended(terminal: &Terminal) -> bool {
    !terminal.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// A run in a folder of this machine.
struct OwnedRun {
    tail: Tails,
    runs: Runs,
    run: RunFolder,
}

impl FollowedRun for OwnedRun {
    fn id(&self) -> &str {
        &self.run.manifest().run
    }

    fn folder(&self) -> Option<&Path> {
        Some(self.run.path())
    }

    fn server(&self) -> Option<&str> {
        None
    }

    fn command(&self, verb: &str, arguments: &[&str]) -> String {
        self.runs.command(verb, self.run.path(), arguments)
    }

    async fn new_events(&mut self) -> Result<Vec<TailedEvent>, CliError> {
        self.tail.read().map_err(|error| {
            let path = RunFile::Events.path(self.run.path());
            CliError::usage("store_io", format!("cannot read `{}`: {error}", path.display()))
                .exit(Exit::RunFailed)
        })
    }

    async fn goes_on(&mut self, _: bool) -> Result<bool, CliError> {
        Ok(self.run.owner()?.is_some())
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn path(&self) -> Vec<String> {
        let path = self.run.checkpoint().ok().flatten();
        path.map(|checkpoint| checkpoint.completed_nodes.to_vec())
            .unwrap_or_default()
    }
}

/// The process that executes a run.
struct Owner {
    folder: PathBuf,
}

impl QuestionChannel for Owner {
    type Asked = OpenQuestion;

    fn questions(&self) -> Response<Vec<OpenQuestion>> {
        let folder = self.folder.clone();
        request(move || ControlClient::open(&folder)?.questions())
    }

    fn answer(&self, question: OpenQuestion, answer: Answer) -> Response<()> {
        let folder = self.folder.clone();
        request(move || ControlClient::open(&folder)?.answer_to(&question, answer))
    }
}

/// Performs a blocking request to the owner of a run.
fn request<T: Send + 'static>(
    request: impl FnOnce() -> Result<T, ControlError> + Send + 'static,
) -> Response<T> {
    Box::pin(async move {
        let asked = beside(request).await.map_err(|error| error.to_string())?;
        asked.map_err(|error| error.to_string())
    })
}
