//! The results of commands: how they ended, their output, and the errors of those without a result.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// An output stream of a tool.
///
/// ```
/// use orchestra_engine::process::{OutputStream, ShellCommand};
/// use std::sync::mpsc;
///
/// # #[cfg(unix)]
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let (sender, lines) = mpsc::channel();
/// let command = ShellCommand::new("echo building; echo careful >&2");
/// command.on_line(move |stream, line| sender.send((stream, line.to_owned())).unwrap_or_default()).run().await?;
/// let lines: Vec<_> = lines.iter().collect();
/// assert!(lines.contains(&(OutputStream::Stderr, "careful".to_owned())));
/// # Ok::<(), orchestra_engine::process::ProcessError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// The standard output.
    Stdout,
    /// The standard error.
    Stderr,
}

/// The way in which a command ended.
///
/// ```
/// use orchestra_engine::process::{Exit, ShellCommand};
/// use std::time::Duration;
///
/// # #[cfg(unix)]
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let hung = ShellCommand::new("exec sleep 60").timeout(Duration::from_millis(50)).run().await?;
/// assert_eq!(hung.exit, Exit::TimedOut);
/// let failed = ShellCommand::new("exit 3").run().await?;
/// assert!(failed.exit == Exit::Code(3) && !failed.exit.is_success());
/// # Ok::<(), orchestra_engine::process::ProcessError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exit {
    /// It exited with this code; 0 is success.
    Code(i32),
    /// It was killed by a signal that the runner did not send.
    Signal(i32),
    /// The runner ended it because of its time limit, whatever its exit code was.
    TimedOut,
    /// The runner ended it because it was cancelled, whatever its exit code was.
    Cancelled,
}

impl Exit {
    pub(super) fn from_status(status: std::process::ExitStatus) -> Self {
        #[cfg(unix)]
        if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
            return Self::Signal(signal);
        }
        Self::Code(status.code().unwrap_or(-1))
    }

    /// Returns whether the command exited with code 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

/// The result of a command (Attractor 4.10).
///
/// ```
/// use orchestra_engine::process::ShellCommand;
///
/// # #[cfg(unix)]
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let output = ShellCommand::new("echo one; echo two; echo three >&2").run().await?;
/// assert_eq!((output.last_line(), output.stdout_bytes), (Some("two"), 8));
/// assert_eq!(output.stderr, "three\n");
/// assert!(!output.truncated && !output.lossy);
/// # Ok::<(), orchestra_engine::process::ProcessError>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The way in which it ended.
    pub exit: Exit,
    /// The standard output, within the capture limit.
    pub stdout: String,
    /// The standard error, within the capture limit.
    pub stderr: String,
    /// The number of bytes written to the standard output.
    pub stdout_bytes: u64,
    /// The number of bytes written to the standard error.
    pub stderr_bytes: u64,
    /// `true` if the middle of a stream was dropped: see [`ShellCommand::capture_limit`](super::ShellCommand::capture_limit).
    pub truncated: bool,
    /// `true` if invalid UTF-8 was replaced in `stdout` or `stderr`.
    pub lossy: bool,
    /// The error because of which an output file is incomplete, such as a full disk. A reached file limit is not an
    /// error.
    pub file_error: Option<io::Error>,
    /// The time from the start until no process of the command was left.
    pub duration: Duration,
    pub(super) last_line: Option<String>,
}

impl ToolOutput {
    /// Returns the last line of the standard output that is not blank, trimmed and cut to 4 KiB.
    ///
    /// If the middle of the output was dropped, only the part after the gap is searched.
    #[must_use]
    pub fn last_line(&self) -> Option<&str> {
        self.last_line.as_deref()
    }
}

/// The error of a command without a result.
///
/// ```
/// use orchestra_engine::process::{ProcessError, ShellCommand};
///
/// # #[cfg(unix)]
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let error = ShellCommand::new("true").variable("A=B", "secret").run().await.unwrap_err();
/// assert!(matches!(&error, ProcessError::Variable { name } if name == "A=B"));
/// assert!(!error.to_string().contains("secret"));
/// # Ok::<(), orchestra_engine::process::ProcessError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The shell, the program, or the watcher that guards it could not be started.
    #[error("cannot start {}", path.display())]
    Spawn {
        /// The program.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The working directory cannot be used.
    #[error("cannot run in the directory {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The name of a variable is empty or contains `=`, or its name or value contains a NUL byte.
    #[error("the variable `{name}` cannot be set: its name or value holds a character that is not allowed")]
    Variable {
        /// The name. The value is omitted, because it may be secret.
        name: String,
    },
    /// An output file could not be created. Nothing was started.
    #[error("cannot create the output file {}", path.display())]
    CreateFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The exit status could not be determined. The rest of the command was killed.
    #[error("cannot learn how the command ended")]
    Wait {
        /// The reason.
        source: io::Error,
    },
    /// Another process has taken over the run of the command. Nothing was started, or it was killed at once.
    #[error("another process has taken the run over")]
    TakenOver,
    /// The thread of the command was lost, for example because the function for lines panicked. The command was killed.
    #[error("the thread that ran the command was lost")]
    ThreadLost,
}
