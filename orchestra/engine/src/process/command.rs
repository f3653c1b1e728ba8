//! Shell commands with their options.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, PipeWriter};
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::capture::{OnLine, SHOWN_LINE};
use super::output::{OutputStream, ProcessError};
use super::program::{Input, Program};
use super::variables::{is_inherited, same_name};
use crate::limit::SystemError;
use crate::ownership::RunOwnership;
use crate::redact::Redactor;

/// An absolute path, so that `PATH` does not decide which shell reads the commands.
#[cfg(unix)]
const SHELL: &str = "/bin/sh";
#[cfg(windows)]
const SHELL: &str = "cmd";

/// The standard input of a command.
pub(super) enum CommandInput {
    Bytes(Vec<u8>),
    /// A function that gets the pipe.
    Pipe(Box<dyn FnOnce(PipeWriter) + Send>),
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
    pub(super) text: String,
    /// The program and its arguments, if no shell reads the command.
    pub(super) direct: Option<(OsString, Vec<OsString>)>,
    directory: Option<PathBuf>,
    inherit: Vec<OsString>,
    minimal: bool,
    pub(super) variables: Vec<(OsString, OsString)>,
    pub(super) timeout: Option<Duration>,
    pub(super) grace: Duration,
    pub(super) capture_limit: usize,
    pub(super) stdout_file: Option<PathBuf>,
    pub(super) stderr_file: Option<PathBuf>,
    pub(super) file_limit: u64,
    pub(super) cancel: Option<CancellationToken>,
    pub(super) on_line: Option<OnLine>,
    pub(super) line_limit: usize,
    pub(super) input: Option<CommandInput>,
    pub(super) redactor: Option<Redactor>,
    /// The run that the command belongs to. Only the owner of the run starts it.
    pub(super) run: Option<RunOwnership>,
}

impl ShellCommand {
    /// Creates a command from the text that the shell reads.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            direct: None,
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
            line_limit: SHOWN_LINE,
            input: None,
            redactor: None,
            run: None,
        }
    }

    /// Creates a command that starts a program with exactly these arguments, without a shell. A name without a slash is
    /// searched for in `PATH`.
    ///
    /// ```
    /// use orchestra_engine::process::ShellCommand;
    ///
    /// # #[cfg(unix)]
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let output = ShellCommand::without_shell("printf", ["%s", "$(id); 'as it is'"]).run().await?;
    /// assert_eq!(output.stdout, "$(id); 'as it is'");
    /// # Ok::<(), orchestra_engine::process::ProcessError>(())
    /// # }).unwrap();
    /// ```
    pub fn without_shell(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        let program = program.into();
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        let words = std::iter::once(&program).chain(&arguments);
        let text: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        Self {
            direct: Some((program.clone(), arguments.clone())),
            ..Self::new(text.join(" "))
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
    /// A variable that is set overrides an inherited one. [`MARK_VARIABLE`](super::MARK_VARIABLE) cannot be set. Linux
    /// limits a variable to 128 KiB; the start fails if it is longer.
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
    /// and the time limit is not checked. The function gets at most the first 8 KiB of a line, unless
    /// [`line_limit`](Self::line_limit) is set.
    pub fn on_line(mut self, show: impl FnMut(OutputStream, &str) + Send + 'static) -> Self {
        self.on_line = Some(Box::new(show));
        self
    }

    /// Sets the number of bytes of a line that the function of [`on_line`](Self::on_line) gets. The default is 8 KiB.
    pub fn line_limit(mut self, bytes: usize) -> Self {
        self.line_limit = bytes;
        self
    }

    /// Assigns the command to a run. Only the owner of the run starts it, and a process that takes over the run ends it.
    pub(crate) fn of_run(mut self, run: RunOwnership) -> Self {
        self.run = Some(run);
        self
    }

    /// Returns an error if another process has taken over the run of the command.
    pub(super) fn permitted(&self) -> Result<(), ProcessError> {
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
        self.input = Some(CommandInput::Bytes(bytes.into()));
        self
    }

    /// Sets a function that gets the pipe of the standard input as soon as the command has started, for a command that
    /// is talked to while it runs. The input ends when the pipe is dropped. A command that does not read lets writers
    /// wait, so write to the pipe on a thread of its own. Replaces an [input](Self::input).
    ///
    /// ```
    /// use std::io::Write as _;
    /// use orchestra_engine::process::ShellCommand;
    ///
    /// # #[cfg(unix)]
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let echoed = ShellCommand::new("read name; echo \"hello, $name\"")
    ///     .input_pipe(|mut pipe| drop(std::thread::spawn(move || writeln!(pipe, "Ada"))))
    ///     .run()
    ///     .await?;
    /// assert_eq!(echoed.stdout, "hello, Ada\n");
    /// # Ok::<(), orchestra_engine::process::ProcessError>(())
    /// # }).unwrap();
    /// ```
    pub fn input_pipe(mut self, take: impl FnOnce(PipeWriter) + Send + 'static) -> Self {
        self.input = Some(CommandInput::Pipe(Box::new(take)));
        self
    }

    /// Checks for errors that the system would report without naming their cause.
    pub(super) fn check(&self) -> Result<(), ProcessError> {
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

    /// Returns the program with its input and variables: the shell, on Windows without its arguments, or that which is
    /// started without one.
    pub(super) fn program(&self) -> Program {
        let inherited = std::env::vars_os().filter(|(name, _)| self.inherits(name));
        let mut program = match &self.direct {
            Some((path, arguments)) => {
                let mut program = Program::with_variables(path, inherited);
                program.args(arguments);
                program
            }
            None => {
                let mut program = Program::with_variables(SHELL, inherited);
                if cfg!(unix) {
                    program.args(["-c", "--", &self.text]);
                }
                program
            }
        };
        for (name, value) in &self.variables {
            program.env(name, value);
        }
        if let Some(directory) = &self.directory {
            program.directory(directory);
        }
        if self.input.is_some() {
            program.input(Input::Pipe);
        }
        program
    }

    fn inherits(&self, name: &OsStr) -> bool {
        is_inherited(name, self.minimal) || self.inherit.iter().any(|allowed| same_name(allowed, name))
    }

    /// Returns the error of a command that could not be started.
    pub(super) fn start_error(&self, source: io::Error) -> ProcessError {
        match &self.direct {
            Some((program, _)) => Self::error_of(program.into(), source),
            None => Self::spawn_error(source),
        }
    }

    pub(super) fn spawn_error(source: io::Error) -> ProcessError {
        Self::error_of(PathBuf::from(SHELL), source)
    }

    fn error_of(path: PathBuf, source: io::Error) -> ProcessError {
        let named = SystemError(&source);
        let source = match named.limit() {
            Some(_) => io::Error::new(source.kind(), named.to_string()),
            None => source,
        };
        ProcessError::Spawn { path, source }
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
