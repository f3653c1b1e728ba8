//! A run that was started.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{Answer, Question};
use tokio::task::JoinHandle;

use crate::error::{AnswerError, RunError};
use crate::id::RunId;
use crate::question_token::QuestionRef;
use crate::result::RunResult;
use crate::run::Run;
use crate::sink::EventStream;

/// A run that was started. It goes on when the handle is dropped.
///
/// Until the handle is waited for or dropped, the run keeps its events, so that a subscriber loses none.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start_loaded(pipeline, ()).await?;
/// let mut events = run.events();
/// let result = run.wait().await?;
/// let mut names = Vec::new();
/// while let Some(event) = events.recv().await {
///     names.push(event.kind.name());
/// }
/// assert_eq!((names.first(), names.last()), (Some(&"PipelineStarted"), Some(&"PipelineCompleted")));
/// assert!(result.is_success());
/// # Ok(()) }
/// ```
pub struct RunHandle {
    run: Arc<Run>,
    task: Option<JoinHandle<Result<RunResult, RunError>>>,
    /// How long the run was going in other processes.
    before: Duration,
}

impl RunHandle {
    pub(crate) fn new(run: Arc<Run>, task: JoinHandle<Result<RunResult, RunError>>) -> RunHandle {
        RunHandle {
            run,
            task: Some(task),
            before: Duration::ZERO,
        }
    }

    /// The handle of a run that was going before.
    pub(crate) fn going_on(mut self, before: Duration) -> RunHandle {
        self.before = before;
        self
    }

    /// How long the run was going in other processes.
    pub(crate) fn before(&self) -> Duration {
        self.before
    }

    pub(crate) fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// The name of the run.
    pub fn id(&self) -> &RunId {
        &self.run.id
    }

    /// The run folder; `None` where nothing is kept.
    pub fn run_dir(&self) -> Option<&Path> {
        self.run.run_dir()
    }

    /// The events of the run from its first; each subscriber gets all of them.
    pub fn events(&self) -> EventStream {
        self.run.sink.subscribe()
    }

    /// Ends the run: what runs is dropped, tools are killed. The first reason stands.
    pub fn cancel(&self, reason: impl Into<String>) {
        self.run.stop.request(reason.into());
    }

    /// Stops the run where it is, so that it can go on later: what runs is told to stop, and runs again then. The first
    /// wish stands.
    pub fn pause(&self, reason: impl Into<String>) {
        self.run.stop.request_pause(reason.into());
    }

    /// Something that can cancel or pause the run, and answer its questions, while somebody else waits for it.
    pub fn canceller(&self) -> Canceller {
        Canceller {
            run: self.run.clone(),
        }
    }

    /// The questions that wait for an answer, oldest first; behind them those of runs that its stages have started.
    pub fn questions(&self) -> Vec<Question> {
        self.run.open_questions()
    }

    /// Answers a question, named by its id or by its gate (rule H2). Whoever answers first is heard.
    ///
    /// # Errors
    /// No such question is open, or the answer is none that it offers; then it stays open.
    pub fn answer(&self, gate: &str, answer: Answer) -> Result<(), AnswerError> {
        self.run.answer(QuestionRef::Name(gate), answer)
    }

    /// Waits for the end. A pipeline that fails is a result, not an error.
    ///
    /// # Errors
    /// The run folder could not be written, or the runtime was shut down.
    pub fn wait(mut self) -> impl Future<Output = Result<RunResult, RunError>> + Send + use<> {
        let task = self.task.take();
        let id = self.run.id.clone();
        drop(self);
        async move {
            let lost = |reason: String| RunError::Lost { run: id, reason };
            match task {
                Some(task) => match task.await {
                    Ok(ended) => ended,
                    Err(error) => Err(lost(error.to_string())),
                },
                None => Err(lost("it was waited for before".to_owned())),
            }
        }
    }
}

impl Drop for RunHandle {
    fn drop(&mut self) {
        self.run.sink.no_more_subscribers(self.run.store.is_some());
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle")
            .field("id", &self.run.id)
            .finish_non_exhaustive()
    }
}

/// Cancels or pauses a run, and answers its questions; cheap to clone.
///
/// ```
/// # use orchestra_engine::{Engine, RunStatus};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph slow { start -> wait; wait [shape=parallelogram, tool_command=\"sleep 60\"]; wait -> exit }";
/// # let pipeline = load(Source::new("slow.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start_loaded(pipeline, ()).await?;
/// let canceller = run.canceller();
/// tokio::spawn(async move { canceller.cancel("not needed any more") });
/// assert_eq!(run.wait().await?.status, RunStatus::Cancelled);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Canceller {
    run: Arc<Run>,
}

impl Canceller {
    /// Ends the run; the first reason stands. A run that has ended is not changed.
    pub fn cancel(&self, reason: impl Into<String>) {
        self.run.stop.request(reason.into());
    }

    /// Stops the run where it is, so that it can go on later; see [`RunHandle::pause`].
    pub fn pause(&self, reason: impl Into<String>) {
        self.run.stop.request_pause(reason.into());
    }

    /// The questions that wait for an answer, oldest first; behind them those of runs that its stages have started.
    pub fn questions(&self) -> Vec<Question> {
        self.run.open_questions()
    }

    /// Answers a question, named by its id or by its gate (rule H2). Whoever answers first is heard.
    ///
    /// # Errors
    /// No such question is open, or the answer is none that it offers; then it stays open.
    pub fn answer(&self, gate: &str, answer: Answer) -> Result<(), AnswerError> {
        self.run.answer(QuestionRef::Name(gate), answer)
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller")
            .field("run", &self.run.id)
            .finish_non_exhaustive()
    }
}
