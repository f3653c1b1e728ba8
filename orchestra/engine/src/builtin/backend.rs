//! The seam to language models (Attractor 4.5, 1.4): the engine knows no provider.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use orchestra_core::{FailureCategory, Outcome, Usage};
use orchestra_graph::Stage;

use crate::interview::{AskError, InterviewError};
use crate::stage::StageContext;
use crate::stage_end::Finished;

/// What a model stage asks of the backend (Attractor 4.5).
///
/// ```
/// use orchestra_engine::{BackendError, CodergenBackend, CodergenReply, CodergenRequest, Engine};
/// # use orchestra_graph::{Source, load};
/// struct Echo;
/// impl CodergenBackend for Echo {
///     async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
///         let model = request.stage.node().text("llm_model").unwrap_or("any");
///         Ok(format!("{model}: {}", request.prompt).into())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = r#"digraph { goal=autumn; start -> write -> exit
///     write [llm_model=small, prompt="On $goal."] }"#;
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let engine = Engine::builder().backend(Echo).build()?;
/// let result = engine.start_loaded(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.context.text("last_response"), "small: On autumn.");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CodergenRequest {
    /// The stage, with its attributes (`llm_model` and others) and the run's context.
    pub stage: StageContext,
    /// The prompt, with its variables expanded.
    pub prompt: String,
}

/// What a backend gives back: text or an outcome, and what it used.
///
/// ```
/// use orchestra_engine::{CodergenAnswer, CodergenReply, Usage};
/// let reply = CodergenReply::from("A poem.");
/// assert_eq!((reply.answer, reply.usage), (CodergenAnswer::Text("A poem.".to_owned()), None));
/// let used = Usage { input_tokens: 900, output_tokens: 100, cost_micros: 12_500 };
/// assert_eq!(CodergenReply::from("A poem.").used(used).usage, Some(used));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CodergenReply {
    /// The text or the outcome.
    pub answer: CodergenAnswer,
    /// What the answer took of models; `None` where the backend does not know. A backend that fails after all may tell
    /// by [`StageContext::record_usage`] what it used.
    pub usage: Option<Usage>,
    /// What the model said last, where the answer is an outcome; it is kept as the response of the stage.
    pub response: Option<String>,
    /// What a person decided in the conversation. A text that was approved is treated like any other, and the stage prefers
    /// the label `Approve` if it succeeds.
    pub verdict: Option<ChatVerdict>,
}

/// What a person decided in a conversation with a model.
///
/// The engine records it under `human.chat.verdict` (`approved`, `rejected`) and `human.chat.reason`, which no outcome can
/// write (rule K1).
///
/// ```
/// use orchestra_engine::{ChatVerdict, CodergenReply, Outcome};
/// let reply = CodergenReply::from(Outcome::success()).with_verdict(ChatVerdict::Approved);
/// assert_eq!(reply.verdict, Some(ChatVerdict::Approved));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatVerdict {
    /// The person approved.
    Approved,
    /// The person rejected.
    Rejected {
        /// Why; may be empty.
        reason: String,
    },
}

impl ChatVerdict {
    /// Records the verdict with the end of its stage.
    pub(crate) fn record(self, finished: Finished) -> Finished {
        match self {
            ChatVerdict::Approved => finished.record("human.chat.verdict", "approved"),
            ChatVerdict::Rejected { reason } => finished
                .record("human.chat.verdict", "rejected")
                .record("human.chat.reason", reason),
        }
    }
}

impl CodergenReply {
    /// Adds what the answer took of models.
    #[must_use]
    pub fn used(mut self, usage: Usage) -> CodergenReply {
        self.usage = Some(usage);
        self
    }

    /// Adds what the model said last to an answer that is an outcome.
    ///
    /// ```
    /// use orchestra_engine::{CodergenReply, Outcome};
    /// let reply = CodergenReply::from(Outcome::success()).with_response("All tests pass.");
    /// assert_eq!(reply.response.as_deref(), Some("All tests pass."));
    /// ```
    #[must_use]
    pub fn with_response(mut self, text: impl Into<String>) -> CodergenReply {
        self.response = Some(text.into());
        self
    }

    /// Adds what a person decided in the conversation.
    #[must_use]
    pub fn with_verdict(mut self, verdict: ChatVerdict) -> CodergenReply {
        self.verdict = Some(verdict);
        self
    }
}

/// What a backend answers.
///
/// ```
/// use orchestra_engine::{CodergenAnswer, CodergenReply, Outcome};
/// assert!(matches!(CodergenReply::from("A poem.").answer, CodergenAnswer::Text(_)));
/// assert!(matches!(CodergenReply::from(Outcome::fail("no idea")).answer, CodergenAnswer::Outcome(_)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum CodergenAnswer {
    /// The response of the model; the stage succeeds, unless it wrote a status file that says otherwise.
    Text(String),
    /// The outcome of the stage, as it is; its notes also say which of the node's `output_keys` it lacks.
    Outcome(Outcome),
}

impl From<CodergenAnswer> for CodergenReply {
    fn from(answer: CodergenAnswer) -> CodergenReply {
        CodergenReply {
            answer,
            usage: None,
            response: None,
            verdict: None,
        }
    }
}

impl From<String> for CodergenReply {
    fn from(text: String) -> CodergenReply {
        CodergenAnswer::Text(text).into()
    }
}

impl From<&str> for CodergenReply {
    fn from(text: &str) -> CodergenReply {
        text.to_owned().into()
    }
}

impl From<Outcome> for CodergenReply {
    fn from(outcome: Outcome) -> CodergenReply {
        CodergenAnswer::Outcome(outcome).into()
    }
}

/// A backend that could not answer (Attractor appendix D).
///
/// One that a [`Suspension`](crate::Suspension) caused suspends the run, whatever else it says.
///
/// ```
/// use orchestra_engine::{BackendError, FailureCategory};
/// let error = BackendError::terminal("the key is not accepted");
/// assert_eq!(error.category, FailureCategory::Terminal);
/// assert_eq!(error.to_string(), "the key is not accepted");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct BackendError {
    /// What went wrong.
    pub message: String,
    /// Whether asking again may help.
    pub category: FailureCategory,
    /// The failure as one word, for machines; the stage's `failure_code`.
    pub code: Option<String>,
    /// How long a server asks to be left alone (rule Y4).
    pub retry_after: Option<Duration>,
    /// What caused it.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl BackendError {
    /// An error that may pass: a rate limit, a network fault.
    pub fn retryable(message: impl Into<String>) -> BackendError {
        BackendError {
            message: message.into(),
            category: FailureCategory::Retryable,
            code: None,
            retry_after: None,
            source: None,
        }
    }

    /// An error that asking again will not mend: credentials, a bad request.
    pub fn terminal(message: impl Into<String>) -> BackendError {
        BackendError {
            category: FailureCategory::Terminal,
            ..BackendError::retryable(message)
        }
    }

    /// Sets the failure as one word, for machines.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> BackendError {
        self.code = Some(code.into());
        self
    }

    /// Sets how long a server asks to be left alone.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> BackendError {
        self.retry_after = Some(delay);
        self
    }

    /// Adds what caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> BackendError {
        self.source = Some(source.into());
        self
    }
}

/// A question to a person that got no answer; where nobody can be asked, the run is suspended.
impl From<AskError> for BackendError {
    fn from(error: AskError) -> BackendError {
        match error {
            AskError::Suspended(suspension) => {
                BackendError::terminal(suspension.to_string()).caused_by(suspension)
            }
            AskError::Failed(error) => {
                let category = error.category();
                let message = error.to_string();
                let source = match error {
                    InterviewError::Failed { source, .. } => source,
                    InterviewError::Unavailable { .. } => None,
                };
                BackendError {
                    category,
                    source,
                    ..BackendError::terminal(message)
                }
            }
        }
    }
}

/// What runs model stages. Dropping the future cancels the call.
///
/// ```
/// use orchestra_engine::{BackendError, CodergenBackend, CodergenReply, CodergenRequest};
/// struct Echo;
/// impl CodergenBackend for Echo {
///     async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
///         Ok(format!("You said: {}", request.prompt).into())
///     }
/// }
/// ```
pub trait CodergenBackend: Send + Sync + 'static {
    /// Runs one attempt of a model stage.
    ///
    /// # Errors
    /// The model gave no answer; the stage fails with the error's text.
    fn run(
        &self,
        request: CodergenRequest,
    ) -> impl Future<Output = Result<CodergenReply, BackendError>> + Send;

    /// Whether a model stage may change files: by tools that its model is given, or otherwise. Only a backend that is
    /// sure says no ([`Handler::may_write`](crate::Handler::may_write)).
    fn may_write(&self, stage: Stage<'_>) -> bool {
        let _ = stage;
        true
    }

    /// Returns the names of the environment variables that hold the keys of its models. No command of a tool stage sees them.
    fn key_variables(&self) -> Vec<String> {
        Vec::new()
    }
}

type BackendFuture<'a> = Pin<Box<dyn Future<Output = Result<CodergenReply, BackendError>> + Send + 'a>>;

/// A backend whose type is forgotten.
pub(crate) trait AnyBackend: Send + Sync {
    fn run_boxed(&self, request: CodergenRequest) -> BackendFuture<'_>;
    fn may_write_files(&self, stage: Stage<'_>) -> bool;
    fn keys(&self) -> Vec<String>;
}

impl<B: CodergenBackend> AnyBackend for B {
    fn run_boxed(&self, request: CodergenRequest) -> BackendFuture<'_> {
        Box::pin(self.run(request))
    }

    fn may_write_files(&self, stage: Stage<'_>) -> bool {
        self.may_write(stage)
    }

    fn keys(&self) -> Vec<String> {
        self.key_variables()
    }
}

/// A backend that calls no model and answers `[Simulated] Response for stage: ID`.
///
/// ```
/// use orchestra_engine::{Engine, SimulationBackend};
/// let engine = Engine::builder().backend(SimulationBackend).build()?;
/// # Ok::<(), orchestra_engine::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulationBackend;

impl SimulationBackend {
    pub(crate) fn response(node: &str) -> String {
        format!("[Simulated] Response for stage: {node}")
    }
}

impl CodergenBackend for SimulationBackend {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        Ok(SimulationBackend::response(request.stage.node().id()).into())
    }

    fn may_write(&self, _: Stage<'_>) -> bool {
        false
    }
}
