//! The process of a server: in a process group of its own, ended together with everything that it started.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orchestra_engine::RunOwnership;
use orchestra_engine::process::{ContainedProgram, Input, Pipes, Program};
use rmcp::RoleClient;

use crate::lines::{EndReason, LineTransport};
use crate::sanitize::shortened;

/// The time that a server has to end by itself once its input is closed.
const GRACE: Duration = Duration::from_secs(1);
/// The time in which the error output of a server that has ended must be read.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Length of the kept end of the error output, in bytes.
const MAX_ERROR_OUTPUT: usize = 2048;

/// The command of a server.
#[derive(Clone, Debug)]
pub(crate) struct ServerCommand {
    pub(crate) arguments: Vec<String>,
    /// The variables that the server gets besides the usual ones.
    pub(crate) environment: Vec<String>,
    pub(crate) directory: PathBuf,
}

enum Stop {
    /// The output of the server has ended.
    Ended,
    /// The server is not needed any more.
    Unneeded,
}

/// A running server. Dropping it ends the server.
pub(crate) struct ServerProcess {
    stop: SyncSender<Stop>,
    end: EndReason,
    error_output: Arc<Mutex<VecDeque<u8>>>,
}

impl ServerProcess {
    /// Starts a server. It belongs to a run if `run` is given.
    ///
    /// # Errors
    /// The server cannot be started.
    pub(crate) fn start(
        command: &ServerCommand,
        run: Option<RunOwnership>,
    ) -> io::Result<(ServerProcess, LineTransport<RoleClient>)> {
        let program = command.program()?;
        let (stop, stopped) = sync_channel(4);
        let (started, pipes) = sync_channel(1);
        std::thread::Builder::new()
            .name("orchestra-mcp".to_owned())
            .spawn(move || guard(program, run, &started, &stopped))?;
        let lost = |_| io::Error::other("the thread of the server ended");
        let Pipes {
            stdin,
            stdout,
            stderr,
        } = pipes.recv().map_err(lost)??;
        let stdin = stdin.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let error_output = Arc::new(Mutex::new(VecDeque::new()));
        let kept = error_output.clone();
        let (reading, all_read) = sync_channel::<()>(1);
        std::thread::Builder::new()
            .name("orchestra-mcp-errors".to_owned())
            .spawn(move || {
                keep_errors(stderr, &kept);
                drop(reading);
            })?;
        let ended = stop.clone();
        let (transport, end) = LineTransport::start(stdout, stdin, move || {
            // The thread of the server may have ended already.
            let _ = ended.try_send(Stop::Ended);
            // The last words are a part of the reason, so that they are awaited.
            let _ = all_read.recv_timeout(LAST_WORDS);
        })?;
        let process = ServerProcess {
            stop,
            end,
            error_output,
        };
        Ok((process, transport))
    }

    /// Returns why the server cannot be used any more, with the end of its error output.
    pub(crate) fn end(&self) -> Option<String> {
        let reason = self.end.get()?;
        let kept = self.error_output.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        Some(match last {
            Some(last) => format!("{reason}; its last words: {}", shortened(last, 300)),
            None => reason,
        })
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // A full channel means that the server ends anyway.
        let _ = self.stop.try_send(Stop::Unneeded);
    }
}

impl ServerCommand {
    fn program(&self) -> io::Result<Program> {
        let (path, arguments) = self
            .arguments
            .split_first()
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut program = Program::new(path);
        program
            .args(arguments)
            .directory(&self.directory)
            .input(Input::Pipe);
        for (name, value) in self.variables() {
            program.env(name, value);
        }
        Ok(program)
    }

    fn variables(&self) -> impl Iterator<Item = (&String, OsString)> {
        self.environment
            .iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)))
    }
}

/// Reads the error output of a server, and keeps its end.
fn keep_errors(mut errors: impl io::Read, kept: &Mutex<VecDeque<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = errors.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(buffer.iter().take(length));
        let more = kept.len().saturating_sub(MAX_ERROR_OUTPUT);
        kept.drain(..more);
    }
}

/// Starts the program, and ends it when it is not needed any more. The thread that starts a program also ends it.
fn guard(
    program: Program,
    run: Option<RunOwnership>,
    started: &SyncSender<io::Result<Pipes>>,
    stopped: &Receiver<Stop>,
) {
    let (program, pipes) = match ContainedProgram::start(program, run.as_ref()) {
        Ok(running) => running,
        // Nobody waits for it if the start was abandoned.
        Err(error) => return drop(started.send(Err(error))),
    };
    if started.send(Ok(pipes)).is_err() {
        return program.kill();
    }
    if let Ok(Stop::Unneeded) | Err(_) = stopped.recv() {
        // Its input is closed by now. If it does not end by itself, it is killed.
        while let Ok(Stop::Unneeded) = stopped.recv_timeout(GRACE) {}
    }
    program.kill();
}
