//! The control socket, by which other processes answer, pause and cancel a run.
//!
//! The owner of a run listens on a Unix domain socket in a folder of its user, outside of every run folder. It checks
//! every process that connects. The process must belong to the same user or to the administrator, and must not be a
//! descendant of the owner, such as a tool of a stage. Therefore nothing that a run executes can answer its questions
//! or control it.
//!
//! Each connection carries one request: the owner sends a greeting, the client sends a line of JSON, and the owner
//! replies with one line. A client that gives up before the greeting has sent nothing, so an owner that hung does not
//! execute the request later.
//!
//! A client first requests the open questions and their tokens, then answers a question by its token. A token is drawn
//! at random for one open question and expires with it, so no answer can precede its question or reach another one.

mod client;
#[cfg(unix)]
mod server;

use orchestra_core::{Answer, Question};
use serde::{Deserialize, Serialize};

pub use client::{ControlClient, ControlError, OpenQuestion};
#[cfg(unix)]
pub(crate) use server::attend;

use crate::gates::answer_error::AnswerError;
use crate::gates::question_token::QuestionToken;

/// The schema of all messages.
#[cfg(unix)]
const SCHEMA: &str = "orchestra.control/2";
/// Maximum length of a request in bytes. A free text may be long.
#[cfg(unix)]
const MAX_REQUEST: usize = 1 << 20;
/// Maximum length of a reply in bytes: many questions with long texts.
#[cfg(unix)]
const MAX_REPLY: u64 = 16 << 20;

/// A request to the owner of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum ControlRequest {
    /// Answer an open question (rule H2).
    Answer { question: QuestionToken, answer: Answer },
    /// End the run.
    Cancel { reason: String },
    /// Pause the run so that it can be resumed.
    Pause { reason: String },
    /// List the open questions.
    Questions,
}

/// A message of the owner of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ControlReply {
    /// The greeting: the owner accepts a request.
    Ready,
    /// The request is executed or in progress.
    Done,
    /// The open questions, oldest first.
    Questions(Vec<AskedQuestion>),
    /// The request is refused.
    Refused(ControlRefusal),
}

/// An open question with its token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct AskedQuestion {
    token: QuestionToken,
    question: Question,
}

/// A line of either side.
#[cfg(unix)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Message<T> {
    schema: String,
    #[serde(flatten)]
    body: T,
}

#[cfg(unix)]
impl<T: Serialize> Message<T> {
    /// Serializes a message as a line.
    fn line(body: T) -> Result<Vec<u8>, serde_json::Error> {
        let schema = SCHEMA.to_owned();
        let mut line = serde_json::to_vec(&Message { schema, body })?;
        line.push(b'\n');
        Ok(line)
    }
}

/// The fields that messages of all versions have.
#[cfg(unix)]
#[derive(Deserialize)]
struct AnyMessage {
    schema: String,
}

/// The refusal of a request by the owner of a run.
///
/// ```
/// use orchestra_engine::{AnswerError, ControlRefusal};
/// let late = AnswerError::NoQuestion { gate: "approve".to_owned(), open: Vec::new() };
/// let refusal = ControlRefusal::from(late);
/// assert_eq!((refusal.code.as_str(), refusal.to_string().as_str()), ("no_question", "no question of `approve` is open"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ControlRefusal {
    /// The machine-readable reason: the code of an [`AnswerError`], `stale_question`, `run_ended`,
    /// `control_own_process`, `control_other_user`, `control_unknown_process`, `control_schema`, `control_unreadable`,
    /// `control_busy` or `control_failed`.
    pub code: String,
    /// The reason as a message, and what to do.
    pub message: String,
}

impl ControlRefusal {
    fn new(code: impl Into<String>, message: impl Into<String>) -> ControlRefusal {
        ControlRefusal {
            code: code.into(),
            message: message.into(),
        }
    }
}

impl From<AnswerError> for ControlRefusal {
    fn from(error: AnswerError) -> ControlRefusal {
        ControlRefusal::new(error.code(), error.to_string())
    }
}

/// The code of a temporary refusal. The client retries.
#[cfg(unix)]
const BUSY: &str = "control_busy";

/// Does nothing: without Unix domain sockets no other process can reach a run.
#[cfg(not(unix))]
pub(crate) fn attend(_: &std::sync::Arc<crate::run::state::Run>) {}

/// Parses a request. Returns its serialized form and the answer that it contains. For `tests/fuzz`.
pub(crate) fn reread(bytes: &[u8]) -> Option<(Vec<u8>, Option<Answer>)> {
    let request: ControlRequest = serde_json::from_slice(bytes).ok()?;
    let written = serde_json::to_vec(&request).ok()?;
    Some(match request {
        ControlRequest::Answer { answer, .. } => (written, Some(answer)),
        _ => (written, None),
    })
}
