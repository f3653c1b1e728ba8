//! Answering, pausing and cancelling a run that another process owns.
//!
//! Both sides meet in the folder `control-inbox` of the run: whoever wants something puts a request there and waits for
//! the reply. Who may write there may ask. A request is taken by removing it, so it is either obeyed once or, when its
//! sender has waited long enough and removes it first, never.

mod attendant;
mod client;
mod mailbox;

use std::io::{self, ErrorKind, Read};
use std::path::Path;

use orchestra_core::{Answer, Question};
use serde::{Deserialize, Serialize};

pub(crate) use attendant::attend;
pub use client::{ControlClient, ControlError};
pub use mailbox::{Mailbox, Request};

use crate::clock::Timestamp;
use crate::error::AnswerError;
use crate::handle::Canceller;
use crate::store::open_plain;

const SCHEMA: &str = "orchestra.control/1";
/// No node id has a dash.
const INBOX: &str = "control-inbox";
const REQUEST: &str = ".request.json";
const REPLY: &str = ".reply.json";

/// What is asked of a run that another process owns.
///
/// ```
/// use orchestra_engine::{Answer, ControlRequest};
/// let request = ControlRequest::Answer { gate: "approve".to_owned(), answer: Answer::choice("Y") };
/// let written = serde_json::to_value(&request)?;
/// assert_eq!((&written["do"], &written["gate"]), (&"answer".into(), &"approve".into()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ControlRequest {
    /// To take an answer to an open question (rule H2).
    Answer {
        /// The gate, or the id of the question.
        gate: String,
        /// The answer.
        answer: Answer,
    },
    /// To end.
    Cancel {
        /// Why.
        reason: String,
    },
    /// To stop so that the run can be resumed.
    Pause {
        /// Why.
        reason: String,
    },
    /// To tell which questions are open.
    Questions,
}

/// What the owner of a run replies, where it does not refuse.
///
/// ```
/// use orchestra_engine::ControlReply;
/// assert_eq!(serde_json::to_string(&ControlReply::Done)?, r#""done""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ControlReply {
    /// It is done, or on its way.
    Done,
    /// The open questions, oldest first.
    Questions(Vec<Question>),
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
    /// Why, as one word: that of an [`AnswerError`], `run_ended`, `cannot_pause`, `control_schema`,
    /// `control_unreadable` or `control_stale`.
    pub code: String,
    /// Why, and how to mend it.
    pub message: String,
}

impl ControlRefusal {
    /// A refusal.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> ControlRefusal {
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

/// What other processes may do with a run. A [`Canceller`] can be all of it.
///
/// ```
/// use orchestra_engine::{Answer, AnswerError, ControlRefusal, Controlled, Question};
/// /// A run that nobody can answer.
/// struct Deaf;
/// impl Controlled for Deaf {
///     fn questions(&self) -> Vec<Question> {
///         Vec::new()
///     }
///     fn answer(&self, gate: &str, _: Answer) -> Result<(), AnswerError> {
///         Err(AnswerError::NoQuestion { gate: gate.to_owned(), open: Vec::new() })
///     }
///     fn cancel(&self, _: String) -> Result<(), ControlRefusal> {
///         Ok(())
///     }
/// }
/// assert_eq!(Deaf.pause("lunch".to_owned()).unwrap_err().code, "cannot_pause");
/// ```
pub trait Controlled {
    /// The questions that wait for an answer, oldest first.
    fn questions(&self) -> Vec<Question>;

    /// Answers a question, named by its id or by its gate.
    ///
    /// # Errors
    /// No such question is open, or it does not take the answer.
    fn answer(&self, gate: &str, answer: Answer) -> Result<(), AnswerError>;

    /// Ends the run.
    ///
    /// # Errors
    /// It cannot be ended.
    fn cancel(&self, reason: String) -> Result<(), ControlRefusal>;

    /// Stops the run so that it can be resumed.
    ///
    /// # Errors
    /// It cannot be stopped so.
    fn pause(&self, reason: String) -> Result<(), ControlRefusal> {
        let _ = reason;
        let message = "this run cannot be paused from outside; cancel it, or stop its process";
        Err(ControlRefusal::new("cannot_pause", message))
    }

    /// Whether the run still belongs to this process; one that was taken over is not its to control (rule D5).
    fn is_owned(&self) -> bool {
        true
    }
}

impl Controlled for Canceller {
    fn questions(&self) -> Vec<Question> {
        Canceller::questions(self)
    }

    fn answer(&self, gate: &str, answer: Answer) -> Result<(), AnswerError> {
        Canceller::answer(self, gate, answer)
    }

    fn cancel(&self, reason: String) -> Result<(), ControlRefusal> {
        Canceller::cancel(self, reason);
        Ok(())
    }

    fn pause(&self, reason: String) -> Result<(), ControlRefusal> {
        Canceller::pause(self, reason);
        Ok(())
    }

    fn is_owned(&self) -> bool {
        Canceller::is_owned(self)
    }
}

/// Who asks.
///
/// ```
/// let from = orchestra_engine::Sender { pid: 4_242, user: Some("ada".to_owned()) };
/// assert_eq!(from.to_string(), "process 4242 of ada");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// The process.
    pub pid: u32,
    /// Its user, as the environment says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

impl std::fmt::Display for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.pid)?;
        match &self.user {
            Some(user) => write!(f, " of {}", user.escape_debug()),
            None => Ok(()),
        }
    }
}

/// A file of a request.
#[derive(Debug, Serialize, Deserialize)]
struct RequestFile {
    schema: String,
    id: String,
    request: ControlRequest,
    from: Sender,
    sent: Timestamp,
    /// How long the sender waits.
    patience_ms: u64,
}

/// What every version of a request's file says.
#[derive(Deserialize)]
struct AnyFile {
    schema: String,
}

/// A file of a reply.
#[derive(Debug, Serialize, Deserialize)]
struct ReplyFile {
    schema: String,
    id: String,
    #[serde(flatten)]
    reply: Replied,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Replied {
    Reply(ControlReply),
    Refused(ControlRefusal),
}

/// Reads a small plain file.
fn read_plain(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_plain(path)?;
    if !file.metadata()?.is_file() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// The request's id, where a file name is that of a request or of a reply. It leads nowhere and sorts by time.
fn id_of<'n>(name: &'n str, ending: &str) -> Option<&'n str> {
    let id = name.strip_suffix(ending)?;
    let sound = !id.is_empty()
        && id.len() <= 100
        && id
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    sound.then_some(id)
}
