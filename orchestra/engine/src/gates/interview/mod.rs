//! The interface to people (Attractor 6). The engine itself knows no terminal, web page or chat.

mod auto;
mod callback;
mod queue;
mod recording;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use orchestra_core::{Answer, FailureCategory, Outcome, Question, Reply};

use crate::stage_end::{StageEnd, Suspension, SuspensionCause};

pub use auto::AutoApprove;
pub use callback::CallbackInterviewer;
pub use queue::QueueInterviewer;
pub use recording::{RecordedAnswer, Recording, RecordingInterviewer, ReplayInterviewer};

/// The number of refused answers in a row after which a question fails.
const REFUSED_ANSWERS: u32 = 3;

/// The error of a question without an answer.
///
/// ```
/// use orchestra_engine::InterviewError;
/// let nobody = InterviewError::unavailable("standard input is closed");
/// assert!(nobody.is_unavailable());
/// assert_eq!(nobody.to_string(), "nobody can be asked: standard input is closed");
/// let error = InterviewError::retryable("the chat does not answer").caused_by(std::fmt::Error);
/// assert_eq!(error.to_string(), "the chat does not answer");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterviewError {
    /// Nobody can be asked, for example because the input is closed or there is no terminal. The run pauses and can be
    /// resumed where somebody can be asked.
    #[error("nobody can be asked: {reason}")]
    #[non_exhaustive]
    Unavailable {
        /// The reason.
        reason: String,
    },
    /// The question or its answer failed for another reason. The stage fails.
    #[error("{reason}")]
    #[non_exhaustive]
    Failed {
        /// The error message.
        reason: String,
        /// The category, which says whether another attempt may help.
        category: FailureCategory,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl InterviewError {
    /// Creates an error because nobody can be asked.
    pub fn unavailable(reason: impl Into<String>) -> InterviewError {
        InterviewError::Unavailable {
            reason: reason.into(),
        }
    }

    /// Creates an error that may pass, such as a network error.
    pub fn retryable(reason: impl Into<String>) -> InterviewError {
        InterviewError::Failed {
            reason: reason.into(),
            category: FailureCategory::Retryable,
            source: None,
        }
    }

    /// Creates an error that another attempt will not fix.
    pub fn terminal(reason: impl Into<String>) -> InterviewError {
        InterviewError::Failed {
            reason: reason.into(),
            category: FailureCategory::Terminal,
            source: None,
        }
    }

    /// Sets the cause. Does not change an [`Unavailable`](InterviewError::Unavailable) error, which has no cause other
    /// than its reason.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> InterviewError {
        if let InterviewError::Failed { source, .. } = &mut self {
            *source = Some(cause.into());
        }
        self
    }

    /// Returns the category, which says whether another attempt may help.
    pub(crate) fn category(&self) -> FailureCategory {
        match self {
            InterviewError::Failed { category, .. } => *category,
            InterviewError::Unavailable { .. } => FailureCategory::Retryable,
        }
    }

    /// Returns the outcome of a stage whose question failed with this error.
    pub(crate) fn outcome(&self) -> Outcome {
        let mut outcome = Outcome::fail(self.to_string());
        outcome.failure_category = self.category();
        outcome
    }

    /// Returns `true` if nobody can be asked.
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, InterviewError::Unavailable { .. })
    }
}

/// The error of a stage's question ([`StageContext::ask`](crate::StageContext::ask)).
///
/// ```
/// use orchestra_engine::{AskError, InterviewError, StageEnd};
/// let error = AskError::from(InterviewError::terminal("the chat is closed"));
/// assert_eq!(error.to_string(), "the chat is closed");
/// let end = StageEnd::from(error);
/// assert_eq!(end.outcome().and_then(|outcome| outcome.failure_reason.as_deref()), Some("the chat is closed"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Nobody can be asked. The run is suspended, and the attempt is repeated when it is resumed.
    #[error("{0}")]
    Suspended(#[source] Suspension),
    /// The question or its answer failed. The stage fails.
    #[error("{0}")]
    Failed(#[source] InterviewError),
}

impl AskError {
    /// Creates an error that suspends the run until somebody can answer.
    pub(crate) fn waits(reason: impl Into<String>) -> AskError {
        AskError::Suspended(Suspension::new(SuspensionCause::WaitsForHuman, reason))
    }

    /// Converts the error of an interviewer that the engine called.
    pub(crate) fn of_interviewer(error: InterviewError) -> AskError {
        match error {
            InterviewError::Unavailable { reason } => AskError::waits(reason),
            failed => AskError::Failed(failed),
        }
    }
}

/// Converts the error of an interviewer that a handler called itself. It never suspends the run.
impl From<InterviewError> for AskError {
    fn from(error: InterviewError) -> AskError {
        AskError::Failed(error)
    }
}

impl From<AskError> for StageEnd {
    fn from(error: AskError) -> StageEnd {
        match error {
            AskError::Suspended(suspension) => suspension.into(),
            AskError::Failed(error) => error.outcome().into(),
        }
    }
}

/// A source of answers to the questions of human gates and handlers (Attractor 6.1).
///
/// Dropping a future withdraws its question, because it timed out, was answered elsewhere, or the run was cancelled.
/// Questions of parallel branches are asked concurrently. An interviewer that can only show one question at a time
/// makes the others wait.
///
/// ```
/// use orchestra_engine::{Answer, Engine, InterviewError, Interviewer, Question};
///
/// /// Approves what is cheap.
/// struct Thrifty;
/// impl Interviewer for Thrifty {
///     async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
///         Ok(if question.text.contains("cheap") { Answer::choice("Y") } else { Answer::choice("N") })
///     }
/// }
///
/// let engine = Engine::builder().interviewer(Thrifty).build()?;
/// # Ok::<(), orchestra_engine::BuildError>(())
/// ```
pub trait Interviewer: Send + Sync + 'static {
    /// Asks a question and waits for the answer. The interviewer does not handle time-outs: the engine withdraws the
    /// question when it times out.
    ///
    /// An answer that the question does not [accept](Question::accept) is refused, and the question is asked again; see
    /// [`ask_until_accepted`].
    ///
    /// # Errors
    /// Fails if nobody can be asked or the question failed.
    fn ask(&self, question: Question) -> impl Future<Output = Result<Answer, InterviewError>> + Send;

    /// Asks several questions and returns the answers in the same order. The default implementation asks one after the
    /// other.
    ///
    /// # Errors
    /// Fails with the error of the first question without an answer.
    fn ask_multiple(
        &self,
        questions: Vec<Question>,
    ) -> impl Future<Output = Result<Vec<Answer>, InterviewError>> + Send {
        async move {
            let mut answers = Vec::with_capacity(questions.len());
            for question in questions {
                answers.push(self.ask(question).await?);
            }
            Ok(answers)
        }
    }

    /// Shows a message that needs no answer. `stage` is the node that sends it. The default implementation does
    /// nothing.
    fn inform(&self, message: &str, stage: &str) -> impl Future<Output = ()> + Send {
        let _ = (message, stage);
        async {}
    }
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The object-safe form of [`Interviewer`].
trait AnyInterviewer: Send + Sync {
    fn ask_boxed(&self, question: Question) -> Boxed<'_, Result<Answer, InterviewError>>;
    fn ask_multiple_boxed(&self, questions: Vec<Question>) -> Boxed<'_, Result<Vec<Answer>, InterviewError>>;
    fn inform_boxed<'a>(&'a self, message: &'a str, stage: &'a str) -> Boxed<'a, ()>;
}

impl<I: Interviewer> AnyInterviewer for I {
    fn ask_boxed(&self, question: Question) -> Boxed<'_, Result<Answer, InterviewError>> {
        Box::pin(self.ask(question))
    }

    fn ask_multiple_boxed(&self, questions: Vec<Question>) -> Boxed<'_, Result<Vec<Answer>, InterviewError>> {
        Box::pin(self.ask_multiple(questions))
    }

    fn inform_boxed<'a>(&'a self, message: &'a str, stage: &'a str) -> Boxed<'a, ()> {
        Box::pin(self.inform(message, stage))
    }
}

/// An interviewer of any type, for a type that is chosen at run time. It is cheap to clone.
///
/// ```
/// use orchestra_engine::{AutoApprove, QueueInterviewer, SharedInterviewer};
/// fn who(approve: bool) -> SharedInterviewer {
///     if approve { SharedInterviewer::new(AutoApprove) } else { SharedInterviewer::new(QueueInterviewer::new()) }
/// }
/// assert_eq!(format!("{:?}", who(true)), "SharedInterviewer");
/// ```
#[derive(Clone)]
pub struct SharedInterviewer {
    inner: Arc<dyn AnyInterviewer>,
}

impl SharedInterviewer {
    /// Erases the type of an interviewer.
    pub fn new(interviewer: impl Interviewer) -> SharedInterviewer {
        SharedInterviewer {
            inner: Arc::new(interviewer),
        }
    }
}

impl Interviewer for SharedInterviewer {
    async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
        self.inner.ask_boxed(question).await
    }

    async fn ask_multiple(&self, questions: Vec<Question>) -> Result<Vec<Answer>, InterviewError> {
        self.inner.ask_multiple_boxed(questions).await
    }

    async fn inform(&self, message: &str, stage: &str) {
        self.inner.inform_boxed(message, stage).await;
    }
}

impl fmt::Debug for SharedInterviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedInterviewer")
    }
}

/// Asks until the question [accepts](Question::accept) the answer, is skipped, or times out (rule H2). Before asking
/// again, the function informs the interviewer of the reason.
///
/// ```
/// use orchestra_engine::{Question, QueueInterviewer, QuestionOption, ask_until_accepted};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let question = Question::select("Ship?", [QuestionOption::new("Y", "Yes"), QuestionOption::new("N", "No")]);
/// let hesitant = QueueInterviewer::new().answers(["maybe", "no"]);
/// let answer = ask_until_accepted(&hesitant, &question).await?;
/// assert_eq!(question.accept(&answer)?.options[0].key, "N");
/// # Ok(()) }
/// ```
///
/// # Errors
/// Fails if nobody can be asked, if the question failed, or if three answers in a row are not accepted.
pub async fn ask_until_accepted<I: Interviewer>(
    interviewer: &I,
    question: &Question,
) -> Result<Answer, InterviewError> {
    let mut count = 0;
    loop {
        let answer = interviewer.ask(question.clone()).await?;
        if !matches!(answer.reply, Reply::Chosen(_)) {
            return Ok(answer);
        }
        let Err(refused) = question.accept(&answer) else {
            return Ok(answer);
        };
        count += 1;
        if count == REFUSED_ANSWERS {
            let reason = format!("{count} answers in a row were refused; the last: {refused}");
            return Err(InterviewError::terminal(reason));
        }
        interviewer.inform(&refused.to_string(), &question.node).await;
    }
}
