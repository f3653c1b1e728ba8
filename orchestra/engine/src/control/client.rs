//! The client side of the control socket.

#[cfg(unix)]
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::ops::Deref;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orchestra_core::{Answer, Question};
use orchestra_graph::format_duration;

#[cfg(unix)]
use super::{AnyMessage, BUSY, MAX_REPLY, Message, SCHEMA};
use super::{AskedQuestion, ControlRefusal, ControlReply, ControlRequest};
#[cfg(unix)]
use crate::clock::{Clock, SystemClock};
use crate::gates::answer_error::AnswerError;
#[cfg(unix)]
use crate::socket;
use crate::store::{Owner, RunFolder, StoreError};
#[cfg(unix)]
use crate::store::{SystemFiles, host, present_owner};

/// Default time limit for a reply.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two attempts to reach the owner.
#[cfg(unix)]
const PAUSE: Duration = Duration::from_millis(5);

/// A client that answers, pauses and cancels a run of another process. Each call blocks until the owner replies, so do
/// not call it on a thread of an asynchronous runtime.
///
/// The owner accepts only processes of the user of the run or of the administrator, and none that it has started
/// itself. The tools of a run can neither answer nor control it. Both processes must be on the same machine. Windows is
/// not supported.
///
/// ```
/// use orchestra_engine::{Answer, ControlClient, Engine};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let folder = directory.path().join("run");
/// # let text = "digraph { start -> approve; approve [shape=hexagon]; approve -> exit [label=Yes] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start(pipeline, ()).run_dir(&folder).await?;
/// # while run.questions().is_empty() { tokio::task::yield_now().await }
///
/// // In another process:
/// # #[cfg(unix)]
/// # {
/// let client = ControlClient::open(&folder)?;
/// # tokio::task::spawn_blocking(move || {
/// assert_eq!(client.questions()?[0].node, "approve");
/// client.answer("approve", Answer::choice("Y"))?;
/// # Ok::<(), orchestra_engine::ControlError>(()) }).await??;
///
/// assert!(run.wait().await?.is_success());
/// # }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct ControlClient {
    run_dir: PathBuf,
    patience: Duration,
}

/// An open question of a run that another process owns. It can be [answered](ControlClient::answer_to) as long as this
/// question is open.
///
/// ```
/// use orchestra_engine::OpenQuestion;
/// fn show(open: &[OpenQuestion]) {
///     for question in open {
///         println!("{}: {}", question.node, question.text);
///     }
/// }
/// ```
#[derive(Clone, PartialEq)]
pub struct OpenQuestion(AskedQuestion);

impl Deref for OpenQuestion {
    type Target = Question;

    fn deref(&self) -> &Question {
        &self.0.question
    }
}

/// Omits the token, because anyone who has it can answer.
impl std::fmt::Debug for OpenQuestion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OpenQuestion").field(&self.0.question).finish()
    }
}

/// The error of a request to the owner of a run.
///
/// ```
/// use orchestra_engine::{ControlClient, ControlError};
/// let directory = tempfile::tempdir()?;
/// let error = ControlClient::open(directory.path()).unwrap_err();
/// assert!(matches!(error, ControlError::NoRun { .. }));
/// assert_eq!(error.code(), "control_no_run");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The folder is not a run folder.
    #[error("`{}` is not the folder of a run: it has no `manifest.json`", .path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// No process executes the run.
    #[error("no process executes the run in `{}`; resume it first", .path.display())]
    NotExecuted {
        /// The run folder.
        path: PathBuf,
    },
    /// The run is executed on another machine.
    #[error("the run in `{}` is executed by {owner}; ask on that machine", .path.display())]
    OtherHost {
        /// The run folder.
        path: PathBuf,
        /// The process that executes it.
        owner: Box<Owner>,
    },
    /// No process replied in time. No request was sent, so nothing will be executed later.
    #[error("the process that executes the run in `{}` did not reply within {}", .path.display(), format_duration(*.waited))]
    Unanswered {
        /// The run folder.
        path: PathBuf,
        /// The time that the client waited.
        waited: Duration,
    },
    /// A process that does not own the run listens on its socket. No request was sent to it.
    #[error("process {pid} listens for requests to the run in `{}`, but does not own it; end that process", .path.display())]
    Impostor {
        /// The run folder.
        path: PathBuf,
        /// The id of the process that listens.
        pid: u32,
    },
    /// A process received the request but did not report the result; it may have died.
    #[error("the process that executes the run in `{}` took the request but did not reply; see the run's status", .path.display())]
    Unclear {
        /// The run folder.
        path: PathBuf,
    },
    /// The owner of the run refused the request.
    #[error(transparent)]
    Refused(#[from] ControlRefusal),
    /// This version does not understand the reply.
    #[error("the reply of the process that executes the run in `{}` cannot be read: {reason}", .path.display())]
    BadReply {
        /// The run folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The system has no Unix domain sockets.
    #[error(
        "on this system no other process can reach a run; use the terminal of the process that executes it"
    )]
    Unsupported,
    /// An I/O error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ControlError {
    /// Returns the machine-readable error code.
    pub fn code(&self) -> &str {
        match self {
            ControlError::NoRun { .. } => "control_no_run",
            ControlError::NotExecuted { .. } => "control_not_executed",
            ControlError::OtherHost { .. } => "control_other_host",
            ControlError::Unanswered { .. } => "control_unanswered",
            ControlError::Impostor { .. } => "control_impostor",
            ControlError::Unclear { .. } => "control_unclear",
            ControlError::Refused(refusal) => &refusal.code,
            ControlError::BadReply { .. } => "control_bad_reply",
            ControlError::Unsupported => "control_unsupported",
            ControlError::Store(error) => error.code(),
        }
    }
}

impl ControlClient {
    /// Creates a client for the run in a folder.
    ///
    /// # Errors
    /// Fails if the folder is not a run folder.
    pub fn open(run_dir: &Path) -> Result<ControlClient, ControlError> {
        let path = std::path::absolute(run_dir).map_err(|error| StoreError::io("find", run_dir, error))?;
        if !RunFolder::is_one(&path) {
            return Err(ControlError::NoRun { path });
        }
        Ok(ControlClient {
            run_dir: path,
            patience: PATIENCE,
        })
    }

    /// Sets the time limit for a reply. The default is ten seconds.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> ControlClient {
        self.patience = patience;
        self
    }

    /// Answers the open question with this id or of this gate (rule H2). The first answer wins.
    ///
    /// # Errors
    /// Fails if no such question is open, if the question does not accept the answer, or if nobody replies.
    pub fn answer(&self, gate: impl AsRef<str>, answer: impl Into<Answer>) -> Result<(), ControlError> {
        let gate = gate.as_ref();
        let open = self.questions()?;
        let named = open.iter().find(|open| open.id == gate || open.node == gate);
        match named {
            Some(question) => self.answer_to(question, answer),
            None => Err(ControlError::Refused(ControlRefusal::from(
                AnswerError::NoQuestion {
                    gate: gate.to_owned(),
                    open: open.iter().map(|open| open.node.clone()).collect(),
                },
            ))),
        }
    }

    /// Answers exactly this question, and no later question of the same gate.
    ///
    /// # Errors
    /// Fails if the question is no longer open (`stale_question`), if it does not accept the answer, or if nobody
    /// replies.
    pub fn answer_to(&self, question: &OpenQuestion, answer: impl Into<Answer>) -> Result<(), ControlError> {
        self.done(ControlRequest::Answer {
            question: question.0.token.clone(),
            answer: answer.into(),
        })
    }

    /// Ends the run. If several reasons are given, the first is recorded.
    ///
    /// # Errors
    /// Fails if the owner refuses or nobody replies.
    pub fn cancel(&self, reason: impl Into<String>) -> Result<(), ControlError> {
        let reason = reason.into();
        self.done(ControlRequest::Cancel { reason })
    }

    /// Pauses the run so that it can be resumed.
    ///
    /// # Errors
    /// Fails if the owner refuses or nobody replies.
    pub fn pause(&self, reason: impl Into<String>) -> Result<(), ControlError> {
        let reason = reason.into();
        self.done(ControlRequest::Pause { reason })
    }

    /// Returns the open questions, oldest first.
    ///
    /// # Errors
    /// Fails if the owner refuses or nobody replies.
    pub fn questions(&self) -> Result<Vec<OpenQuestion>, ControlError> {
        match self.send(ControlRequest::Questions)? {
            ControlReply::Questions(questions) => Ok(questions.into_iter().map(OpenQuestion).collect()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn done(&self, request: ControlRequest) -> Result<(), ControlError> {
        match self.send(request)? {
            ControlReply::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn bad_reply(&self, reason: String) -> ControlError {
        let path = self.run_dir.clone();
        ControlError::BadReply { path, reason }
    }

    fn unexpected(&self, reply: &ControlReply) -> ControlError {
        let reply = match reply {
            ControlReply::Ready => "a greeting",
            ControlReply::Done => "`done`",
            ControlReply::Questions(_) => "a list of questions",
            ControlReply::Refused(_) => "a refusal",
        };
        self.bad_reply(format!("{reply} is not a reply to the request"))
    }

    #[cfg(not(unix))]
    fn send(&self, _: ControlRequest) -> Result<ControlReply, ControlError> {
        Err(ControlError::Unsupported)
    }
}

/// The result of one connection.
#[cfg(unix)]
enum Exchange {
    Replied(ControlReply),
    Failed(ControlError),
    /// Nobody listened, or the owner was busy. The request was not executed and can be repeated.
    Again(Option<ControlError>),
}

#[cfg(unix)]
impl ControlClient {
    fn send(&self, request: ControlRequest) -> Result<ControlReply, ControlError> {
        // It is safe to list the questions twice.
        let may_repeat = matches!(request, ControlRequest::Questions);
        let line = Message::line(request).map_err(|source| StoreError::Json {
            path: self.run_dir.clone(),
            source,
        })?;
        let clock = SystemClock::new();
        let began = clock.elapsed();
        loop {
            let waited = clock.elapsed().saturating_sub(began);
            let left = self.patience.saturating_sub(waited);
            let reason = match self.exchange(&line, left) {
                Exchange::Replied(ControlReply::Refused(refusal)) => return Err(refusal.into()),
                Exchange::Replied(reply) => return Ok(reply),
                Exchange::Failed(ControlError::Unclear { .. }) if may_repeat => None,
                Exchange::Failed(error) => return Err(error),
                Exchange::Again(reason) => reason,
            };
            let waited = clock.elapsed().saturating_sub(began);
            if waited >= self.patience {
                let path = self.run_dir.clone();
                return Err(reason.unwrap_or(ControlError::Unanswered { path, waited }));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Makes one attempt.
    fn exchange(&self, line: &[u8], left: Duration) -> Exchange {
        let path = || self.run_dir.clone();
        let owner = match present_owner(&SystemFiles, &self.run_dir) {
            Ok(Some(owner)) => owner,
            Ok(None) => return Exchange::Failed(ControlError::NotExecuted { path: path() }),
            Err(error) => return Exchange::Failed(error.into()),
        };
        if owner.host != host() {
            let owner = Box::new(owner);
            return Exchange::Failed(ControlError::OtherHost { path: path(), owner });
        }
        let mut stream = match socket::connect(&self.run_dir, left) {
            Ok(stream) => BufReader::new(stream),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Exchange::Failed(StoreError::io("reach the owner of", &self.run_dir, error).into());
            }
            Err(_) => return Exchange::Again(None),
        };
        if let Some(pid) = listener(stream.get_ref()).filter(|pid| *pid != owner.pid) {
            // The run may have just been taken over.
            return Exchange::Again(Some(ControlError::Impostor { path: path(), pid }));
        }
        match self.read(&mut stream) {
            Ok(ControlReply::Ready) => {}
            Ok(ControlReply::Refused(refusal)) if refusal.code == BUSY => return Exchange::Again(None),
            Ok(other) => return Exchange::Replied(other),
            Err(Unread::Broken) => return Exchange::Again(None),
            Err(Unread::Bad(error)) => return Exchange::Failed(error),
        }
        // From here on the owner may execute the request.
        let sent = stream.get_mut().write_all(line);
        match self.read(&mut stream) {
            Ok(ControlReply::Refused(refusal)) if refusal.code == BUSY => Exchange::Again(None),
            Ok(reply) => Exchange::Replied(reply),
            Err(Unread::Broken) if sent.is_err() => Exchange::Again(None),
            Err(Unread::Broken) => Exchange::Failed(ControlError::Unclear { path: path() }),
            Err(Unread::Bad(error)) => Exchange::Failed(error),
        }
    }

    fn read(&self, stream: &mut BufReader<UnixStream>) -> Result<ControlReply, Unread> {
        let mut line = Vec::new();
        let mut bounded = stream.take(MAX_REPLY + 1);
        let read = bounded.read_until(b'\n', &mut line);
        if read.is_err() || (line.last() != Some(&b'\n') && line.len() as u64 <= MAX_REPLY) {
            return Err(Unread::Broken);
        }
        let bad = |reason: String| Unread::Bad(self.bad_reply(reason));
        let any: AnyMessage = serde_json::from_slice(&line).map_err(|error| bad(error.to_string()))?;
        if any.schema != SCHEMA {
            return Err(bad(format!(
                "it has the form `{}`, and this program understands `{SCHEMA}`; use the same version of both",
                any.schema.escape_debug()
            )));
        }
        let message: Message<ControlReply> =
            serde_json::from_slice(&line).map_err(|error| bad(error.to_string()))?;
        Ok(message.body)
    }
}

/// The reason for which a reply could not be read.
#[cfg(unix)]
enum Unread {
    /// The connection ended, or nothing arrived in time.
    Broken,
    Bad(ControlError),
}

/// Returns the id of the process at the other end. Returns `None` if the system does not report it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn listener(stream: &UnixStream) -> Option<u32> {
    let credentials = rustix::net::sockopt::socket_peercred(stream).ok()?;
    u32::try_from(credentials.pid.as_raw_pid()).ok()
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn listener(_: &UnixStream) -> Option<u32> {
    None
}
