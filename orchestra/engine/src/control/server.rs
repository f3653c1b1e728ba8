//! The thread that serves the control requests of other processes for all runs of this process. It has a runtime and a
//! clock of its own, so that it works whatever the runtime of the runs does and whatever its clock shows.

use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use orchestra_core::AnsweredBy;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{
    AnyMessage, AskedQuestion, BUSY, ControlRefusal, ControlReply, ControlRequest, MAX_REQUEST, Message,
    SCHEMA,
};
use crate::event::EventKind;
use crate::gates::answer_error::AnswerError;
use crate::gates::question_token::QuestionRef;
use crate::ownership::OwnedRun as _;
use crate::process::{Peer, Relation};
use crate::run::state::Run;
use crate::socket::{Closed, SocketName, listen, sweep, user};

/// A run that ends sooner gets no socket.
const SHORT_RUN: Duration = Duration::from_millis(10);
/// The interval at which the server checks that the socket still has its name.
const UPKEEP: Duration = Duration::from_millis(500);
/// The time limit for a client to send a request, and for it to accept the reply.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause after an error of a listener.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of open connections of all runs. A further connection closes the oldest.
const CONNECTIONS: usize = 256;
/// Maximum number of refused processes that a run reports.
const MAX_REPORTED: u32 = 8;

/// A run and its folder.
type Attended = (Weak<Run>, PathBuf);

/// The channel to the thread. `None` if the thread is not running.
static THREAD: Mutex<Option<UnboundedSender<Attended>>> = Mutex::new(None);

/// Lets other processes send requests to a run until it ends.
pub(crate) fn attend(run: &Arc<Run>) {
    // The parent run answers for its child runs.
    if run.origin.depth > 0 {
        return;
    }
    let Some(folder) = run.run_dir() else {
        return;
    };
    // No other process can see an in-process folder.
    if run.settings.files.in_process() {
        return;
    }
    let mut attended = (Arc::downgrade(run), folder.to_owned());
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sender) = &*thread {
        match sender.send(attended) {
            Ok(()) => return,
            Err(returned) => attended = returned.0,
        }
    }
    let (sender, receiver) = unbounded_channel();
    let _ = sender.send(attended);
    // The thread creates the runtime, because a runtime must not be dropped inside another one.
    let (ready_sender, ready_receiver) = std::sync::mpsc::channel();
    let named = std::thread::Builder::new().name("orchestra-control".to_owned());
    let started = named.spawn(move || match runtime() {
        Ok(runtime) => {
            let _ = ready_sender.send(Ok(()));
            runtime.block_on(attend_all(receiver));
        }
        Err(error) => drop(ready_sender.send(Err(error))),
    });
    let started = started.and_then(|_| {
        ready_receiver
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("its thread is lost")))
    });
    match started {
        Ok(()) => *thread = Some(sender),
        Err(error) => unreachable_from_outside(run, &error),
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
}

/// Warns that other processes cannot reach the run, which continues.
fn unreachable_from_outside(run: &Run, error: &io::Error) {
    tracing::warn!("other processes cannot reach the run: {error}");
    run.emit(EventKind::PipelineWarning {
        code: "control_unavailable".to_owned(),
        message: format!("other processes can neither answer, pause nor cancel this run: {error}"),
    });
}

/// Serves all runs until none is left.
async fn attend_all(mut receiver: UnboundedReceiver<Attended>) {
    let open = Arc::new(Connections::default());
    let mut runs = JoinSet::new();
    let mut swept = false;
    loop {
        tokio::select! {
            attended = receiver.recv() => match attended {
                Some((run, folder)) => {
                    runs.spawn(attend_one(run, folder, open.clone()));
                }
                None => return,
            },
            _ = runs.join_next(), if !runs.is_empty() => {}
            // Sweep once, and only after the process has lived for a while.
            () = sleep(UPKEEP), if !swept => {
                sweep();
                swept = true;
            }
        }
        if runs.is_empty() {
            // Senders hold the lock, so no run can be added in between.
            let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
            if receiver.is_empty() {
                *thread = None;
                return;
            }
        }
    }
}

/// Serves one run until it ends or belongs to another process.
async fn attend_one(weak: Weak<Run>, folder: PathBuf, open: Arc<Connections>) {
    sleep(SHORT_RUN).await;
    let refused = Arc::new(Refused::default());
    let mut connections = JoinSet::new();
    'runs: while let Some((listener, name, mut closed)) = begin(&weak, &folder) {
        loop {
            tokio::select! {
                _ = &mut closed => break 'runs,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let (weak, open, refused) = (weak.clone(), open.clone(), refused.clone());
                        connections.spawn(async move { serve(stream, &weak, &open, &refused).await });
                    }
                    Err(error) => {
                        tracing::warn!("a process that asks is not heard: {error}");
                        sleep(PAUSE).await;
                    }
                },
                _ = connections.join_next(), if !connections.is_empty() => {}
                // The socket was removed, or its name now belongs to another process.
                () = sleep(UPKEEP) => if !name.is_there() {
                    break;
                },
            }
        }
    }
    // Clients that are connected when the run ends still get a reply.
    while connections.join_next().await.is_some() {}
}

/// Listens for a run. Returns `None` if this process does not own the run.
fn begin(run: &Weak<Run>, folder: &Path) -> Option<(UnixListener, SocketName, Closed)> {
    let run = run.upgrade()?;
    if run.sink.is_closed() || !run.is_owned() {
        return None;
    }
    let listening = listen(folder).and_then(|(listening, file)| {
        let listener = in_runtime(listening.listener)?;
        run.listens_at(file);
        Ok((listener, listening.name, listening.closed))
    });
    match listening {
        Ok(listening) => Some(listening),
        Err(error) => {
            unreachable_from_outside(&run, &error);
            None
        }
    }
}

fn in_runtime(listener: StdListener) -> io::Result<UnixListener> {
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// The open connections, oldest first.
#[derive(Default)]
struct Connections {
    open: Mutex<VecDeque<Arc<Notify>>>,
}

impl Connections {
    /// Adds a connection. Closes the oldest one if there are too many.
    fn enter(&self) -> Connected<'_> {
        let close = Arc::new(Notify::new());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            oldest.notify_one();
        }
        open.push_back(close.clone());
        drop(open);
        Connected { all: self, close }
    }
}

/// An open connection, which is removed from the list on drop.
struct Connected<'a> {
    all: &'a Connections,
    close: Arc<Notify>,
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        let mut open = self.all.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|other| !Arc::ptr_eq(other, &self.close));
    }
}

/// The number of refused processes of a run.
#[derive(Default)]
struct Refused {
    count: Mutex<u32>,
}

impl Refused {
    /// Emits a warning that a process of the run tried to control it.
    fn warn(&self, run: &Run, peer: &Peer) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.saturating_add(1);
        let reported = *count;
        drop(count);
        if reported > MAX_REPORTED {
            return;
        }
        let program = peer.program().unwrap_or_default();
        let program = run.redacted(&program).escape_debug().to_string();
        let more = if reported == MAX_REPORTED {
            "; further ones are not reported"
        } else {
            ""
        };
        run.emit(EventKind::PipelineWarning {
            code: OWN_PROCESS.to_owned(),
            message: format!(
                "process {} (`{program}`), which this run has started, tried to answer or control the run; it was \
                 refused{more}",
                peer.pid()
            ),
        });
    }
}

/// The refusal code for a process that the owner started.
const OWN_PROCESS: &str = "control_own_process";

/// Serves one connection.
async fn serve(stream: UnixStream, run: &Weak<Run>, open: &Connections, refused: &Refused) {
    let mut stream = BufReader::new(stream);
    let admitted = admit(stream.get_ref(), run, refused);
    let reply = match admitted {
        Err(refusal) => ControlReply::Refused(refusal),
        Ok(()) => {
            let connected = open.enter();
            tokio::select! {
                biased;
                asked = timeout(PATIENCE, ask(&mut stream)) => match asked {
                    Ok(Ok(request)) => obeyed(run, request),
                    Ok(Err(Unheard::Refused(refusal))) => ControlReply::Refused(refusal),
                    // Nobody is left to reply to.
                    Ok(Err(Unheard::Gone)) | Err(_) => return,
                },
                () = connected.close.notified() => ControlReply::Refused(ControlRefusal::new(
                    BUSY,
                    "too many processes ask the owner of the run at once; ask again",
                )),
            }
        }
    };
    let _ = timeout(PATIENCE, say(&mut stream, reply)).await;
}

/// Checks whether the process at the other end of a connection may send a request.
fn admit(stream: &UnixStream, run: &Weak<Run>, refused: &Refused) -> Result<(), ControlRefusal> {
    let unknown = |why: &str| {
        let message = format!("the process that asks is not heard: {why}");
        ControlRefusal::new("control_unknown_process", message)
    };
    let who = stream
        .peer_cred()
        .map_err(|error| unknown(&format!("the system does not say who it is: {error}")))?;
    if ![user(), 0].contains(&who.uid()) {
        let message = "the run belongs to another user, who alone can answer and control it";
        return Err(ControlRefusal::new("control_other_user", message));
    }
    let number = who.pid().filter(|pid| *pid > 0);
    let Some(number) = number else {
        return Err(unknown(
            "it lives in another process namespace, such as that of a container; ask from within that of the run's owner",
        ));
    };
    let peer = Peer::new(stream, number);
    match peer.relation() {
        Relation::Engine | Relation::Foreign => Ok(()),
        Relation::Gone => Err(unknown("it is gone")),
        Relation::Descendant => {
            if let Some(run) = run.upgrade() {
                refused.warn(&run, &peer);
            }
            let message = "this process was started by the process that executes the run, such as by a tool of a \
                           stage; only others can answer and control the run";
            Err(ControlRefusal::new(OWN_PROCESS, message))
        }
    }
}

/// The reason for a missing request.
enum Unheard {
    Refused(ControlRefusal),
    Gone,
}

/// Greets the client and reads its request.
async fn ask(stream: &mut BufReader<UnixStream>) -> Result<ControlRequest, Unheard> {
    say(stream, ControlReply::Ready)
        .await
        .map_err(|_| Unheard::Gone)?;
    let mut line = Vec::new();
    let mut bounded = stream.take(MAX_REQUEST as u64 + 1);
    match bounded.read_until(b'\n', &mut line).await {
        Ok(read) if read > 0 => {}
        _ => return Err(Unheard::Gone),
    }
    let unreadable = |why: &str| {
        let message = format!("the request cannot be read: {why}");
        Unheard::Refused(ControlRefusal::new("control_unreadable", message))
    };
    if line.last() != Some(&b'\n') {
        return Err(if line.len() > MAX_REQUEST {
            unreadable(&format!("it has more than {MAX_REQUEST} bytes"))
        } else {
            Unheard::Gone
        });
    }
    let any: AnyMessage = serde_json::from_slice(&line).map_err(|error| unreadable(&error.to_string()))?;
    if any.schema != SCHEMA {
        let message = format!(
            "the request has the form `{}`, and the process that executes the run understands `{SCHEMA}`; use the \
             same version of both",
            any.schema.escape_debug()
        );
        return Err(Unheard::Refused(ControlRefusal::new("control_schema", message)));
    }
    let message: Message<ControlRequest> =
        serde_json::from_slice(&line).map_err(|error| unreadable(&error.to_string()))?;
    Ok(message.body)
}

async fn say(stream: &mut BufReader<UnixStream>, reply: ControlReply) -> io::Result<()> {
    let line = Message::line(reply).map_err(io::Error::other)?;
    stream.get_mut().write_all(&line).await
}

fn obeyed(run: &Weak<Run>, request: ControlRequest) -> ControlReply {
    obey(run, request).unwrap_or_else(ControlReply::Refused)
}

/// Executes a request.
fn obey(run: &Weak<Run>, request: ControlRequest) -> Result<ControlReply, ControlRefusal> {
    let run = run.upgrade().filter(|run| !run.sink.is_closed());
    let Some(run) = run else {
        return Err(ControlRefusal::new("run_ended", "the run has ended"));
    };
    if !run.is_owned() {
        let message = "another process has taken the run over; ask again";
        return Err(ControlRefusal::new(BUSY, message));
    }
    match request {
        ControlRequest::Answer { question, mut answer } => {
            // Only the clock of the run decides about a time-out, and only its own interviewer approves automatically.
            if answer.by != AnsweredBy::Person {
                answer.by = AnsweredBy::Prepared;
            }
            let answered = run.answer(QuestionRef::Token(&question), answer);
            answered.map_err(|error| match error {
                AnswerError::NoQuestion { .. } => ControlRefusal::new(
                    "stale_question",
                    "the question is not open any more; somebody else has answered it, or its time was up",
                ),
                other => other.into(),
            })?;
        }
        ControlRequest::Cancel { reason } => run.stop.request(reason),
        ControlRequest::Pause { reason } => run.stop.request_pause(reason),
        ControlRequest::Questions => {
            let open = run
                .questions_with_tokens()
                .map_err(|error| ControlRefusal::new("control_failed", error.to_string()))?;
            let open = open.into_iter();
            let asked = open.map(|(question, token)| AskedQuestion { token, question });
            return Ok(ControlReply::Questions(asked.collect()));
        }
    }
    Ok(ControlReply::Done)
}
