//! The seam to people (Attractor 6): the engine knows no terminal, no web page, no chat.

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

/// How many answers in a row may be none that the question offers.
const REFUSED_ANSWERS: u32 = 3;

/// Why a question has no answer.
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
    /// Nobody can be asked: the input is closed, there is no terminal. The run ends as paused, and can be resumed
    /// where somebody can be asked.
    #[error("nobody can be asked: {reason}")]
    #[non_exhaustive]
    Unavailable {
        /// Why.
        reason: String,
    },
    /// The question could not be put, or the answer not be had, for another reason. The stage fails.
    #[error("{reason}")]
    #[non_exhaustive]
    Failed {
        /// What went wrong.
        reason: String,
        /// Whether asking again may help.
        category: FailureCategory,
        /// What caused it.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl InterviewError {
    /// Nobody can be asked.
    pub fn unavailable(reason: impl Into<String>) -> InterviewError {
        InterviewError::Unavailable {
            reason: reason.into(),
        }
    }

    /// An error that may pass, such as a network fault.
    pub fn retryable(reason: impl Into<String>) -> InterviewError {
        InterviewError::Failed {
            reason: reason.into(),
            category: FailureCategory::Retryable,
            source: None,
        }
    }

    /// An error that asking again will not mend.
    pub fn terminal(reason: impl Into<String>) -> InterviewError {
        InterviewError::Failed {
            reason: reason.into(),
            category: FailureCategory::Terminal,
            source: None,
        }
    }

    /// Adds what caused it. An error that nobody can be asked has no other cause than its reason, and stays as it is.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> InterviewError {
        if let InterviewError::Failed { source, .. } = &mut self {
            *source = Some(cause.into());
        }
        self
    }

    /// Returns whether asking again may help.
    pub(crate) fn category(&self) -> FailureCategory {
        match self {
            InterviewError::Failed { category, .. } => *category,
            InterviewError::Unavailable { .. } => FailureCategory::Retryable,
        }
    }

    /// Returns the outcome of a stage that has no answer for this reason.
    pub(crate) fn outcome(&self) -> Outcome {
        let mut outcome = Outcome::fail(self.to_string());
        outcome.failure_category = self.category();
        outcome
    }

    /// Whether nobody can be asked.
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, InterviewError::Unavailable { .. })
    }
}

/// Why a stage has no answer to its question ([`StageContext::ask`](crate::StageContext::ask)).
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
    /// Nobody can be asked: the run is suspended, and the attempt made again when it is resumed.
    #[error("{0}")]
    Suspended(#[source] Suspension),
    /// The question could not be put, or the answer not be had; the stage fails.
    #[error("{0}")]
    Failed(#[source] InterviewError),
}

impl AskError {
    /// Suspends the run until somebody can answer.
    pub(crate) fn waits(reason: impl Into<String>) -> AskError {
        AskError::Suspended(Suspension::new(SuspensionCause::WaitsForHuman, reason))
    }

    /// Takes the error of an interviewer that the engine asked.
    pub(crate) fn of_interviewer(error: InterviewError) -> AskError {
        match error {
            InterviewError::Unavailable { reason } => AskError::waits(reason),
            failed => AskError::Failed(failed),
        }
    }
}

/// The error of an interviewer that a handler asked itself: it suspends nothing.
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

/// Who answers the questions of human gates and handlers (Attractor 6.1).
///
/// Dropping a future withdraws its question: the time is up, the answer came from elsewhere, or the run was cancelled.
/// Questions of parallel branches are asked at the same time; one that can show only one at once makes the others wait.
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
    /// Asks a question and waits for the answer. The time-out is not the interviewer's: the engine withdraws the
    /// question when the time is up.
    ///
    /// An answer that the question does not [accept](Question::accept) is refused, and the question asked again; see
    /// [`ask_until_accepted`].
    ///
    /// # Errors
    /// Nobody can be asked, or the question could not be put.
    fn ask(&self, question: Question) -> impl Future<Output = Result<Answer, InterviewError>> + Send;

    /// Asks several questions and gives the answers in their order. Unless said otherwise, one is asked after the
    /// other.
    ///
    /// # Errors
    /// The first question that has no answer ends it.
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

    /// Tells something that wants no answer; `stage` is the node that tells it. Unless said otherwise, nobody hears it.
    fn inform(&self, message: &str, stage: &str) -> impl Future<Output = ()> + Send {
        let _ = (message, stage);
        async {}
    }
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An interviewer whose type is forgotten.
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

/// An interviewer of any type, for where the type is only known when the program runs; cheap to clone.
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
    /// Forgets the type of an interviewer.
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

/// Asks until the answer is one that the question [accepts](Question::accept), or that there is none: skipped, or out
/// of time (rule H2). Before it asks again, the interviewer is told why.
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
/// Nobody can be asked, the question could not be put, or three answers in a row are none that it offers.
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
