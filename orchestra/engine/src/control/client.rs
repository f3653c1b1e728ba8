//! The side of who wants something of a run.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, process, thread};

use orchestra_core::{Answer, Question};
use orchestra_graph::format_duration;

use super::{
    ControlRefusal, ControlReply, ControlRequest, INBOX, REPLY, REQUEST, Replied, ReplyFile, RequestFile,
    SCHEMA, Sender, read_plain,
};
use crate::clock::{Clock, SystemClock};
use crate::id::random;
use crate::store::{StoreError, make_folder, replace};

/// How long a reply is waited for; the owner of a run looks five times a second.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much longer the reply to a request is waited for that was taken already.
const LAST_PATIENCE: Duration = Duration::from_secs(5);
/// How long is waited between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// Many questions with long texts.
const MAX_REPLY: u64 = 16 << 20;

/// Answers, pauses and cancels a run that another process owns. Each call waits for the owner's reply, so it is not for
/// the threads of an asynchronous runtime.
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
/// let client = ControlClient::of(&folder)?;
/// # tokio::task::spawn_blocking(move || {
/// assert_eq!(client.questions()?[0].node, "approve");
/// client.answer("approve", Answer::choice("Y"))?;
/// # Ok::<(), orchestra_engine::ControlError>(()) }).await??;
///
/// assert!(run.wait().await?.is_success());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct ControlClient {
    inbox: PathBuf,
    patience: Duration,
    clock: SystemClock,
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
    /// No process replied in time. The request was withdrawn, so it will not be obeyed later.
    #[error(
        "no process replied within {}: nobody seems to execute the run in `{}`; resume it first",
        format_duration(*.waited), .path.display()
    )]
    Unanswered {
        /// The run folder.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
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
    /// The system refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ControlError {
    /// The error as one word, for machines.
    pub fn code(&self) -> &str {
        match self {
            ControlError::NoRun { .. } => "control_no_run",
            ControlError::Unanswered { .. } => "control_unanswered",
            ControlError::Unclear { .. } => "control_unclear",
            ControlError::Refused(refusal) => &refusal.code,
            ControlError::BadReply { .. } => "control_bad_reply",
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
            inbox: path.join(INBOX),
            patience: PATIENCE,
            clock: SystemClock::new(),
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
    pub fn answer(&self, gate: impl Into<String>, answer: impl Into<Answer>) -> Result<(), ControlError> {
        let (gate, answer) = (gate.into(), answer.into());
        self.done(ControlRequest::Answer { gate, answer })
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
    /// Nobody replies.
    pub fn questions(&self) -> Result<Vec<Question>, ControlError> {
        match self.send(ControlRequest::Questions)? {
            ControlReply::Questions(questions) => Ok(questions),
            other => Err(self.unexpected(&other)),
        }
    }

    fn done(&self, request: ControlRequest) -> Result<(), ControlError> {
        match self.send(request)? {
            ControlReply::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn send(&self, request: ControlRequest) -> Result<ControlReply, ControlError> {
        let sent = self.clock.now();
        let id = format!("{:015}-{}-{:016x}", sent.as_millis(), process::id(), random());
        let path = |ending: &str| self.inbox.join(format!("{id}{ending}"));
        let (request_path, reply_path) = (path(REQUEST), path(REPLY));
        let file = RequestFile {
            schema: SCHEMA.to_owned(),
            id: id.clone(),
            request,
            from: Sender {
                pid: process::id(),
                user: std::env::var("USER").ok(),
            },
            sent,
            patience_ms: u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX),
        };
        let json = serde_json::to_vec(&file).map_err(|source| StoreError::Json {
            path: request_path.clone(),
            source,
        })?;
        make_folder(&self.inbox)?;
        let draft = self.inbox.join(format!(".{id}.tmp"));
        replace(&draft, &request_path, |out| out.write_all(&json))?;
        let replied = self.wait(&request_path, &reply_path);
        // Neither is of use to anybody now.
        let _ = (fs::remove_file(&request_path), fs::remove_file(&reply_path));
        let bytes = replied?;
        let reply: ReplyFile =
            serde_json::from_slice(&bytes).map_err(|error| self.bad_reply(error.to_string()))?;
        if reply.id != id {
            return Err(self.bad_reply(format!("it replies to `{}`", reply.id.escape_debug())));
        }
        match reply.reply {
            Replied::Reply(reply) => Ok(reply),
            Replied::Refused(refusal) => Err(refusal.into()),
        }
    }

    /// Waits for a reply; a request that nobody took is withdrawn.
    fn wait(&self, request: &Path, reply: &Path) -> Result<Vec<u8>, ControlError> {
        let began = self.clock.elapsed();
        let mut withdrawn = false;
        loop {
            match read_plain(reply, MAX_REPLY) {
                Ok(bytes) => return Ok(bytes),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(StoreError::io("read", reply, error).into()),
            }
            let waited = self.clock.elapsed().saturating_sub(began);
            if waited >= self.patience.saturating_add(LAST_PATIENCE) {
                return Err(ControlError::Unclear { path: self.run_dir() });
            }
            if waited >= self.patience && !withdrawn {
                match fs::remove_file(request) {
                    Ok(()) => {
                        let path = self.run_dir();
                        return Err(ControlError::Unanswered { path, waited });
                    }
                    Err(error) if error.kind() == ErrorKind::NotFound => withdrawn = true,
                    Err(error) => return Err(StoreError::io("remove", request, error).into()),
                }
            }
            thread::sleep(LOOK);
        }
    }

    fn run_dir(&self) -> PathBuf {
        self.inbox.parent().unwrap_or(&self.inbox).to_owned()
    }

    fn bad_reply(&self, reason: String) -> ControlError {
        let path = self.run_dir();
        ControlError::BadReply { path, reason }
    }

    fn unexpected(&self, reply: &ControlReply) -> ControlError {
        self.bad_reply(format!("{reply:?} is no reply to the request"))
    }
}
