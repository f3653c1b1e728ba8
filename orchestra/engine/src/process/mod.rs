//! Runs the shell commands of tool stages, and leaves nothing of them behind.
//!
//! What a tool may do, and what happens:
//!
//! | The tool | The runner |
//! |---|---|
//! | runs too long, or is no longer wanted | TERM to its process group, KILL after the grace period |
//! | ignores TERM, forks, opens sessions, forks twice, empties its environment | is found by its marks and killed |
//! | ends and leaves children behind, perhaps holding its output open | they are killed at once; the result does not wait for them |
//! | writes without end, or a line of a gigabyte | memory and file stay within their limits; the count is exact |
//! | writes what is not UTF-8 | the bytes are replaced, and [`ToolOutput::lossy`] says so |
//! | reads its input | finds what it was [given](ShellCommand::input), then the end |
//! | does not read its input, or ends before it has read all | is not held up by it |
//! | still runs when the engine dies, even by signal 9 | is killed by a watcher process |
//!
//! Each command has one thread, which starts it, reads it and ends it. So the runner needs nothing of
//! the async runtime but a place to wait, a full disk does not stall other tasks, and the clean-up of
//! a dropped future goes on even while the runtime is being shut down.
//!
//! Nobody else is killed: on Linux a process is killed through a handle that was open when it was found to be one of the
//! command, so the reuse of its number harms nobody. Linux before 5.3 has no such handles.
//!
//! What is not covered: a process that changes its user, and one that has emptied its environment,
//! restored its limits and left its group and session on purpose, unless it still descends from the command or the
//! program [adopts orphans](run_as_subreaper). On Unix systems other than Linux
//! only the process group is killed. On Windows a job object ends all processes, without grace.
//!
//! Text of a model or a person must never become a part of the command. It goes into a
//! [`ShellCommand::variable`], and the command reads it as `"$NAME"`.

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

/// The variable that marks the processes of a command, on Unix. Its value is different for each.
pub const MARK_VARIABLE: &str = "ORCHESTRA_TOOL_ID";

/// Forbids other processes of the same user to read the environment and the memory of this one, and to trace it.
///
/// What a tool runs has the same user, so it could read the keys of providers there. On Linux the process is made
/// non-dumpable (`PR_SET_DUMPABLE`); debuggers and `perf` cannot attach either, and it leaves no core dump. The processes
/// that it starts are as usual. The administrator can read everything. On other systems this does nothing.
///
/// ```
/// orchestra_engine::process::forbid_inspection();
/// ```
pub fn forbid_inspection() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};

        if let Err(fault) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!(%fault, "other processes of the user can read the memory of this one");
        }
    }
}

/// Returns whether the chain of this process's parents leads to another process.
pub(crate) fn descends_from(pid: u32) -> bool {
    #[cfg(unix)]
    return peer::descends_from(pid);
    #[cfg(not(unix))]
    {
        let _ = pid;
        false
    }
}

/// Notes when this process begins to run pipelines: none of their commands is older.
pub(crate) fn begin() {
    #[cfg(unix)]
    mark::Engine::this();
}

/// Named by its path, so that no `PATH` decides which shell reads the commands.
#[cfg(unix)]
const SHELL: &str = "/bin/sh";
#[cfg(windows)]
const SHELL: &str = "cmd";

/// The variables that a command inherits unless less is [asked for](ShellCommand::minimal_environment); those that start
/// with `LC_` come on top.
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

/// Without these, programs on Windows do not start or do not find their folders.
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

/// Lets writes of this process beyond the limit on the size of files (`ulimit -f`) fail with an error, where they would end
/// it by a signal. To be called once, by the main function of a program.
///
/// ```
/// orchestra_engine::process::survive_file_size_limit();
/// ```
pub fn survive_file_size_limit() {
    #[cfg(unix)]
    unix::survive_file_size_limit();
}

/// One of the two output streams of a tool.
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
    /// The standard error output.
    Stderr,
}

/// A shell command that is to be run: by `sh -c`, on Windows by `cmd /C`.
///
/// The command gets no input unless [some](Self::input) is given, a process group of its own, and of our environment only the
/// [allowed](Self::inherit) variables.
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
    /// The run that it belongs to: only its owner starts it.
    run: Option<RunOwnership>,
}

impl ShellCommand {
    /// A command from the text that the shell reads.
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

    /// The working directory; without it, that of our own process.
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    /// Lets the command inherit one more variable of our environment, if it is set.
    ///
    /// Inherited anyway are `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `LANG`, `LC_*`, `TERM`,
    /// `TMPDIR`, `TZ`, `CARGO_HOME`, `RUSTUP_HOME` and `RUSTUP_TOOLCHAIN`, on Windows also what
    /// programs need there to start.
    pub fn inherit(mut self, name: impl Into<OsString>) -> Self {
        self.inherit.push(name.into());
        self
    }

    /// Lets the command inherit of our environment only `PATH`, on Windows also what programs need there to start, and the
    /// variables that are named by [`inherit`](Self::inherit).
    pub fn minimal_environment(mut self) -> Self {
        self.minimal = true;
        self
    }

    /// Sets a variable for the command; the way for text that must not become a part of the command.
    ///
    /// A variable set here wins over an inherited one. [`MARK_VARIABLE`] cannot be set. Linux takes up
    /// to 128 KiB for a variable, with more the start fails.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// The time after which the command is ended; `None`, the default, is no limit.
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.timeout = limit.into();
        self
    }

    /// The time between TERM and KILL when the command is ended early: 2 s unless set.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The number of bytes of each stream that are kept in memory: 1 MiB unless set.
    ///
    /// Of a longer stream the first half and the last half of the limit are kept, with a line between
    /// them that says how many bytes were dropped.
    pub fn capture_limit(mut self, bytes: usize) -> Self {
        self.capture_limit = bytes;
        self
    }

    /// Writes the standard output, as it comes, into a file that is created or emptied first.
    pub fn stdout_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.stdout_file = Some(path.into());
        self
    }

    /// Writes the standard error output, as it comes, into a file that is created or emptied first.
    pub fn stderr_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.stderr_file = Some(path.into());
        self
    }

    /// The number of bytes after which each file is ended by a note: 64 MiB unless set.
    pub fn file_limit(mut self, bytes: u64) -> Self {
        self.file_limit = bytes;
        self
    }

    /// Takes secrets out of both outputs: of what is kept in memory, of the files and of the lines for display. Numbers of
    /// bytes are those without secrets.
    pub fn redact(mut self, redactor: impl Into<Option<Redactor>>) -> Self {
        self.redactor = redactor.into();
        self
    }

    /// A token that ends the command early.
    pub fn cancel(mut self, token: CancellationToken) -> Self {
        self.cancel = Some(token);
        self
    }

    /// A function that gets each line of output as it comes, for display.
    ///
    /// It runs on the thread of the command and should be quick: while it runs, the tool's output waits
    /// and the time limit is not looked at. Of a line, it gets the first 8 KiB.
    pub fn on_line(mut self, show: impl FnMut(OutputStream, &str) + Send + 'static) -> Self {
        self.on_line = Some(Box::new(show));
        self
    }

    /// Says for which stage the command runs, so that whoever takes its run over from this process can end it. From then on
    /// it is not started any more.
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
        self.run = Some(RunOwnership::of(stage.run()));
        self
    }

    /// Refuses to start a command of a run that another process has taken over meanwhile.
    fn permitted(&self) -> Result<(), ProcessError> {
        match &self.run {
            Some(run) if !run.is_held() => Err(ProcessError::TakenOver),
            _ => Ok(()),
        }
    }

    /// What the command finds on its standard input, which ends behind it; without it, the input is empty.
    ///
    /// It is written as the command reads it, beside its output. A command that reads only a part of it, or nothing,
    /// does no wrong.
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

    /// Runs the command until it has ended and nothing of it is left.
    ///
    /// The result comes at the latest one second after the time limit and the grace period. If the
    /// future is dropped, the command is ended as by a cancelled token, in the background. A token that
    /// is cancelled already starts nothing.
    ///
    /// # Errors
    /// If the command cannot be started, an output file cannot be created, or the end of the command
    /// cannot be learnt. A command that fails is no error here: see [`ToolOutput::exit`].
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

    /// Faults that the system would report without naming their cause.
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
        let fault = match std::fs::metadata(path) {
            Ok(data) if data.is_dir() => return Ok(()),
            Ok(_) => io::ErrorKind::NotADirectory.into(),
            Err(fault) => fault,
        };
        Err(ProcessError::Directory {
            path: path.clone(),
            source: fault,
        })
    }

    /// The command of the standard library, without what depends on the system.
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

    fn spawn_fault(source: io::Error) -> ProcessError {
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

/// Whether a variable of our environment is one that commands get without asking for it.
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

/// Values of variables may be secret, so only their names are shown.
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

/// How a command ended.
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
    /// By itself, with this exit code; 0 is success.
    Code(i32),
    /// By a signal that the runner did not send.
    Signal(i32),
    /// Ended by the runner since its time was over, whatever its exit code was then.
    TimedOut,
    /// Ended by the runner since it was cancelled, whatever its exit code was then.
    Cancelled,
}

impl Exit {
    fn of(status: std::process::ExitStatus) -> Self {
        #[cfg(unix)]
        if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
            return Self::Signal(signal);
        }
        Self::Code(status.code().unwrap_or(-1))
    }

    /// Whether the command ended by itself with the exit code 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

/// What came of a command (Attractor 4.10).
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
    /// How it ended.
    pub exit: Exit,
    /// What is kept of the standard output.
    pub stdout: String,
    /// What is kept of the standard error output.
    pub stderr: String,
    /// How many bytes were written to the standard output.
    pub stdout_bytes: u64,
    /// How many bytes were written to the standard error output.
    pub stderr_bytes: u64,
    /// Whether the middle of a stream was dropped: see [`ShellCommand::capture_limit`].
    pub truncated: bool,
    /// Whether bytes that are not UTF-8 were replaced in `stdout` or `stderr`.
    pub lossy: bool,
    /// Why an output file is not complete, other than by its limit; such as a full disk.
    pub file_fault: Option<io::Error>,
    /// The time from the start until nothing of the command was left.
    pub duration: Duration,
    last_line: Option<String>,
}

impl ToolOutput {
    /// The last line of the standard output that is more than white space, trimmed; up to 4 KiB of it.
    ///
    /// It is looked for in what is kept: if the middle was dropped, behind the gap only.
    #[must_use]
    pub fn last_line(&self) -> Option<&str> {
        self.last_line.as_deref()
    }
}

/// Why a command gave no result.
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
    /// The name of a variable is empty or holds `=`, or its name or value holds a NUL byte.
    #[error("the variable `{name}` cannot be set: its name or value holds a character that is not allowed")]
    Variable {
        /// The name; the value is left out, since it may be secret.
        name: String,
    },
    /// An output file could not be created; nothing was started.
    #[error("cannot create the output file {}", path.display())]
    CreateFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// How the command ended could not be learnt; what was left of it is killed.
    #[error("cannot learn how the command ended")]
    Wait {
        /// The reason.
        source: io::Error,
    },
    /// Another process has taken over the run to which the command belongs; nothing was started, or it was killed at once.
    #[error("another process has taken the run over")]
    TakenOver,
    /// The thread of the command was lost, as by a panic in the function for lines; the command is killed.
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
    /// The sinks as the command asks for them; its function for lines moves here.
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
            file_fault: stdout.file_fault.or(stderr.file_fault),
            duration,
            last_line: stdout.last_line,
        }
    }
}
