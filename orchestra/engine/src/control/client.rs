//! The side of who wants something of a run.

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
use super::{AnyMessage, BUSY, MAX_REPLY, Message, SCHEMA, socket};
use super::{AskedQuestion, ControlRefusal, ControlReply, ControlRequest};
#[cfg(unix)]
use crate::clock::{Clock, SystemClock};
use crate::error::AnswerError;
use crate::store::{Owner, StoreError};
#[cfg(unix)]
use crate::store::{SystemFiles, host, present_owner};

/// How long a reply is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long is waited before the owner is looked for again.
#[cfg(unix)]
const PAUSE: Duration = Duration::from_millis(5);

/// Answers, pauses and cancels a run that another process owns. Each call waits for the owner's reply, so it is not for
/// the threads of an asynchronous runtime.
///
/// Only processes of the run's user, or of the administrator, are heard, and none that the owner has started: the tools of
/// a run can neither answer nor control it. Both processes must be on the same machine; Windows has no such way.
///
/// ```
/// use orchestra_engine::{Answer, ControlClient, Engine};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let folder = place.path().join("run");
/// # let text = "digraph { start -> approve; approve [shape=hexagon]; approve -> exit [label=Yes] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start_loaded(pipeline, ()).run_dir(&folder).await?;
/// # while run.questions().is_empty() { tokio::task::yield_now().await }
///
/// // In another process:
/// # #[cfg(unix)]
/// # {
/// let client = ControlClient::of(&folder)?;
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

/// An open question of a run that another process owns. It can be [answered](ControlClient::answer_to) as long as just
/// this question is open.
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

/// The token is left out: whoever has it can answer.
impl std::fmt::Debug for OpenQuestion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OpenQuestion").field(&self.0.question).finish()
    }
}

/// A request that was not obeyed.
///
/// ```
/// use orchestra_engine::{ControlClient, ControlError};
/// let place = tempfile::tempdir()?;
/// let error = ControlClient::of(place.path()).unwrap_err();
/// assert!(matches!(error, ControlError::NoRun { .. }));
/// assert_eq!(error.code(), "control_no_run");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The folder is not that of a run.
    #[error("`{}` is not the folder of a run: it has no `manifest.json`", .path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// No process executes the run, so there is nobody to ask.
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
    /// No process replied in time. Nothing was asked, so nothing will be obeyed later.
    #[error("the process that executes the run in `{}` did not reply within {}", .path.display(), format_duration(*.waited))]
    Unanswered {
        /// The run folder.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// A process that does not own the run listens in its owner's place. Nothing was asked of it.
    #[error("process {pid} listens for requests to the run in `{}`, but does not own it; end that process", .path.display())]
    Impostor {
        /// The run folder.
        path: PathBuf,
        /// The process that listens.
        pid: u32,
    },
    /// A process took the request but did not say what came of it; it may have died.
    #[error("the process that executes the run in `{}` took the request but did not reply; see the run's status", .path.display())]
    Unclear {
        /// The run folder.
        path: PathBuf,
    },
    /// The owner of the run refuses.
    #[error(transparent)]
    Refused(#[from] ControlRefusal),
    /// The reply is none that this version understands.
    #[error("the reply of the process that executes the run in `{}` cannot be read: {reason}", .path.display())]
    BadReply {
        /// The run folder.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The system has no Unix domain sockets.
    #[error(
        "on this system no other process can reach a run; use the terminal of the process that executes it"
    )]
    Unsupported,
    /// The system refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ControlError {
    /// The error as one word, for machines.
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
    /// Speaks to the owner of the run in a folder.
    ///
    /// # Errors
    /// The folder is not that of a run.
    pub fn of(run_dir: &Path) -> Result<ControlClient, ControlError> {
        let path = std::path::absolute(run_dir).map_err(|error| StoreError::io("find", run_dir, error))?;
        if !path.join("manifest.json").is_file() {
            return Err(ControlError::NoRun { path });
        }
        Ok(ControlClient {
            run_dir: path,
            patience: PATIENCE,
        })
    }

    /// Waits for this long instead of ten seconds.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> ControlClient {
        self.patience = patience;
        self
    }

    /// Answers a question, named by its id or by its gate (rule H2). Whoever answers first is heard.
    ///
    /// # Errors
    /// The owner refuses, because no such question is open or because it does not take the answer, or nobody replies.
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

    /// Answers just this question, and none that the same gate asks later.
    ///
    /// # Errors
    /// The question is not open any more (`stale_question`), does not take the answer, or nobody replies.
    pub fn answer_to(&self, question: &OpenQuestion, answer: impl Into<Answer>) -> Result<(), ControlError> {
        self.done(ControlRequest::Answer {
            question: question.0.token.clone(),
            answer: answer.into(),
        })
    }

    /// Ends the run; the first reason stands.
    ///
    /// # Errors
    /// The owner refuses, or nobody replies.
    pub fn cancel(&self, reason: impl Into<String>) -> Result<(), ControlError> {
        let reason = reason.into();
        self.done(ControlRequest::Cancel { reason })
    }

    /// Stops the run so that it can be resumed.
    ///
    /// # Errors
    /// The owner refuses, or nobody replies.
    pub fn pause(&self, reason: impl Into<String>) -> Result<(), ControlError> {
        let reason = reason.into();
        self.done(ControlRequest::Pause { reason })
    }

    /// The questions that wait for an answer, oldest first.
    ///
    /// # Errors
    /// The owner refuses, or nobody replies.
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
        self.bad_reply(format!("{reply} is no reply to the request"))
    }

    #[cfg(not(unix))]
    fn send(&self, _: ControlRequest) -> Result<ControlReply, ControlError> {
        Err(ControlError::Unsupported)
    }
}

/// What came of one connection.
#[cfg(unix)]
enum Exchange {
    Replied(ControlReply),
    Failed(ControlError),
    /// Nobody was there, or nobody had the time; nothing was asked.
    Again(Option<ControlError>),
}

#[cfg(unix)]
impl ControlClient {
    fn send(&self, request: ControlRequest) -> Result<ControlReply, ControlError> {
        // To ask a second time changes nothing.
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

    /// Asks for one time.
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
            // It may have just been taken over.
            return Exchange::Again(Some(ControlError::Impostor { path: path(), pid }));
        }
        match self.read(&mut stream) {
            Ok(ControlReply::Ready) => {}
            Ok(ControlReply::Refused(refusal)) if refusal.code == BUSY => return Exchange::Again(None),
            Ok(other) => return Exchange::Replied(other),
            Err(Unread::Broken) => return Exchange::Again(None),
            Err(Unread::Bad(error)) => return Exchange::Failed(error),
        }
        // From here on it may be obeyed.
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

/// Why a reply could not be read.
#[cfg(unix)]
enum Unread {
    /// The connection ended, or nothing came in time.
    Broken,
    Bad(ControlError),
}

/// The process that listens at the other end, where the system says so.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn listener(stream: &UnixStream) -> Option<u32> {
    let credentials = rustix::net::sockopt::socket_peercred(stream).ok()?;
    u32::try_from(credentials.pid.as_raw_pid()).ok()
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn listener(_: &UnixStream) -> Option<u32> {
    None
}
