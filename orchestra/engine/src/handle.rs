//! The handle of a run.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{Answer, Question};
use tokio::task::JoinHandle;

use crate::error::RunError;
use crate::gates::answer_error::AnswerError;
use crate::gates::question_token::QuestionRef;
use crate::id::RunId;
use crate::result::RunResult;
use crate::run::sink::EventStream;
use crate::run::state::Run;

/// The handle of a run that was started. The run continues when the handle is dropped.
///
/// The run buffers its events until the handle is waited for or dropped, so that a subscriber misses none.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start(pipeline, ()).await?;
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
    /// The time for which other processes executed the run.
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

    /// Sets the time for which other processes executed the run.
    pub(crate) fn resumed_after(mut self, before: Duration) -> RunHandle {
        self.before = before;
        self
    }

    /// Returns the time for which other processes executed the run.
    pub(crate) fn before(&self) -> Duration {
        self.before
    }

    pub(crate) fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &RunId {
        &self.run.id
    }

    /// Returns the run folder. Returns `None` if nothing is persisted.
    pub fn run_dir(&self) -> Option<&Path> {
        self.run.run_dir()
    }

    /// Returns a stream of the events of the run, starting with the first. Each subscriber receives all of them.
    pub fn events(&self) -> EventStream {
        self.run.sink.subscribe()
    }

    /// Cancels the run: running stages are dropped, and tools are killed. The first request wins.
    pub fn cancel(&self, reason: impl Into<String>) {
        self.run.stop.request(reason.into());
    }

    /// Pauses the run, so that it can be resumed later. Running stages are stopped, and run again after the resume. The
    /// first request wins.
    pub fn pause(&self, reason: impl Into<String>) {
        self.run.stop.request_pause(reason.into());
    }

    /// Returns a [`Canceller`] of the run, which can be used while another task waits for the run.
    pub fn canceller(&self) -> Canceller {
        Canceller {
            run: self.run.clone(),
        }
    }

    /// Returns the open questions, oldest first, followed by those of child runs.
    pub fn questions(&self) -> Vec<Question> {
        self.run.open_questions()
    }

    /// Answers a question, named by its id or by its gate (rule H2). The first answer wins.
    ///
    /// # Errors
    /// No such question is open, or it does not offer this answer. In the latter case it stays open.
    pub fn answer(&self, gate: &str, answer: Answer) -> Result<(), AnswerError> {
        self.run.answer(QuestionRef::Name(gate), answer)
    }

    /// Waits for the end of the run. The failure of a pipeline is a result, not an error.
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

/// A handle that cancels or pauses a run and answers its questions; cheap to clone.
///
/// ```
/// # use orchestra_engine::{Engine, RunStatus};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph slow { start -> wait; wait [shape=parallelogram, tool_command=\"sleep 60\"]; wait -> exit }";
/// # let pipeline = load(Source::new("slow.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start(pipeline, ()).await?;
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
    /// Cancels the run. The first request wins. A run that has ended is not changed.
    pub fn cancel(&self, reason: impl Into<String>) {
        self.run.stop.request(reason.into());
    }

    /// Pauses the run, so that it can be resumed later; see [`RunHandle::pause`].
    pub fn pause(&self, reason: impl Into<String>) {
        self.run.stop.request_pause(reason.into());
    }

    /// Returns the open questions, oldest first, followed by those of child runs.
    pub fn questions(&self) -> Vec<Question> {
        self.run.open_questions()
    }

    /// Answers a question, named by its id or by its gate (rule H2). The first answer wins.
    ///
    /// # Errors
    /// No such question is open, or it does not offer this answer. In the latter case it stays open.
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
