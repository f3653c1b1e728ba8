//! The runner of the shell commands of tool stages. It leaves no process of a command behind.
//!
//! The cases that it handles:
//!
//! | The tool | The runner |
//! |---|---|
//! | runs too long, or is cancelled | sends TERM to its process group, and KILL after the grace period |
//! | ignores TERM, forks, opens sessions, forks twice, empties its environment | finds it by its marks and kills it |
//! | ends and leaves child processes behind, perhaps with its output open | kills them without delaying the result |
//! | writes without end, or a line of a gigabyte | keeps memory and file within their limits; the byte count is exact |
//! | writes invalid UTF-8 | replaces the bytes and sets [`ToolOutput::lossy`] |
//! | reads its input | provides the [given](ShellCommand::input) bytes, then the end of the file |
//! | does not read its input, or ends before it has read all | is not blocked by it |
//! | still runs when the engine dies, even by signal 9 | a watcher process kills it |
//!
//! Each command has a thread that starts it, reads its output and ends it. Therefore the runner needs the async runtime
//! only to wait, a full disk does not stall other tasks, and the clean-up of a dropped future continues even while the
//! runtime shuts down.
//!
//! No other process is killed: on Linux the runner signals a process through a handle that was open when the process
//! was found to belong to the command, so a reused process id does no harm. Linux before 5.3 has no such handles.
//!
//! Not covered: a process that changes its user, and a process that has emptied its environment, restored its limits
//! and left its group and session on purpose, unless it still descends from the command or the program [adopts
//! orphans](run_as_subreaper). On Unix systems other than Linux only the process group is killed. On Windows a job
//! object ends all processes, without a grace period.
//!
//! Text of a model or a person must never become a part of the command. Pass it in a [`ShellCommand::variable`], which
//! the command reads as `"$NAME"`.

mod capture;
mod contained;
#[cfg(unix)]
mod descendants;
#[cfg(unix)]
mod handle;
#[cfg(unix)]
mod mark;
#[cfg(unix)]
mod peer;
#[cfg(target_os = "linux")]
mod procfs;
#[cfg_attr(not(target_os = "linux"), path = "reaper_elsewhere.rs")]
mod reaper;
mod runner;
#[cfg(unix)]
mod supervise;
mod threads;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
mod watcher;
#[cfg(windows)]
mod windows;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use capture::{OnLine, Sink};
#[cfg(unix)]
pub(crate) use peer::{Peer, Relation};

use crate::limit::SystemError;
use crate::ownership::RunOwnership;
use crate::redact::Redactor;
use crate::stage::StageContext;

pub use contained::ContainedProgram;
#[cfg(unix)]
pub(crate) use descendants::end_tools;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use descendants::is_own_process;
#[cfg(unix)]
pub(crate) use mark::{RunMark, run_number};
pub use reaper::run_as_subreaper;
pub use runner::{ProcessFuture, ProcessRunner, SystemProcesses};
pub(crate) use threads::has_thread;

/// The variable that marks the processes of a command on Unix. Its value is different for each command.
pub const MARK_VARIABLE: &str = "ORCHESTRA_TOOL_ID";

/// Prevents other processes of the same user from reading the environment and the memory of this one, and from tracing
/// it.
///
/// Tools run as the same user and could otherwise read the keys of providers. On Linux the process becomes non-dumpable
/// (`PR_SET_DUMPABLE`): debuggers and `perf` cannot attach either, and it leaves no core dump. The processes that it
/// starts are not affected. The administrator can still read everything. On other systems this function does nothing.
///
/// ```
/// orchestra_engine::process::forbid_inspection();
/// ```
pub fn forbid_inspection() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};

        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!(%error, "other processes of the user can read the memory of this one");
        }
    }
}

/// Returns whether this process descends from another process.
pub(crate) fn descends_from(pid: u32) -> bool {
    #[cfg(unix)]
    return peer::descends_from(pid);
    #[cfg(not(unix))]
    {
        let _ = pid;
        false
    }
}

/// Records the time at which this process begins to run pipelines. All of its commands are younger.
pub(crate) fn begin() {
    #[cfg(unix)]
    mark::Engine::this();
}

/// An absolute path, so that `PATH` does not decide which shell reads the commands.
#[cfg(unix)]
const SHELL: &str = "/bin/sh";
#[cfg(windows)]
const SHELL: &str = "cmd";

/// The variables that a command inherits unless its environment is [minimal](ShellCommand::minimal_environment). Those
/// that start with `LC_` are inherited too.
const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "TMPDIR",
    "TZ",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
];

/// Without these variables, programs on Windows do not start or do not find their folders.
const INHERITED_ON_WINDOWS: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Makes writes of this process beyond the limit on the size of files (`ulimit -f`) fail with an error instead of
/// ending the process by a signal. Call it once, in the main function of a program.
///
/// ```
/// orchestra_engine::process::survive_file_size_limit();
/// ```
pub fn survive_file_size_limit() {
    #[cfg(unix)]
    unix::survive_file_size_limit();
}

/// An output stream of a tool.
///
/// ```
/// use orchestra_engine::process::{OutputStream, ShellCommand};
/// use std::sync::mpsc;
///
/// # #[cfg(unix)]
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let (told, lines) = mpsc::channel();
/// let command = ShellCommand::new("echo building; echo careful >&2");
/// command.on_line(move |stream, line| told.send((stream, line.to_owned())).unwrap_or_default()).run().await?;
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

/// A shell command, run by `sh -c`, on Windows by `cmd /C`.
///
/// The command has an empty [input](Self::input) unless one is set, a process group of its own, and only the
/// [allowed](Self::inherit) variables of the environment of this process.
///
/// ```
/// use std::time::Duration;
/// use orchestra_engine::process::{Exit, ShellCommand};
///
/// # #[cfg(unix)]
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let output = ShellCommand::new(r#"echo "checking $WHAT"; exit 3"#)
///     .variable("WHAT", "a; rm -rf /")
///     .timeout(Duration::from_secs(10))
///     .run()
///     .await?;
/// assert_eq!(output.exit, Exit::Code(3));
/// assert_eq!(output.last_line(), Some("checking a; rm -rf /"));
/// # Ok::<(), orchestra_engine::process::ProcessError>(())
/// # }).unwrap();
/// ```
#[must_use = "a command does nothing until it is run"]
pub struct ShellCommand {
    text: String,
    directory: Option<PathBuf>,
    inherit: Vec<OsString>,
    minimal: bool,
    variables: Vec<(OsString, OsString)>,
    timeout: Option<Duration>,
    grace: Duration,
    capture_limit: usize,
    stdout_file: Option<PathBuf>,
    stderr_file: Option<PathBuf>,
    file_limit: u64,
    cancel: Option<CancellationToken>,
    on_line: Option<OnLine>,
    input: Option<Vec<u8>>,
    redactor: Option<Redactor>,
    /// The run that the command belongs to. Only the owner of the run starts it.
    run: Option<RunOwnership>,
}

impl ShellCommand {
    /// Creates a command from the text that the shell reads.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            directory: None,
            inherit: Vec::new(),
            minimal: false,
            variables: Vec::new(),
            timeout: None,
            grace: Duration::from_secs(2),
            capture_limit: 1024 * 1024,
            stdout_file: None,
            stderr_file: None,
            file_limit: 64 * 1024 * 1024,
            cancel: None,
            on_line: None,
            input: None,
            redactor: None,
            run: None,
        }
    }

    /// Sets the working directory. The default is that of this process.
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    /// Lets the command inherit one more variable of the environment of this process, if it is set.
    ///
    /// A command always inherits `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `LANG`, `LC_*`, `TERM`, `TMPDIR`, `TZ`,
    /// `CARGO_HOME`, `RUSTUP_HOME` and `RUSTUP_TOOLCHAIN`, on Windows also the variables that programs need to start.
    pub fn inherit(mut self, name: impl Into<OsString>) -> Self {
        self.inherit.push(name.into());
        self
    }

    /// Restricts the inherited environment to `PATH`, on Windows also the variables that programs need to start, and
    /// the variables that are named by [`inherit`](Self::inherit).
    pub fn minimal_environment(mut self) -> Self {
        self.minimal = true;
        self
    }

    /// Sets a variable for the command. Use it for text that must not become a part of the command.
    ///
    /// A variable that is set overrides an inherited one. [`MARK_VARIABLE`] cannot be set. Linux limits a variable to
    /// 128 KiB; the start fails if it is longer.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Sets the time after which the command is ended. `None`, the default, means no limit.
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.timeout = limit.into();
        self
    }

    /// Sets the time between TERM and KILL when the command is ended early. The default is 2 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the number of bytes of each stream that are kept in memory. The default is 1 MiB.
    ///
    /// If a stream is longer, its first and its last bytes are kept, half of the limit each, with a line between them
    /// that contains the number of dropped bytes.
    pub fn capture_limit(mut self, bytes: usize) -> Self {
        self.capture_limit = bytes;
        self
    }

    /// Writes the standard output, as it arrives, to a file that is created or truncated first.
    pub fn stdout_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.stdout_file = Some(path.into());
        self
    }

    /// Writes the standard error, as it arrives, to a file that is created or truncated first.
    pub fn stderr_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.stderr_file = Some(path.into());
        self
    }

    /// Sets the number of bytes after which each file ends with a note. The default is 64 MiB.
    pub fn file_limit(mut self, bytes: u64) -> Self {
        self.file_limit = bytes;
        self
    }

    /// Removes secrets from both outputs: from the bytes in memory, the files and the displayed lines. Byte counts are
    /// those without secrets.
    pub fn redact(mut self, redactor: impl Into<Option<Redactor>>) -> Self {
        self.redactor = redactor.into();
        self
    }

    /// Sets a token that ends the command early.
    pub fn cancel(mut self, token: CancellationToken) -> Self {
        self.cancel = Some(token);
        self
    }

    /// Sets a function that gets each line of output as it arrives, for display.
    ///
    /// The function runs on the thread of the command and should be fast: while it runs, the output of the tool waits
    /// and the time limit is not checked. The function gets at most the first 8 KiB of a line.
    pub fn on_line(mut self, show: impl FnMut(OutputStream, &str) + Send + 'static) -> Self {
        self.on_line = Some(Box::new(show));
        self
    }

    /// Assigns the command to a stage, so that a process that takes over the run can end the command. After such a
    /// takeover the command is not started.
    ///
    /// ```
    /// use orchestra_engine::StageContext;
    /// use orchestra_engine::process::ShellCommand;
    ///
    /// fn tests(stage: &StageContext) -> ShellCommand {
    ///     ShellCommand::new("cargo test").of_stage(stage)
    /// }
    /// ```
    pub fn of_stage(mut self, stage: &StageContext) -> Self {
        self.run = Some(RunOwnership::new(stage.run()));
        self
    }

    /// Returns an error if another process has taken over the run of the command.
    fn permitted(&self) -> Result<(), ProcessError> {
        match &self.run {
            Some(run) if !run.is_held() => Err(ProcessError::TakenOver),
            _ => Ok(()),
        }
    }

    /// Sets the standard input of the command. The default is an empty input.
    ///
    /// The input is written while the command runs and its output is read. The command may ignore any part of it.
    ///
    /// ```
    /// use orchestra_engine::process::ShellCommand;
    ///
    /// # #[cfg(unix)]
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let sorted = ShellCommand::new("sort").input("pear\napple\n").run().await?;
    /// assert_eq!(sorted.stdout, "apple\npear\n");
    /// # Ok::<(), orchestra_engine::process::ProcessError>(())
    /// # }).unwrap();
    /// ```
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// Runs the command until it has ended and none of its processes is left.
    ///
    /// The result arrives at most one second after the time limit and the grace period. If the future is dropped, the
    /// command is cancelled in the background. If the token is already cancelled, nothing is started.
    ///
    /// # Errors
    /// Fails if the command cannot be started, if an output file cannot be created, or if the exit status cannot be
    /// determined. A failing command is not an error: see [`ToolOutput::exit`].
    pub async fn run(mut self) -> Result<ToolOutput, ProcessError> {
        self.check()?;
        if self.cancel.as_ref().is_some_and(CancellationToken::is_cancelled) {
            return Ok(Streams::create(&mut self)?.finish(Exit::Cancelled, Duration::ZERO));
        }
        #[cfg(unix)]
        return supervise::run(self).await;
        #[cfg(windows)]
        return windows::run(self).await;
    }

    /// Checks for errors that the system would report without naming their cause.
    fn check(&self) -> Result<(), ProcessError> {
        for (name, value) in &self.variables {
            let bytes = name.as_encoded_bytes();
            if bytes.is_empty()
                || bytes.contains(&b'=')
                || bytes.contains(&0)
                || value.as_encoded_bytes().contains(&0)
            {
                return Err(ProcessError::Variable {
                    name: name.to_string_lossy().into_owned(),
                });
            }
        }
        let Some(path) = &self.directory else {
            return Ok(());
        };
        let error = match std::fs::metadata(path) {
            Ok(data) if data.is_dir() => return Ok(()),
            Ok(_) => io::ErrorKind::NotADirectory.into(),
            Err(error) => error,
        };
        Err(ProcessError::Directory {
            path: path.clone(),
            source: error,
        })
    }

    /// Returns the command of the standard library, without the system-specific parts.
    fn to_std(&self) -> Command {
        let mut command = Command::new(SHELL);
        #[cfg(unix)]
        command.args(["-c", "--", &self.text]);
        #[cfg(windows)]
        std::os::windows::process::CommandExt::raw_arg(
            command.args(["/D", "/S", "/C"]),
            format!("\"{}\"", self.text),
        );
        command.env_clear().envs(self.environment());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
            .stdin(if self.input.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn environment(&self) -> impl Iterator<Item = (OsString, OsString)> {
        std::env::vars_os().filter(|(name, _)| self.inherits(name))
    }

    fn inherits(&self, name: &OsStr) -> bool {
        is_inherited(name, self.minimal) || self.inherit.iter().any(|allowed| same_name(allowed, name))
    }

    fn spawn_error(source: io::Error) -> ProcessError {
        let named = SystemError(&source);
        let source = match named.limit() {
            Some(_) => io::Error::new(source.kind(), named.to_string()),
            None => source,
        };
        ProcessError::Spawn {
            path: PathBuf::from(SHELL),
            source,
        }
    }
}

/// Returns whether commands inherit a variable by default.
fn is_inherited(name: &OsStr, minimal: bool) -> bool {
    let usual = name.as_encoded_bytes().starts_with(b"LC_")
        || INHERITED.iter().any(|allowed| same_name(allowed.as_ref(), name));
    same_name("PATH".as_ref(), name)
        || usual && !minimal
        || cfg!(windows)
            && INHERITED_ON_WINDOWS
                .iter()
                .any(|allowed| same_name(allowed.as_ref(), name))
}

fn same_name(allowed: &OsStr, name: &OsStr) -> bool {
    if cfg!(windows) {
        allowed.eq_ignore_ascii_case(name)
    } else {
        allowed == name
    }
}

/// Shows only the names of variables, because their values may be secret.
impl fmt::Debug for ShellCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&OsStr> = self.variables.iter().map(|(name, _)| name.as_os_str()).collect();
        f.debug_struct("ShellCommand")
            .field("text", &self.text)
            .field("directory", &self.directory)
            .field("inherit", &self.inherit)
            .field("variables", &names)
            .field("timeout", &self.timeout)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
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
    fn from_status(status: std::process::ExitStatus) -> Self {
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
    /// `true` if the middle of a stream was dropped: see [`ShellCommand::capture_limit`].
    pub truncated: bool,
    /// `true` if invalid UTF-8 was replaced in `stdout` or `stderr`.
    pub lossy: bool,
    /// The error because of which an output file is incomplete, such as a full disk. A reached file limit is not an
    /// error.
    pub file_error: Option<io::Error>,
    /// The time from the start until no process of the command was left.
    pub duration: Duration,
    last_line: Option<String>,
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
    /// The shell, or the watcher that guards it, could not be started.
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

/// Both streams of a command.
struct Streams {
    stdout: Sink,
    stderr: Sink,
    on_line: Option<OnLine>,
}

impl Streams {
    /// Creates the sinks with the options of the command, and takes its function for lines.
    fn create(command: &mut ShellCommand) -> Result<Self, ProcessError> {
        let sink = |stream, file: &Option<PathBuf>| {
            let redactor = command.redactor.as_ref();
            Sink::create(
                stream,
                command.capture_limit,
                file.as_deref(),
                command.file_limit,
                redactor,
            )
        };
        Ok(Self {
            stdout: sink(OutputStream::Stdout, &command.stdout_file)?,
            stderr: sink(OutputStream::Stderr, &command.stderr_file)?,
            on_line: command.on_line.take(),
        })
    }

    fn feed(&mut self, stream: OutputStream, chunk: &[u8]) {
        let sink = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        sink.feed(chunk, &mut self.on_line);
    }

    fn finish(mut self, exit: Exit, duration: Duration) -> ToolOutput {
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
