//! A command on Windows: a job object contains all of its processes.
//!
//! The job ends with its last handle, so the tools of an engine that dies end without a watcher. Console programs have
//! no signal like TERM, so there is no grace period.

use std::io;
use std::os::windows::process::CommandExt as _;
use std::time::{Duration, Instant};

use process_wrap::tokio::{CommandWrap, JobObject, KillOnDrop};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::capture::CHUNK;
use super::command::{CommandInput, ShellCommand};
use super::output::{Exit, OutputStream, ProcessError, ToolOutput};
use super::streams::Streams;

/// Time limit for the end of the output once all processes are dead.
const DRAIN: Duration = Duration::from_millis(200);

/// Runs a command in a job object.
pub(super) async fn run(mut command: ShellCommand) -> Result<ToolOutput, ProcessError> {
    let cancel = command.cancel.take().unwrap_or_default();
    command.permitted()?;
    let streams = Streams::create(&mut command)?;
    let mut program = command.program().to_std().map_err(ShellCommand::spawn_error)?;
    if command.direct.is_none() {
        program
            .args(["/D", "/S", "/C"])
            .raw_arg(format!("\"{}\"", command.text));
    }
    let mut prepared = CommandWrap::from(tokio::process::Command::from(program));
    prepared.wrap(KillOnDrop).wrap(JobObject);
    let started = Instant::now();
    let mut job = prepared.spawn().map_err(|error| command.start_error(error))?;
    let input = match (job.stdin().take(), command.input.take()) {
        (Some(pipe), Some(CommandInput::Bytes(bytes))) => Some((pipe, bytes)),
        (Some(pipe), Some(CommandInput::Pipe(take))) => {
            take(
                pipe.into_owned_handle()
                    .map_err(ShellCommand::spawn_error)?
                    .into(),
            );
            None
        }
        _ => None,
    };
    let mut output = Output {
        stdout: job.stdout().take(),
        stderr: job.stderr().take(),
        streams,
    };
    let status = tokio::select! {
        biased;
        // Wait for the inner child: the job would also wait for processes in the background.
        status = job.inner_mut().wait() => status.map(Exit::from_status),
        () = cancel.cancelled() => Ok(Exit::Cancelled),
        () = time_limit(command.timeout) => Ok(Exit::TimedOut),
        never = output.read_on() => match never {},
        never = write(input) => match never {},
    };
    // Killing fails if all processes of the job have ended, which is fine.
    let killed = job.start_kill();
    tracing::trace!(?killed, "the job of a command is ended");
    let _ended = tokio::time::timeout(DRAIN, output.read()).await;
    let exit = status.map_err(|source| ProcessError::Wait { source })?;
    Ok(output.streams.finish(exit, started.elapsed()))
}

/// Writes the input while the command runs, then closes it. A command that does not read it is not an error.
async fn write(input: Option<(ChildStdin, Vec<u8>)>) -> std::convert::Infallible {
    if let Some((mut pipe, bytes)) = input {
        let written = pipe.write_all(&bytes).await;
        tracing::trace!(?written, "the input of a command is closed");
    }
    std::future::pending().await
}

async fn time_limit(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

struct Output {
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    streams: Streams,
}

impl Output {
    /// Reads as long as the command runs.
    async fn read_on(&mut self) -> std::convert::Infallible {
        self.read().await;
        std::future::pending().await
    }

    /// Reads both streams to their ends.
    async fn read(&mut self) {
        let (mut out, mut err) = (vec![0; CHUNK], vec![0; CHUNK]);
        while self.stdout.is_some() || self.stderr.is_some() {
            let (stream, chunk) = tokio::select! {
                chunk = next(&mut self.stdout, &mut out) => (OutputStream::Stdout, chunk),
                chunk = next(&mut self.stderr, &mut err) => (OutputStream::Stderr, chunk),
            };
            match (stream, chunk) {
                (stream, Some(chunk)) => self.streams.feed(stream, chunk),
                (OutputStream::Stdout, None) => self.stdout = None,
                (OutputStream::Stderr, None) => self.stderr = None,
            }
        }
    }
}

/// Returns the next bytes, or `None` at the end. Never completes for a stream that has ended.
async fn next<'a>(source: &mut Option<impl AsyncRead + Unpin>, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let Some(source) = source else {
        return std::future::pending().await;
    };
    let length = match source.read(buffer).await {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Some(&[]),
        result => result.ok().filter(|length| *length > 0)?,
    };
    buffer.get(..length)
}
