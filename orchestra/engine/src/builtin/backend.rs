//! The interface to language models (Attractor 4.5, 1.4). The engine itself knows no provider.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use orchestra_core::{FailureCategory, Outcome, Usage};
use orchestra_graph::Stage;

use crate::budget::OverBudget;
use crate::gates::interview::{AskError, InterviewError};
use crate::run::stage::StageContext;
use crate::stage_end::Finished;

/// The request of a model stage to the backend (Attractor 4.5).
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
/// let result = engine.start(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.context.text("last_response"), "small: On autumn.");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CodergenRequest {
    /// The stage, with its attributes (such as `llm_model`) and the context of the run.
    pub stage: StageContext,
    /// The prompt, with its variables expanded.
    pub prompt: String,
}

/// The reply of a backend: text or an outcome, and its usage.
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
    /// The model usage of the answer. `None` if the backend does not know it. A backend that fails can report its usage
    /// by [`StageContext::record_usage`].
    pub usage: Option<Usage>,
    /// The last text of the model if the answer is an outcome. It is stored as the response of the stage.
    pub response: Option<String>,
    /// The decision of a person in the conversation. An approved text is treated like any other text, and the stage
    /// prefers the label `Approve` if it succeeds.
    pub verdict: Option<ChatVerdict>,
}

/// The decision of a person in a conversation with a model.
///
/// The engine records it under `human.chat.verdict` (`approved`, `rejected`) and `human.chat.reason`, which no outcome
/// can write (rule K1).
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
        /// The reason; may be empty.
        reason: String,
    },
}

impl ChatVerdict {
    /// Records the verdict in the end of its stage.
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
    /// Sets the model usage of the answer.
    #[must_use]
    pub fn used(mut self, usage: Usage) -> CodergenReply {
        self.usage = Some(usage);
        self
    }

    /// Sets the last text of the model, for an answer that is an outcome.
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

    /// Sets the decision of a person in the conversation.
    #[must_use]
    pub fn with_verdict(mut self, verdict: ChatVerdict) -> CodergenReply {
        self.verdict = Some(verdict);
        self
    }
}

/// The answer of a backend.
///
/// ```
/// use orchestra_engine::{CodergenAnswer, CodergenReply, Outcome};
/// assert!(matches!(CodergenReply::from("A poem.").answer, CodergenAnswer::Text(_)));
/// assert!(matches!(CodergenReply::from(Outcome::fail("no idea")).answer, CodergenAnswer::Outcome(_)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum CodergenAnswer {
    /// The response of the model. The stage succeeds, unless it wrote a status file with another outcome.
    Text(String),
    /// The outcome of the stage. The engine only adds missing `output_keys` of the node to its notes, and validates the
    /// values of a success by the `output_schema` of the node.
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

/// The failure code of a stage whose next call might exceed the budget of its node.
const OVER_NODE_BUDGET: &str = "over_node_budget";

/// The error of a backend that could not answer (Attractor appendix D).
///
/// An error that a [`Suspension`](crate::Suspension) caused suspends the run, whatever its other fields are.
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
    /// The error message.
    pub message: String,
    /// The category, which says whether another attempt may help.
    pub category: FailureCategory,
    /// The machine-readable error code, which becomes the `failure_code` of the stage.
    pub code: Option<String>,
    /// The time that the server asks clients to wait before the next request (rule Y4).
    pub retry_after: Option<Duration>,
    /// The cause.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl BackendError {
    /// Creates an error that may pass, such as a rate limit or a network error.
    pub fn retryable(message: impl Into<String>) -> BackendError {
        BackendError {
            message: message.into(),
            category: FailureCategory::Retryable,
            code: None,
            retry_after: None,
            source: None,
        }
    }

    /// Creates an error that another attempt will not fix, such as wrong credentials or an invalid request.
    pub fn terminal(message: impl Into<String>) -> BackendError {
        BackendError {
            category: FailureCategory::Terminal,
            ..BackendError::retryable(message)
        }
    }

    /// Sets the machine-readable error code.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> BackendError {
        self.code = Some(code.into());
        self
    }

    /// Sets the time to wait before the next request.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> BackendError {
        self.retry_after = Some(delay);
        self
    }

    /// Sets the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> BackendError {
        self.source = Some(source.into());
        self
    }
}

/// Converts the error of a question to a person. If nobody can be asked, the run is suspended.
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

/// Converts the error. The budget of a node fails the stage, the budget of the run suspends the run.
impl From<OverBudget> for BackendError {
    fn from(over: OverBudget) -> BackendError {
        let error = BackendError::terminal(over.to_string());
        match over.suspension() {
            Some(suspension) => error.caused_by(suspension.clone()),
            None => error.code(OVER_NODE_BUDGET),
        }
    }
}

/// A backend that runs model stages. Dropping the future cancels the call.
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
    /// Fails if the model gave no answer. The stage fails with the text of the error.
    fn run(
        &self,
        request: CodergenRequest,
    ) -> impl Future<Output = Result<CodergenReply, BackendError>> + Send;

    /// Returns whether a model stage may change files, for example by the tools of its model. Return `false` only if it
    /// certainly does not ([`Handler::may_write`](crate::Handler::may_write)).
    fn may_write(&self, stage: Stage<'_>) -> bool {
        let _ = stage;
        true
    }

    /// Returns the names of the environment variables that hold the keys of its models. No command of a tool stage sees
    /// them.
    fn key_variables(&self) -> Vec<String> {
        Vec::new()
    }
}

type BackendFuture<'a> = Pin<Box<dyn Future<Output = Result<CodergenReply, BackendError>> + Send + 'a>>;

/// The object-safe form of [`CodergenBackend`].
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
