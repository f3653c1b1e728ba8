//! The side of the process that executes a run.

use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use orchestra_core::AnsweredBy;

use super::attendant::LOOK;
use super::{
    AnyFile, ControlRefusal, ControlReply, ControlRequest, Controlled, INBOX, REPLY, REQUEST, Replied,
    ReplyFile, RequestFile, SCHEMA, Sender, id_of, read_plain,
};
use crate::clock::{Clock, SystemClock, Timestamp};
use crate::store::{StoreError, replace};

/// How often the folder is listed after its time changed: two changes within a tick of the file system's clock, of up to
/// two seconds, look like one.
const LISTS: u32 = 16;
/// A free text may be long.
const MAX_REQUEST: u64 = 1 << 20;
/// How many requests are taken at once, and how many names are read to find them.
const REQUESTS: usize = 64;
const NAMES: usize = 4_096;
/// What lies in the folder for longer than this belongs to nobody any more.
const LEFT: u64 = 60_000;

/// What other processes ask of a run that this one owns.
///
/// ```
/// use orchestra_engine::{ControlReply, ControlRequest, Mailbox};
/// let place = tempfile::tempdir()?;
/// let mut mailbox = Mailbox::new(place.path());
/// for asked in mailbox.poll() {
///     match asked.request {
///         ControlRequest::Questions => mailbox.reply(&asked.id, Ok(ControlReply::Questions(Vec::new())))?,
///         _ => mailbox.reply(&asked.id, Ok(ControlReply::Done))?,
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mailbox {
    inbox: PathBuf,
    clock: Arc<dyn Clock>,
    /// The folder's time when it was listed last.
    changed: Option<SystemTime>,
    /// How often it is listed yet, whatever its time says.
    lists: u32,
    /// When it was looked at last; before the first look what lies there may be old.
    looked: Option<Duration>,
    /// What cannot be taken away.
    stuck: HashSet<String>,
}

/// A request that was taken; it waits for a [reply](Mailbox::reply).
///
/// ```
/// use orchestra_engine::{ControlRequest, Request};
/// fn describe(asked: &Request) -> String {
///     match &asked.request {
///         ControlRequest::Cancel { reason } => format!("{} cancels: {reason}", asked.from),
///         _ => asked.from.to_string(),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// What names it.
    pub id: String,
    /// What is asked.
    pub request: ControlRequest,
    /// Who asks.
    pub from: Sender,
}

impl Mailbox {
    /// The mailbox of a run folder. Nothing is made or read before it is looked at.
    pub fn new(run_dir: &Path) -> Mailbox {
        Mailbox {
            inbox: run_dir.join(INBOX),
            clock: Arc::new(SystemClock::new()),
            changed: None,
            lists: 0,
            looked: None,
            stuck: HashSet::new(),
        }
    }

    /// Looks at another clock, for tests: who asks lives in the time of the system.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Mailbox {
        self.clock = clock;
        self
    }

    /// Takes what was asked, in the order in which it was sent. What cannot be obeyed has its reply already. Where
    /// nothing changed this asks the system for one time.
    pub fn poll(&mut self) -> Vec<Request> {
        let now = self.clock.elapsed();
        let Ok(found) = fs::symlink_metadata(&self.inbox) else {
            // What is put there after a look is new.
            self.looked = Some(now);
            return Vec::new();
        };
        let changed = found.modified().ok();
        if changed.is_none() || changed != self.changed {
            (self.changed, self.lists) = (changed, LISTS);
        }
        if !found.is_dir() || self.lists == 0 {
            self.looked = Some(now);
            return Vec::new();
        }
        self.lists -= 1;
        // A process that stood still for long finds what others gave up long ago.
        let last = self.looked.replace(now);
        let fresh = last.is_some_and(|last| now.saturating_sub(last) < LOOK * 10);
        self.take(fresh)
    }

    /// Replies to a request that was taken.
    ///
    /// # Errors
    /// The reply could not be written.
    pub fn reply(&self, id: &str, reply: Result<ControlReply, ControlRefusal>) -> Result<(), StoreError> {
        let path = self.inbox.join(format!("{id}{REPLY}"));
        if id_of(&format!("{id}{REPLY}"), REPLY).is_none() {
            return Err(StoreError::BadName { name: id.to_owned() });
        }
        let file = ReplyFile {
            schema: SCHEMA.to_owned(),
            id: id.to_owned(),
            reply: reply.map_or_else(Replied::Refused, Replied::Reply),
        };
        let json = serde_json::to_vec(&file).map_err(|source| StoreError::Json {
            path: path.clone(),
            source,
        })?;
        let draft = self.inbox.join(format!(".{id}.tmp"));
        replace(&draft, &path, |out| out.write_all(&json))
    }

    /// Does with a run what was asked since the last look.
    pub fn attend(&mut self, run: &impl Controlled) {
        if !run.is_owned() {
            return;
        }
        for Request { id, request, from } in self.poll() {
            tracing::info!(%id, %from, "another process asks: {}", described(&request));
            self.reply_or_log(&id, obey(run, request));
        }
    }

    /// Refuses what is still asked of a run that has ended.
    pub fn refuse_rest(&mut self) {
        for asked in self.poll() {
            let refusal = ControlRefusal::new("run_ended", "the run has ended");
            self.reply_or_log(&asked.id, Err(refusal));
        }
    }

    /// Takes the requests that lie in the folder; those that were sent before anybody looked may be too old.
    fn take(&mut self, fresh: bool) -> Vec<Request> {
        let mut names: Vec<String> = match fs::read_dir(&self.inbox) {
            Ok(entries) => entries
                .take(NAMES)
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .collect(),
            Err(error) => {
                tracing::warn!("cannot read `{}`: {error}", self.inbox.display());
                return Vec::new();
            }
        };
        if names.len() >= NAMES {
            self.lists = self.lists.max(1);
        }
        names.sort_unstable();
        if !fresh {
            self.tidy(&names);
        }
        let mut requests = Vec::new();
        let mut looked_at = 0;
        for name in &names {
            let Some(id) = id_of(name, REQUEST).filter(|_| !self.stuck.contains(name)) else {
                continue;
            };
            if looked_at == REQUESTS {
                self.lists = self.lists.max(1);
                break;
            }
            looked_at += 1;
            match self.open(id, name, fresh) {
                Ok(Some(request)) => requests.push(request),
                Ok(None) => {}
                Err(refusal) => self.reply_or_log(id, Err(refusal)),
            }
        }
        requests
    }

    /// Reads a request and takes it away; `None` where there is nobody to reply to.
    fn open(&mut self, id: &str, name: &str, fresh: bool) -> Result<Option<Request>, ControlRefusal> {
        let path = self.inbox.join(name);
        let unreadable = |why: &str| {
            tracing::warn!("the request in `{}` is ignored: {why}", path.display());
            ControlRefusal::new("control_unreadable", format!("the request cannot be read: {why}"))
        };
        let read = read_plain(&path, MAX_REQUEST);
        match fs::remove_file(&path) {
            Ok(()) => {}
            // Its sender waits no longer.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                unreadable(&format!("it cannot be taken away: {error}"));
                self.stuck.insert(name.to_owned());
                return Ok(None);
            }
        }
        let bytes = read.map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => unreadable(&format!("it has more than {MAX_REQUEST} bytes")),
            _ => unreadable("it is not a plain file"),
        })?;
        let any: AnyFile = serde_json::from_slice(&bytes).map_err(|error| unreadable(&error.to_string()))?;
        if any.schema != SCHEMA {
            let message = format!(
                "the request has the form `{}`, and the process that executes the run understands `{SCHEMA}`; use the \
                 same version of both",
                any.schema.escape_debug()
            );
            return Err(ControlRefusal::new("control_schema", message));
        }
        let file: RequestFile =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(&error.to_string()))?;
        if file.id != id {
            return Err(unreadable("it bears the name of another"));
        }
        let age = self.clock.now().as_millis().abs_diff(file.sent.as_millis());
        if !fresh && age > file.patience_ms {
            tracing::warn!("the request in `{}` was given up long ago", path.display());
            let message = "the request was sent before anybody could obey it; send it again";
            return Err(ControlRefusal::new("control_stale", message));
        }
        Ok(Some(Request {
            id: file.id,
            request: file.request,
            from: file.from,
        }))
    }

    /// Removes replies and drafts that belong to nobody any more.
    fn tidy(&self, names: &[String]) {
        let now = self.clock.now();
        for name in names {
            let ending = [REPLY, ".tmp"].into_iter().find(|ending| name.ends_with(ending));
            let id = ending.and_then(|ending| id_of(name.trim_start_matches('.'), ending));
            if id.is_some_and(|id| is_left(id, now)) {
                let _ = fs::remove_file(self.inbox.join(name));
            }
        }
    }

    fn reply_or_log(&self, id: &str, reply: Result<ControlReply, ControlRefusal>) {
        if let Err(error) = self.reply(id, reply) {
            tracing::warn!("another process gets no reply: {error}");
        }
    }
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox")
            .field("inbox", &self.inbox)
            .finish_non_exhaustive()
    }
}

fn obey(run: &impl Controlled, request: ControlRequest) -> Result<ControlReply, ControlRefusal> {
    match request {
        ControlRequest::Answer { gate, mut answer } => {
            // That the time was up is for the run's own clock to say.
            if answer.by == AnsweredBy::Default {
                answer.by = AnsweredBy::Prepared;
            }
            run.answer(&gate, answer)?;
        }
        ControlRequest::Cancel { reason } => run.cancel(reason)?,
        ControlRequest::Pause { reason } => run.pause(reason)?,
        ControlRequest::Questions => return Ok(ControlReply::Questions(run.questions())),
    }
    Ok(ControlReply::Done)
}

/// A request without the texts of people, for the log.
fn described(request: &ControlRequest) -> String {
    match request {
        ControlRequest::Answer { gate, .. } => format!("an answer to `{}`", gate.escape_debug()),
        ControlRequest::Cancel { .. } => "to cancel".to_owned(),
        ControlRequest::Pause { .. } => "to pause".to_owned(),
        ControlRequest::Questions => "for the open questions".to_owned(),
    }
}

/// Whether a request was made so long ago, or at such a strange time, that nobody waits for it.
fn is_left(id: &str, now: Timestamp) -> bool {
    let sent = id.split('-').next().and_then(|digits| digits.parse::<u64>().ok());
    sent.is_none_or(|sent| now.as_millis().abs_diff(sent) > LEFT)
}
