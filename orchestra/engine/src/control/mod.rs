//! Answering, pausing and cancelling a run that another process owns.
//!
//! The owner of a run listens at a Unix domain socket, in a folder of its user that is outside of every run folder. A
//! process that connects is looked at before it is heard: it must be one of the same user or of the administrator, and
//! none that the owner has started, such as a tool of a stage. So what a run does can neither answer the run's questions
//! nor control it.
//!
//! One connection is one request: the owner greets, the client sends a line of JSON, the owner replies with one. A client
//! that gives up before it was greeted has sent nothing, so an owner that hung does not obey it later.
//!
//! A question is answered by its token, which the client asks for first. A token is drawn for one open question and ends
//! with it, so no answer can come before its question, or meet another one.

mod client;
#[cfg(unix)]
mod server;
#[cfg(unix)]
mod socket;

use std::path::PathBuf;

use orchestra_core::{Answer, Question};
use serde::{Deserialize, Serialize};

pub use client::{ControlClient, ControlError, OpenQuestion};
#[cfg(unix)]
pub(crate) use server::attend;
#[cfg(unix)]
pub(crate) use socket::SocketFile;

use crate::error::AnswerError;
use crate::question_token::QuestionToken;

/// The form of what both sides say.
const SCHEMA: &str = "orchestra.control/2";
/// The longest request in bytes; a free text may be long.
const MAX_REQUEST: usize = 1 << 20;
/// The longest reply in bytes: many questions with long texts.
const MAX_REPLY: u64 = 16 << 20;

/// What the owner of a run is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum ControlRequest {
    /// To take an answer to an open question (rule H2).
    Answer { question: QuestionToken, answer: Answer },
    /// To end the run.
    Cancel { reason: String },
    /// To stop the run so that it can be resumed.
    Pause { reason: String },
    /// To tell which questions are open.
    Questions,
}

/// What the owner of a run says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ControlReply {
    /// The process is heard.
    Ready,
    /// It is done, or on its way.
    Done,
    /// The open questions, oldest first.
    Questions(Vec<AskedQuestion>),
    /// The request is not obeyed.
    Refused(ControlRefusal),
}

/// An open question as the owner of a run tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct AskedQuestion {
    token: QuestionToken,
    question: Question,
}

/// A line of either side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Message<T> {
    schema: String,
    #[serde(flatten)]
    body: T,
}

impl<T: Serialize> Message<T> {
    /// Writes a line.
    fn line(body: T) -> Result<Vec<u8>, serde_json::Error> {
        let schema = SCHEMA.to_owned();
        let mut line = serde_json::to_vec(&Message { schema, body })?;
        line.push(b'\n');
        Ok(line)
    }
}

/// What every version of a message says.
#[derive(Deserialize)]
struct AnyMessage {
    schema: String,
}

/// A request that the owner of a run does not obey.
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
    /// The reason as one word: that of an [`AnswerError`], `stale_question`, `run_ended`, `control_own_process`,
    /// `control_other_user`, `control_unknown_process`, `control_schema`, `control_unreadable`, `control_busy` or
    /// `control_failed`.
    pub code: String,
    /// The reason, and what to do.
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

/// The folders in which the owners of runs listen.
pub(crate) fn control_folders() -> Vec<PathBuf> {
    #[cfg(unix)]
    return socket::folders(socket::user()).into();
    #[cfg(not(unix))]
    Vec::new()
}

/// The code of a refusal that is over in a moment.
const BUSY: &str = "control_busy";

/// Where the system has no Unix domain sockets, no other process reaches a run.
#[cfg(not(unix))]
pub(crate) fn attend(_: &std::sync::Arc<crate::run::Run>) {}

/// Where the system has no Unix domain sockets, there is none.
#[cfg(not(unix))]
pub(crate) struct SocketFile;

/// Reads a request; returns it as it is written again, with the answer that it brings. For `tests/fuzz`.
pub(crate) fn reread(bytes: &[u8]) -> Option<(Vec<u8>, Option<Answer>)> {
    let request: ControlRequest = serde_json::from_slice(bytes).ok()?;
    let written = serde_json::to_vec(&request).ok()?;
    Some(match request {
        ControlRequest::Answer { answer, .. } => (written, Some(answer)),
        _ => (written, None),
    })
}
