//! The thread of a command on Unix: it starts the command, reads its output, ends it and cleans up.
//!
//! The thread that starts the leader lives until the leader has ended. This makes the parent-death signal safe to use,
//! because the signal is sent when the starting thread ends, not when the process ends.

use std::io::{self, PipeReader, PipeWriter, Read, Write as _};
use std::os::fd::{AsRawFd, RawFd};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::sync::oneshot;

use super::capture::CHUNK;
use super::command::{CommandInput, ShellCommand};
use super::descendants::Descendants;
use super::handle::Handle;
use super::mark::Engine;
use super::output::{Exit, OutputStream, ProcessError, ToolOutput};
use super::program::{Pipes, Program};
use super::reaper::{self, Running};
use super::streams::Streams;
use super::unix::{self, Conditions, Wait};
use super::variables::MARK_VARIABLE;
use super::watcher;
use crate::ownership::RunOwnership;

/// Time limit for the leader to die of KILL, and then for the other processes.
const DEATH: Duration = Duration::from_millis(300);
/// Time limit for the end of the output once all processes are dead.
const DRAIN: Duration = Duration::from_millis(200);
/// The time for which the thread keeps killing the remaining processes after it has returned the result.
const LINGER: Duration = Duration::from_secs(30);
/// The interval at which the thread checks in the grace period whether all processes have ended.
const LOOK: Duration = Duration::from_millis(25);
/// The interval at which a system without process handles checks whether the leader has ended.
const TICK: Duration = Duration::from_millis(10);
/// The longest wait for an event without a deadline.
const IDLE: Duration = Duration::from_secs(3600);

/// Runs a command on a thread of its own and waits for its result.
pub(super) async fn run(mut command: ShellCommand) -> Result<ToolOutput, ProcessError> {
    let cancel = command.cancel.take().unwrap_or_default();
    // Dropping `stop` ends the command. It is dropped on cancellation, or together with this future.
    let (stopped, stop) = io::pipe().map_err(ShellCommand::spawn_error)?;
    let (answer, mut result) = oneshot::channel();
    std::thread::Builder::new()
        .name("orchestra-tool".to_owned())
        .spawn(move || supervise(command, stopped, answer))
        .map_err(ShellCommand::spawn_error)?;
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
        Err(error) => return drop(answer.send(Err(error))),
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
    // Do not reap it alive: that would block, and the result is due now.
    let status = dead.then(|| leader.reap());
    let exit = match (ending, status) {
        (Ok(Some(exit)), _) => Ok(exit),
        (Ok(None), Some(status)) => status.map(Exit::from_status),
        (Ok(None), None) => Err(io::ErrorKind::TimedOut.into()),
        (Err(error), _) => Err(error),
    };
    // Nobody receives it if the future was dropped.
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
    stdout: Option<PipeReader>,
    stderr: Option<PipeReader>,
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
        // Start the watcher first, so that the command never runs unguarded.
        watcher::ensure().map_err(ShellCommand::spawn_error)?;
        let started = Instant::now();
        // If this process was suspended, it may have lost the run at any of these steps.
        let leader = Leader::start(command.program(), command.run.as_ref(), Signal::KILL);
        let (leader, pipes) = leader.map_err(|error| {
            let lost = command.permitted().err();
            lost.unwrap_or_else(|| command.start_error(error))
        })?;
        let input = match (pipes.stdin, command.input.take()) {
            (Some(pipe), Some(CommandInput::Bytes(bytes))) => Input::new(pipe, bytes),
            (Some(pipe), Some(CommandInput::Pipe(take))) => {
                // A command that stops reading must not end this program by SIGPIPE.
                let ignored = unix::ignore_closed_pipes();
                take(pipe);
                ignored.map(|()| None)
            }
            _ => Ok(None),
        };
        Ok(Self {
            input: input.map_err(ShellCommand::spawn_error)?,
            stdout: Some(pipes.stdout),
            stderr: Some(pipes.stderr),
            leader,
            stopped: Some(stopped),
            streams,
            buffer: vec![0; CHUNK],
            started,
            // A limit beyond the range of the clock means no limit.
            deadline: command.timeout.and_then(|limit| started.checked_add(limit)),
            grace: command.grace,
        })
    }

    /// Reads output until the leader has ended or the grace period is over.
    ///
    /// Returns `None` if the leader ended by itself.
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

    /// Sends TERM to all processes and waits for the grace period.
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

    /// Waits for an event and reads the available output.
    fn wait(&mut self, limit: Duration, for_leader: bool) -> io::Result<()> {
        let handle = if for_leader {
            self.leader.handle.raw_fd()
        } else {
            None
        };
        let limit = if for_leader && handle.is_none() {
            limit.min(TICK)
        } else {
            limit
        };
        let mut waits = [
            Wait::readable(number(&self.stdout)),
            Wait::readable(number(&self.stderr)),
            Wait::readable(handle),
            Wait::readable(number(&self.stopped)),
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
        let Some(mut pipe) = source.take() else { return };
        match pipe.read(&mut self.buffer) {
            // The end of the stream. After an error of a pipe there is nothing more to read either.
            Ok(0) => {}
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {}
            result => {
                *source = Some(pipe);
                let chunk = result.ok().and_then(|length| self.buffer.get(..length));
                self.streams.feed(stream, chunk.unwrap_or_default());
            }
        }
    }

    /// Reads the remaining output. Does not wait for an escaped process that still holds the output open.
    fn drain(&mut self) {
        let end = Instant::now() + DRAIN;
        self.stopped = None;
        self.input = None;
        while self.stdout.is_some() || self.stderr.is_some() {
            let left = end.saturating_duration_since(Instant::now());
            // The leader is dead, so wait only for the two streams.
            if left.is_zero() || self.wait(left, false).is_err() {
                return;
            }
        }
    }
}

/// The unwritten input of a command, and its pipe.
struct Input {
    pipe: PipeWriter,
    bytes: Vec<u8>,
    written: usize,
}

impl Input {
    /// Returns `None` if there is nothing to write. The pipe is closed then.
    fn new(pipe: PipeWriter, bytes: Vec<u8>) -> io::Result<Option<Self>> {
        // A pipe can be writable and still block for a part of the bytes.
        unix::never_block(&pipe)?;
        // A command that stops reading must not end this program by SIGPIPE.
        unix::ignore_closed_pipes()?;
        Ok(Some(Self {
            pipe,
            bytes,
            written: 0,
        })
        .filter(|input| !input.bytes.is_empty()))
    }

    /// Writes as much as the pipe accepts now. Returns the rest. Closes the pipe at the end of the input, or if nobody
    /// reads.
    fn write(mut self) -> Option<Self> {
        let rest = self.bytes.get(self.written..).unwrap_or_default();
        match self.pipe.write(rest) {
            Ok(length) => self.written += length,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => {
                tracing::trace!(%error, "a command does not read all of its input");
                return None;
            }
        }
        (self.written < self.bytes.len()).then_some(self)
    }
}

fn number(pipe: &Option<impl AsRawFd>) -> Option<RawFd> {
    pipe.as_ref().map(AsRawFd::as_raw_fd)
}

/// The process that was started, its group and its descendants.
///
/// It stays unreaped until all others are dead, so that its process id, which is also the group id, is not reused.
pub(super) struct Leader {
    pid: i32,
    handle: Arc<Handle>,
    descendants: Descendants,
    reaped: bool,
    /// Counts the command as running as long as any of its processes may be left.
    _running: Running,
}

impl Leader {
    /// Starts a command in a group of its own, with marks. It receives the signal when the engine dies.
    ///
    /// # Errors
    /// Fails if it cannot be started, or if this process no longer owns its run. The forked child checks the locks too,
    /// because this process may be suspended between its own check and the start.
    pub(super) fn start(
        mut program: Program,
        run: Option<&RunOwnership>,
        at_death: Signal,
    ) -> io::Result<(Self, Pipes)> {
        let claim = match run.map(RunOwnership::claim) {
            Some(None) => return Err(io::Error::from_raw_os_error(libc::ESTALE)),
            claim => claim.flatten(),
        };
        let mark = Engine::this().mark(claim.as_ref().map_or(0, |claim| claim.number));
        program.env(MARK_VARIABLE, &mark.variable);
        let conditions = Conditions {
            mark: mark.limit,
            at_death,
            locks: claim.as_ref().map_or(&[], |claim| &claim.locks),
        };
        let running = Running::begin();
        let mut descendants = Descendants::new(mark);
        let (pid, pipes) = unix::spawn(&program, &conditions)?;
        descendants.set_leader(pid);
        let handle = Arc::new(Handle::of_child(pid));
        watcher::add(handle.clone());
        let leader = Self {
            pid,
            handle,
            descendants,
            reaped: false,
            _running: running,
        };
        Ok((leader, pipes))
    }

    fn has_ended(&self) -> io::Result<bool> {
        unix::has_exited(self.pid)
    }

    /// Sends TERM to all processes. Wakes stopped processes so that they receive it.
    fn terminate(&self) {
        unix::kill_group(self.pid, unix::TERM);
        unix::kill_group(self.pid, unix::CONT);
        self.descendants.signal_escaped(unix::TERM);
    }

    /// Kills all processes. Returns whether none is left.
    pub(super) fn destroy(&self) -> bool {
        unix::kill_group(self.pid, unix::KILL);
        unix::kill(self.pid, unix::KILL);
        // A look at the orphans of this process, if it adopts them, spares a look at all processes of the system.
        self.has_ended().is_ok_and(|ended| ended) && reaper::has_no_orphans(self.pid)
            || self.descendants.kill_all(DEATH) && self.await_death()
    }

    /// Waits until the killed leader is dead. It can hang in the kernel.
    fn await_death(&self) -> bool {
        self.await_end(DEATH)
    }

    /// Waits for the end of the leader without reaping it. Returns whether it ended in time.
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

    /// Collects the exit status. Blocks while the leader lives. Call it once.
    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        // The watcher must no longer kill this process id once it is released.
        watcher::remove(self.pid);
        self.descendants.forget_group();
        self.reaped = true;
        unix::wait(self.pid)
    }

    /// Keeps killing the processes that did not die in time.
    fn linger(mut self, clean: bool) {
        if !clean && !self.descendants.kill_all(LINGER) {
            tracing::warn!(leader = self.pid, "processes of a tool cannot be killed");
        }
        if !self.reaped {
            note_unreaped(self.reap());
        }
    }
}

/// Runs with a live leader only if the thread panics, for example in the function for lines.
impl Drop for Leader {
    fn drop(&mut self) {
        if !self.reaped {
            self.destroy();
            note_unreaped(self.reap());
        }
    }
}

fn note_unreaped(status: io::Result<ExitStatus>) {
    if let Err(error) = status {
        tracing::debug!(%error, "the leader of a command was not reaped");
    }
}
