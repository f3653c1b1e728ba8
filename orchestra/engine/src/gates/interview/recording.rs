//! Interviewers that record and replay questions and answers (Attractor 6.4).

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orchestra_core::{Answer, AnsweredBy, Question};
use serde::{Deserialize, Serialize};

use super::{InterviewError, Interviewer};

/// The schema version of recordings.
const SCHEMA: &str = "orchestra.interviews/1";

/// A recorded question and its answer.
///
/// ```
/// use orchestra_engine::RecordedAnswer;
/// let text = r#"{"question": {"id": "", "node": "ask", "text": "Ready?", "kind": "yes_no"}, "answer": null}"#;
/// let withdrawn: RecordedAnswer = serde_json::from_str(text)?;
/// assert_eq!((withdrawn.question.node.as_str(), withdrawn.answer), ("ask", None));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedAnswer {
    /// The question.
    pub question: Question,
    /// The answer. `None` if the question was withdrawn, for example because it timed out.
    pub answer: Option<Answer>,
}

/// The questions of one or more runs, in the order in which they were answered or withdrawn.
///
/// ```
/// use orchestra_engine::{AutoApprove, Interviewer, Question, QuestionKind, Recording, RecordingInterviewer};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let recorder = RecordingInterviewer::new(AutoApprove);
/// recorder.ask(Question::new(QuestionKind::YesNo, "Ready?")).await?;
/// let text = serde_json::to_string(&recorder.recording())?;
/// let recording: Recording = serde_json::from_str(&text)?;
/// assert_eq!(recording.entries[0].question.text, "Ready?");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Recording {
    /// The schema version.
    schema: String,
    /// The questions and answers.
    pub entries: Vec<RecordedAnswer>,
}

/// An interviewer that records the questions and answers of another one (Attractor 6.4). Its clones share the
/// recording.
///
/// ```
/// use orchestra_engine::{AutoApprove, Engine, RecordingInterviewer};
/// # use orchestra_engine::{Interviewer, Question, QuestionKind};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let recorder = RecordingInterviewer::new(AutoApprove);
/// let engine = Engine::builder().interviewer(recorder.clone()).build()?;
/// # recorder.ask(Question::new(QuestionKind::YesNo, "Ready?")).await?;
/// // After a run of `engine`:
/// for entry in recorder.recording().entries {
///     println!("{}: {:?}", entry.question.text, entry.answer);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RecordingInterviewer<I> {
    inner: Arc<I>,
    entries: Arc<Mutex<Vec<RecordedAnswer>>>,
}

impl<I: Interviewer> RecordingInterviewer<I> {
    /// Creates an interviewer that records the questions of another one.
    pub fn new(interviewer: I) -> RecordingInterviewer<I> {
        RecordingInterviewer {
            inner: Arc::new(interviewer),
            entries: Arc::default(),
        }
    }

    /// Returns the recording so far.
    pub fn recording(&self) -> Recording {
        Recording {
            schema: SCHEMA.to_owned(),
            entries: lock(&self.entries).clone(),
        }
    }
}

impl<I> Clone for RecordingInterviewer<I> {
    fn clone(&self) -> RecordingInterviewer<I> {
        RecordingInterviewer {
            inner: self.inner.clone(),
            entries: self.entries.clone(),
        }
    }
}

impl<I: Interviewer> Interviewer for RecordingInterviewer<I> {
    async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
        let mut open = Open {
            entries: &self.entries,
            questions: vec![question.clone()],
        };
        let answered = self.inner.ask(question).await;
        open.close(answered.as_ref().map(std::slice::from_ref).ok());
        answered
    }

    async fn ask_multiple(&self, questions: Vec<Question>) -> Result<Vec<Answer>, InterviewError> {
        let mut open = Open {
            entries: &self.entries,
            questions: questions.clone(),
        };
        let answered = self.inner.ask_multiple(questions).await;
        open.close(answered.as_deref().ok());
        answered
    }

    async fn inform(&self, message: &str, stage: &str) {
        self.inner.inform(message, stage).await;
    }
}

/// Questions in progress. Dropping this value records the remaining questions as withdrawn.
struct Open<'a> {
    entries: &'a Mutex<Vec<RecordedAnswer>>,
    questions: Vec<Question>,
}

impl Open<'_> {
    /// Records the answers. Questions that failed are not recorded.
    fn close(&mut self, answers: Option<&[Answer]>) {
        let questions = std::mem::take(&mut self.questions);
        let pairs = questions.into_iter().zip(answers.unwrap_or_default());
        lock(self.entries).extend(pairs.map(|(question, answer)| RecordedAnswer {
            question,
            answer: Some(answer.clone()),
        }));
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let questions = std::mem::take(&mut self.questions);
        lock(self.entries).extend(questions.into_iter().map(|question| RecordedAnswer {
            question,
            answer: None,
        }));
    }
}

/// An interviewer that replays the answers of a recording. Each answer counts as prepared.
///
/// The questions of one node must come in the recorded order. Questions of different nodes may come in any order, as
/// those of parallel branches do. A question that was withdrawn in the recording stays unanswered until it is withdrawn
/// again.
///
/// ```
/// use orchestra_engine::{
///     AutoApprove, Interviewer, Question, QuestionKind, RecordingInterviewer, ReplayInterviewer,
/// };
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let recorder = RecordingInterviewer::new(AutoApprove);
/// let question = Question::new(QuestionKind::YesNo, "Ready?");
/// let answer = recorder.ask(question.clone()).await?;
///
/// let replay = ReplayInterviewer::new(recorder.recording())?;
/// let other = replay.ask(Question::new(QuestionKind::YesNo, "Done?")).await.unwrap_err();
/// assert_eq!(other.to_string(), "the recording does not fit: its text was `Ready?`, and is now `Done?`");
/// assert_eq!(replay.ask(question).await?.reply, answer.reply);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct ReplayInterviewer {
    nodes: Mutex<BTreeMap<String, VecDeque<RecordedAnswer>>>,
}

impl ReplayInterviewer {
    /// Creates an interviewer that replays a recording.
    ///
    /// # Errors
    /// Fails if the schema version of the recording is unknown.
    pub fn new(recording: Recording) -> Result<ReplayInterviewer, InterviewError> {
        if recording.schema != SCHEMA {
            let reason = format!(
                "the recording is of the form `{}`, but this version reads `{SCHEMA}`",
                recording.schema
            );
            return Err(InterviewError::terminal(reason));
        }
        let mut nodes: BTreeMap<String, VecDeque<RecordedAnswer>> = BTreeMap::new();
        for entry in recording.entries {
            nodes
                .entry(entry.question.node.clone())
                .or_default()
                .push_back(entry);
        }
        Ok(ReplayInterviewer {
            nodes: Mutex::new(nodes),
        })
    }

    /// Takes the recorded answer to a question.
    fn take(&self, question: &Question) -> Result<Option<Answer>, InterviewError> {
        let mut nodes = lock(&self.nodes);
        let left = nodes.get_mut(&question.node);
        let Some((left, next)) = left.and_then(|left| left.front().cloned().map(|next| (left, next))) else {
            let reason = format!("the recording has no answer left for `{}`", question.text);
            return Err(InterviewError::unavailable(reason));
        };
        if let Some((what, was, is)) = difference(&next.question, question) {
            let reason = format!("the recording does not fit: its {what} was `{was}`, and is now `{is}`");
            return Err(InterviewError::terminal(reason));
        }
        left.pop_front();
        Ok(next.answer)
    }
}

impl Interviewer for ReplayInterviewer {
    async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
        match self.take(&question)? {
            Some(answer) => Ok(answer.by(AnsweredBy::Prepared)),
            None if question.timeout.is_some() => pending().await,
            None => Err(InterviewError::unavailable(format!(
                "`{}` was withdrawn when it was recorded, and has no time-out now",
                question.text
            ))),
        }
    }
}

/// Returns the first difference between two questions: its name, the recorded value, the current value. The time-out
/// and the metadata may differ.
fn difference(was: &Question, is: &Question) -> Option<(&'static str, String, String)> {
    let options = |question: &Question| {
        let options = question.options.iter();
        let each = options.map(|option| format!("[{}] {}", option.key, option.label));
        each.collect::<Vec<_>>().join(", ")
    };
    let default = |question: &Question| question.default.clone().unwrap_or_default();
    let parts = [
        ("name", was.id.clone(), is.id.clone()),
        ("text", was.text.clone(), is.text.clone()),
        ("kind", format!("{:?}", was.kind), format!("{:?}", is.kind)),
        ("choice", options(was), options(is)),
        ("default", default(was), default(is)),
    ];
    parts.into_iter().find(|(_, was, is)| was != is)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
