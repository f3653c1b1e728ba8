//! The thread of one command, on Unix: it starts the command, follows it, ends it and cleans up.
//!
//! The thread that starts the leader lives until the leader has ended. That is what makes the
//! parent-death signal safe to use: it is sent when the starting thread ends, not the process.

use std::io::{self, PipeReader, PipeWriter, Read, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::capture::CHUNK;
use super::descendants::Descendants;
use super::handle::Handle;
use super::mark::Engine;
use super::reaper::Running;
use super::unix::{self, Wait};
use super::{Exit, MARK_VARIABLE, OutputStream, ProcessError, ShellCommand, Streams, ToolOutput, watcher};
use crate::ownership::RunOwnership;

/// How long the result waits for the leader to die of KILL, then for the others.
const DEATH: Duration = Duration::from_millis(300);
/// How long the result waits for the end of the output once all are dead.
const DRAIN: Duration = Duration::from_millis(200);
/// How long the thread goes on killing, after the result, what would not die in time.
const LINGER: Duration = Duration::from_secs(30);
/// How often it is asked, in the grace period, whether all have gone.
const LOOK: Duration = Duration::from_millis(25);
/// How often a system without process handles is asked whether the leader has ended.
const TICK: Duration = Duration::from_millis(10);
/// The longest wait when there is nothing to wait for but events.
const IDLE: Duration = Duration::from_secs(3600);

/// Runs a command on a thread of its own and waits for its result.
pub(super) async fn run(mut command: ShellCommand) -> Result<ToolOutput, ProcessError> {
    let cancel = command.cancel.take().unwrap_or_default();
    // Closing `stop` ends the command: by hand when cancelled, by itself when this future is dropped.
    let (stopped, stop) = io::pipe().map_err(ShellCommand::spawn_fault)?;
    let (answer, mut result) = oneshot::channel();
    std::thread::Builder::new()
        .name("orchestra-tool".to_owned())
        .spawn(move || supervise(command, stopped, answer))
        .map_err(ShellCommand::spawn_fault)?;
    let result = tokio::select! {
        biased;
        result = &mut result => result,
        () = cancel.cancelled() => {
            drop(stop);
            result.await
        }
    };
    result.unwrap_or(Err(ProcessError::ThreadLost))
}

fn supervise(
    command: ShellCommand,
    stopped: PipeReader,
    answer: oneshot::Sender<Result<ToolOutput, ProcessError>>,
) {
    let mut tool = match Tool::start(command, stopped) {
        Ok(tool) => tool,
        Err(fault) => return drop(answer.send(Err(fault))),
    };
    let ending = tool.follow();
    let clean = tool.leader.destroy();
    tool.drain();
    let Tool {
        mut leader,
        streams,
        started,
        ..
    } = tool;
    let dead = leader.has_ended().unwrap_or(true);
    // Not reaped before it is dead: that would block, and the result is due now.
    let status = dead.then(|| leader.reap());
    let exit = match (ending, status) {
        (Ok(Some(exit)), _) => Ok(exit),
        (Ok(None), Some(status)) => status.map(Exit::of),
        (Ok(None), None) => Err(io::ErrorKind::TimedOut.into()),
        (Err(fault), _) => Err(fault),
    };
    // Nobody listens if the future was dropped.
    drop(answer.send(match exit {
        Ok(exit) => Ok(streams.finish(exit, started.elapsed())),
        Err(source) => Err(ProcessError::Wait { source }),
    }));
    leader.linger(clean);
}

/// A running command.
struct Tool {
    leader: Leader,
    input: Option<Input>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    stopped: Option<PipeReader>,
    streams: Streams,
    buffer: Vec<u8>,
    started: Instant,
    deadline: Option<Instant>,
    grace: Duration,
}

impl Tool {
    fn start(mut command: ShellCommand, stopped: PipeReader) -> Result<Self, ProcessError> {
        command.permitted()?;
        let streams = Streams::create(&mut command)?;
        // First the watcher: there is no moment in which the command runs unguarded.
        watcher::ensure().map_err(ShellCommand::spawn_fault)?;
        let started = Instant::now();
        // A process that was frozen may have lost the run at any of these steps.
        let leader = Leader::start(command.to_std(), command.run.as_ref(), unix::KILL);
        let mut leader = leader.map_err(|fault| {
            let lost = command.permitted().err();
            lost.unwrap_or_else(|| ShellCommand::spawn_fault(fault))
        })?;
        let pipe = leader.child.stdin.take().map(OwnedFd::from);
        let input = pipe.zip(command.input.take());
        let input = input.map(|(pipe, bytes)| Input::new(pipe, bytes)).transpose();
        Ok(Self {
            input: input.map_err(ShellCommand::spawn_fault)?.flatten(),
            stdout: leader.child.stdout.take().map(OwnedFd::from),
            stderr: leader.child.stderr.take().map(OwnedFd::from),
            leader,
            stopped: Some(stopped),
            streams,
            buffer: vec![0; CHUNK],
            started,
            // A limit beyond what the clock can express is none.
            deadline: command.timeout.and_then(|limit| started.checked_add(limit)),
            grace: command.grace,
        })
    }

    /// Reads output until the leader has ended or the grace period is over.
    ///
    /// `None` if the leader ended by itself.
    fn follow(&mut self) -> io::Result<Option<Exit>> {
        loop {
            let ended = self.leader.has_ended()?;
            let now = Instant::now();
            if ended {
                return Ok(None);
            }
            if self.stopped.is_none() {
                return self.stop(Exit::Cancelled, now);
            }
            if self.deadline.is_some_and(|deadline| deadline <= now) {
                return self.stop(Exit::TimedOut, now);
            }
            self.wait(self.deadline.map_or(IDLE, |deadline| deadline - now), true)?;
        }
    }

    /// Asks all to end, and gives them the grace period to do so.
    fn stop(&mut self, why: Exit, now: Instant) -> io::Result<Option<Exit>> {
        self.leader.terminate();
        let end = now.checked_add(self.grace);
        let mut look = now;
        loop {
            let now = Instant::now();
            let left = end.map_or(IDLE, |end| end.saturating_duration_since(now));
            let ended = self.leader.has_ended()?;
            if left.is_zero() {
                return Ok(Some(why));
            }
            if ended && look <= now {
                if self.leader.descendants.are_gone() {
                    return Ok(Some(why));
                }
                look = now + LOOK;
            }
            self.wait(if ended { left.min(LOOK) } else { left }, !ended)?;
        }
    }

    /// Waits for an event, and reads what there is to read.
    fn wait(&mut self, limit: Duration, for_leader: bool) -> io::Result<()> {
        let handle = self.leader.handle.raw_fd().filter(|_| for_leader);
        let limit = if for_leader && handle.is_none() {
            limit.min(TICK)
        } else {
            limit
        };
        let mut waits = [
            Wait::readable(number(&self.stdout)),
            Wait::readable(number(&self.stderr)),
            Wait::readable(handle),
            Wait::readable(self.stopped.as_ref().map(|stopped| stopped.as_raw_fd())),
            Wait::writable(self.input.as_ref().map(|input| input.pipe.as_raw_fd())),
        ];
        unix::poll(&mut waits, limit)?;
        let [stdout, stderr, _, stopped, input] = waits;
        if input.is_ready() {
            self.input = self.input.take().and_then(Input::write);
        }
        if stdout.is_ready() {
            self.read(OutputStream::Stdout);
        }
        if stderr.is_ready() {
            self.read(OutputStream::Stderr);
        }
        if stopped.is_ready() {
            self.stopped = None;
        }
        Ok(())
    }

    /// Reads once from a stream that is ready, which does not block.
    fn read(&mut self, stream: OutputStream) {
        let source = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        let Some(pipe) = source.take() else { return };
        let mut pipe = PipeReader::from(pipe);
        match pipe.read(&mut self.buffer) {
            // The end; a fault of a pipe leaves no more to read either.
            Ok(0) => {}
            Err(fault) if fault.kind() != io::ErrorKind::Interrupted => {}
            result => {
                *source = Some(pipe.into());
                let chunk = result.ok().and_then(|length| self.buffer.get(..length));
                self.streams.feed(stream, chunk.unwrap_or_default());
            }
        }
    }

    /// Reads what the dead have written. One who escaped and still holds the output is not waited for.
    fn drain(&mut self) {
        let end = Instant::now() + DRAIN;
        self.stopped = None;
        self.input = None;
        while self.stdout.is_some() || self.stderr.is_some() {
            let left = end.saturating_duration_since(Instant::now());
            // The leader is dead: only the two streams are waited for.
            if left.is_zero() || self.wait(left, false).is_err() {
                return;
            }
        }
    }
}

/// What of the input is not written yet, and where it goes.
struct Input {
    pipe: PipeWriter,
    bytes: Vec<u8>,
    written: usize,
}

impl Input {
    /// `None` where there is nothing to write: the pipe is closed then.
    fn new(pipe: OwnedFd, bytes: Vec<u8>) -> io::Result<Option<Self>> {
        // A pipe that takes a little is ready to be written to, and would block for the rest.
        unix::never_block(&pipe)?;
        // A command that no longer reads must not end the program around this thread.
        unix::ignore_closed_pipes()?;
        Ok(Some(Self {
            pipe: pipe.into(),
            bytes,
            written: 0,
        })
        .filter(|input| !input.bytes.is_empty()))
    }

    /// Writes what the pipe takes now. Gives back what is left; at the end, or when nobody reads, the pipe is closed.
    fn write(mut self) -> Option<Self> {
        let rest = self.bytes.get(self.written..).unwrap_or_default();
        match self.pipe.write(rest) {
            Ok(length) => self.written += length,
            Err(fault)
                if matches!(
                    fault.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(fault) => {
                tracing::trace!(%fault, "a command does not read all of its input");
                return None;
            }
        }
        (self.written < self.bytes.len()).then_some(self)
    }
}

fn number(fd: &Option<OwnedFd>) -> Option<RawFd> {
    fd.as_ref().map(|fd| fd.as_raw_fd())
}

/// The process that was started, its group and its descendants.
///
/// It stays unreaped until all others are dead, so that its number, which is also the group's, cannot
/// come to mean another process.
pub(super) struct Leader {
    pub(super) child: Child,
    pid: i32,
    handle: Arc<Handle>,
    descendants: Descendants,
    reaped: bool,
    /// For as long as there may be something left of the command.
    _running: Running,
}

impl Leader {
    /// Starts a command in a group of its own and with marks; it gets the signal when the engine dies.
    ///
    /// # Errors
    /// It cannot be started, or the run that it is for is not this process's any more. The forked child looks at the locks
    /// too: this process may be frozen between its own look and the start.
    pub(super) fn start(mut command: Command, run: Option<&RunOwnership>, at_death: i32) -> io::Result<Self> {
        let claim = match run.map(RunOwnership::claim) {
            Some(None) => return Err(io::Error::from_raw_os_error(libc::ESTALE)),
            claim => claim.flatten(),
        };
        let mark = Engine::this().mark(claim.as_ref().map_or(0, |claim| claim.number));
        let locks = claim
            .as_ref()
            .map(|claim| claim.locks.clone())
            .unwrap_or_default();
        let running = Running::begin();
        command.env(MARK_VARIABLE, &mark.variable).process_group(0);
        unix::prepare_tool(&mut command, mark.limit, at_death, locks);
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        let handle = Arc::new(Handle::of_child(pid));
        watcher::add(handle.clone());
        Ok(Self {
            descendants: Descendants::of(mark, pid),
            child,
            pid,
            handle,
            reaped: false,
            _running: running,
        })
    }

    fn has_ended(&self) -> io::Result<bool> {
        unix::has_exited(self.pid)
    }

    /// Asks all processes to end; those that are stopped are woken to hear it.
    fn terminate(&self) {
        unix::kill_group(self.pid, unix::TERM);
        unix::kill_group(self.pid, unix::CONT);
        self.descendants.signal_escaped(unix::TERM);
    }

    /// Kills all processes. Says whether none is left.
    pub(super) fn destroy(&self) -> bool {
        unix::kill_group(self.pid, unix::KILL);
        unix::kill(self.pid, unix::KILL);
        self.descendants.kill_all(DEATH) && self.await_death()
    }

    /// Waits until the killed leader is dead; it can hang in the kernel.
    fn await_death(&self) -> bool {
        self.await_end(DEATH)
    }

    /// Waits for the end of the leader, which is not reaped; reports whether it came in time.
    pub(super) fn await_end(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while let Ok(false) = self.has_ended() {
            let left = end.saturating_duration_since(Instant::now());
            let handle = self.handle.raw_fd();
            let limit = if handle.is_some() { left } else { left.min(TICK) };
            let mut waits = [handle, None, None, None, None].map(Wait::readable);
            if left.is_zero() || unix::poll(&mut waits, limit).is_err() {
                return false;
            }
        }
        true
    }

    /// Collects the exit status; blocks while the leader lives.
    pub(super) fn reap(&mut self) -> io::Result<std::process::ExitStatus> {
        if !self.reaped {
            // Before the number is given back, the watcher must no longer kill it.
            watcher::remove(self.pid);
            self.descendants.forget_group();
            self.reaped = true;
        }
        self.child.wait()
    }

    /// Goes on, without an answer, with what would not die in time.
    fn linger(mut self, clean: bool) {
        if !clean && !self.descendants.kill_all(LINGER) {
            tracing::warn!(leader = self.pid, "processes of a tool cannot be killed");
        }
        if !self.reaped {
            note_unreaped(self.reap());
        }
    }
}

/// Reached with a live leader only if the thread panics, as in the function for lines.
impl Drop for Leader {
    fn drop(&mut self) {
        if !self.reaped {
            self.destroy();
            note_unreaped(self.reap());
        }
    }
}

fn note_unreaped(status: io::Result<std::process::ExitStatus>) {
    if let Err(fault) = status {
        tracing::debug!(%fault, "the leader of a command was not reaped");
    }
}
