//! Both output streams of a command.

use std::path::PathBuf;
use std::time::Duration;

use super::capture::{OnLine, Sink};
use super::command::ShellCommand;
use super::output::{Exit, OutputStream, ProcessError, ToolOutput};

/// Both streams of a command.
pub(super) struct Streams {
    stdout: Sink,
    stderr: Sink,
    on_line: Option<OnLine>,
}

impl Streams {
    /// Creates the sinks with the options of the command, and takes its function for lines.
    pub(super) fn create(command: &mut ShellCommand) -> Result<Self, ProcessError> {
        let sink = |stream, file: &Option<PathBuf>| {
            let redactor = command.redactor.as_ref();
            Sink::create(
                stream,
                command.capture_limit,
                file.as_deref(),
                command.file_limit,
                redactor,
            )
            .map(|sink| sink.with_line_limit(command.line_limit))
        };
        Ok(Self {
            stdout: sink(OutputStream::Stdout, &command.stdout_file)?,
            stderr: sink(OutputStream::Stderr, &command.stderr_file)?,
            on_line: command.on_line.take(),
        })
    }

    pub(super) fn feed(&mut self, stream: OutputStream, chunk: &[u8]) {
        let sink = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        sink.feed(chunk, &mut self.on_line);
    }

    pub(super) fn finish(mut self, exit: Exit, duration: Duration) -> ToolOutput {
        let stdout = self.stdout.finish(&mut self.on_line);
        let stderr = self.stderr.finish(&mut self.on_line);
        ToolOutput {
            exit,
            stdout: stdout.text,
            stderr: stderr.text,
            stdout_bytes: stdout.bytes,
            stderr_bytes: stderr.bytes,
            truncated: stdout.truncated || stderr.truncated,
            lossy: stdout.lossy || stderr.lossy,
            file_error: stdout.file_error.or(stderr.file_error),
            duration,
            last_line: stdout.last_line,
        }
    }
}
