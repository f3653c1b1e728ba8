//! The program `git`, behind a trait.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use orchestra_engine::RunOwnership;
use orchestra_engine::process::{ContainedProgram, Input, Program};

/// The oldest supported git: the first version with `merge-tree --write-tree`.
const MIN_VERSION: (u32, u32) = (2, 38);

/// Default time limit of a command.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit for reading the remaining output of a killed command.
const REMAINING_OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs git commands. Implemented by [`SystemGit`], and by fakes in tests.
///
/// ```
/// use orchestra_workspace::{Git, GitCommand, GitError, GitOutput};
/// struct Silent;
/// impl Git for Silent {
///     fn run(&self, _command: &GitCommand) -> Result<GitOutput, GitError> {
///         Ok(GitOutput { status: 0, stdout: Vec::new(), stderr: String::new() })
///     }
/// }
/// assert_eq!(Silent.run(&GitCommand::new(".").arg("status")).unwrap().status, 0);
/// ```
pub trait Git: Send + Sync + 'static {
    /// Runs one command and waits for its end.
    ///
    /// # Errors
    ///
    /// Returns an error if the command could not be run or exceeded its time limit. A non-zero exit status is not an
    /// error.
    fn run(&self, command: &GitCommand) -> Result<GitOutput, GitError>;
}

/// A git command: a list of arguments that no shell interprets.
///
/// ```
/// use orchestra_workspace::GitCommand;
/// let command = GitCommand::new("/srv/backend").args(["rev-parse", "HEAD"]);
/// assert_eq!(command.name(), "rev-parse");
/// assert_eq!(command.arguments().len(), 2);
/// ```
#[derive(Debug, Clone)]
pub struct GitCommand {
    folder: PathBuf,
    settings: Vec<String>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    stdin: Option<Vec<u8>>,
    timeout: Duration,
    held: Option<Arc<File>>,
    programs: bool,
    run: Option<RunOwnership>,
}

impl GitCommand {
    /// Creates a command that runs in a folder.
    pub fn new(folder: impl Into<PathBuf>) -> GitCommand {
        GitCommand {
            folder: folder.into(),
            settings: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            stdin: None,
            timeout: DEFAULT_TIMEOUT,
            held: None,
            programs: false,
            run: None,
        }
    }

    /// Adds an argument. The first argument is the subcommand.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> GitCommand {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds several arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = A>) -> GitCommand {
        arguments.into_iter().fold(self, GitCommand::arg)
    }

    /// Adds a configuration setting for this command alone, such as `core.quotePath=false`.
    #[must_use]
    pub fn setting(mut self, setting: impl Into<String>) -> GitCommand {
        self.settings.push(setting.into());
        self
    }

    /// Sets an environment variable of the command.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> GitCommand {
        self.environment
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the standard input. It is empty by default.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> GitCommand {
        self.stdin = Some(bytes.into());
        self
    }

    /// Sets the time limit. The default is 60 seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> GitCommand {
        self.timeout = timeout;
        self
    }

    /// Passes a locked file to the command as its standard input. If the caller is killed, the lock is held until the
    /// command ends. Ignored for a command that has its own standard input.
    #[must_use]
    pub fn holding(mut self, lock: Arc<File>) -> GitCommand {
        self.held = Some(lock);
        self
    }

    /// Declares that git may start programs of the user, such as filters. Their remaining processes are killed when the
    /// command ends.
    #[must_use]
    pub(crate) fn programs(mut self, programs: bool) -> GitCommand {
        self.programs = programs;
        self
    }

    /// Assigns the command to a run. It is not run if this process no longer owns the run, and a process that takes
    /// over the run kills it.
    #[must_use]
    pub(crate) fn of_run(mut self, run: RunOwnership) -> GitCommand {
        self.run = Some(run);
        self
    }

    /// Returns the subcommand.
    pub fn name(&self) -> String {
        self.arguments
            .first()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// Returns all arguments, the subcommand first.
    pub fn arguments(&self) -> &[OsString] {
        &self.arguments
    }

    /// Returns the folder in which the command runs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// The result of a command.
///
/// ```
/// use orchestra_workspace::{Git, GitCommand, SystemGit};
/// let output = SystemGit::find().unwrap().run(&GitCommand::new(".").arg("--version")).unwrap();
/// assert_eq!(output.status, 0);
/// assert!(output.stdout.starts_with(b"git version"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitOutput {
    /// The exit status; 128 plus the signal number if the command was killed by a signal.
    pub status: i32,
    /// The bytes of standard output.
    pub stdout: Vec<u8>,
    /// Standard error as text.
    pub stderr: String,
}

/// The reason why a git command could not be run.
///
/// ```
/// use orchestra_workspace::GitError;
/// let error = GitError::TooOld { found: "2.30.1".into() };
/// assert_eq!(error.code(), "git_too_old");
/// assert_eq!(error.to_string(), "git 2.30.1 is too old; 2.38 or newer is needed");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// There is no program `git`.
    #[error("there is no program `git`; install git 2.38 or newer, or add its folder to PATH")]
    Missing,
    /// The program is too old.
    #[error("git {found} is too old; 2.38 or newer is needed")]
    TooOld {
        /// The version that was found.
        found: String,
    },
    /// The version of the program is unknown.
    #[error("`git --version` does not say a version but `{}`", .output.escape_debug())]
    UnknownVersion {
        /// The output of `git --version`.
        output: String,
    },
    /// The operating system could not run the program.
    #[error("`git {command}` could not be run: {source}")]
    Failed {
        /// The subcommand.
        command: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another process has taken over the run, or the run has ended.
    #[error("`git {command}` was not run: the run is not this process's any more")]
    TakenOver {
        /// The subcommand.
        command: String,
    },
    /// The command exceeded its time limit and was killed.
    #[error("`git {command}` took longer than {} s and was ended", .after.as_secs())]
    TimedOut {
        /// The subcommand.
        command: String,
        /// The time limit.
        after: Duration,
    },
}

impl GitError {
    /// Returns the machine-readable error code.
    pub fn code(&self) -> &'static str {
        match self {
            GitError::Missing => "git_missing",
            GitError::TooOld { .. } | GitError::UnknownVersion { .. } => "git_too_old",
            GitError::Failed { .. } => "git_failed",
            GitError::TimedOut { .. } => "git_timeout",
            GitError::TakenOver { .. } => "store_ownership_lost",
        }
    }
}

/// The program `git` of this machine.
///
/// Each command runs with the C locale, without prompts, hooks and background work. It inherits the environment
/// variables that tools inherit, and `XDG_CONFIG_HOME`. Author and committer are fixed, so no git identity is needed.
/// Commands are contained like tools: neither git nor the processes that it starts outlive this process.
///
/// ```
/// use orchestra_workspace::SystemGit;
/// let git = SystemGit::find().unwrap();
/// assert!(git.version() >= (2, 38));
/// ```
#[derive(Debug, Clone)]
pub struct SystemGit {
    program: PathBuf,
    version: (u32, u32),
    environment: Vec<(OsString, OsString)>,
}

impl SystemGit {
    /// Finds `git` in PATH and checks its version.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none, or if it is older than 2.38.
    pub fn find() -> Result<SystemGit, GitError> {
        SystemGit::at("git")
    }

    /// Uses the given program and checks its version.
    ///
    /// # Errors
    ///
    /// Returns an error if the program does not exist, or if it is older than 2.38.
    pub fn at(program: impl Into<PathBuf>) -> Result<SystemGit, GitError> {
        let mut git = SystemGit {
            program: program.into(),
            version: MIN_VERSION,
            environment: Vec::new(),
        };
        let output = git.run(&GitCommand::new(".").arg("--version"))?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let found = text.strip_prefix("git version ").unwrap_or_default();
        let mut numbers = found.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return Err(GitError::UnknownVersion {
                output: text.chars().take(200).collect(),
            });
        };
        git.version = (major, minor);
        if git.version < MIN_VERSION {
            return Err(GitError::TooOld {
                found: found.to_owned(),
            });
        }
        Ok(git)
    }

    /// Sets an environment variable for all commands, such as `GIT_COMMITTER_DATE` for reproducible commits.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> SystemGit {
        self.environment
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Returns the major and the minor version.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    fn program(&self, command: &GitCommand) -> io::Result<Program> {
        let mut process = Program::new(&self.program);
        if let Some(folder) = std::env::var_os("XDG_CONFIG_HOME") {
            process.env("XDG_CONFIG_HOME", folder);
        }
        process.arg("-C").arg(&command.folder);
        let fixed = [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "core.quotePath=false",
            "gc.auto=0",
            "maintenance.auto=false",
            "i18n.commitEncoding=UTF-8",
            "advice.addEmbeddedRepo=false",
            "core.pager=cat",
            "credential.helper=",
            "commit.gpgSign=false",
            "tag.gpgSign=false",
            "log.showSignature=false",
            "submodule.recurse=false",
            "protocol.ext.allow=never",
        ];
        for setting in fixed
            .into_iter()
            .chain(command.settings.iter().map(String::as_str))
        {
            process.arg("-c").arg(setting);
        }
        process.args(&command.arguments);
        process.env_remove("LANGUAGE").env("LC_ALL", "C");
        // An empty value disables the askpass program and keeps git from looking for another one.
        process
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "")
            .env("SSH_ASKPASS", "");
        process
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_PAGER", "cat")
            .env("GIT_EDITOR", ":")
            .env("GIT_SSH_COMMAND", "ssh");
        for role in ["AUTHOR", "COMMITTER"] {
            process.env(format!("GIT_{role}_NAME"), "Orchestra");
            process.env(format!("GIT_{role}_EMAIL"), "orchestra@localhost");
        }
        for (name, value) in self.environment.iter().chain(&command.environment) {
            process.env(name, value);
        }
        process.input(match (&command.stdin, &command.held) {
            (Some(_), _) => Input::Pipe,
            (None, Some(lock)) => Input::File(lock.try_clone()?),
            (None, None) => Input::Empty,
        });
        Ok(process)
    }
}

impl Git for SystemGit {
    fn run(&self, command: &GitCommand) -> Result<GitOutput, GitError> {
        let failed = |source: io::Error| GitError::Failed {
            command: command.name(),
            source,
        };
        let process = self.program(command).map_err(failed)?;
        let (program, pipes) = match ContainedProgram::start(process, command.run.as_ref()) {
            Err(_) if command.run.as_ref().is_some_and(|run| !run.is_held()) => {
                return Err(GitError::TakenOver {
                    command: command.name(),
                });
            }
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Err(GitError::Missing),
            other => other.map_err(failed)?,
        };
        // Fails if the command ends before it has read everything; the exit status tells in that case.
        if let (Some(bytes), Some(mut pipe)) = (command.stdin.clone(), pipes.stdin) {
            spawn(move || drop(pipe.write_all(&bytes))).map_err(failed)?;
        }
        let (sender, outputs) = channel();
        read_all(pipes.stdout, 0, &sender).map_err(failed)?;
        read_all(pipes.stderr, 1, &sender).map_err(failed)?;
        drop(sender);
        let deadline = Instant::now().checked_add(command.timeout);
        let Some([stdout, stderr]) = collect(&outputs, deadline) else {
            program.kill();
            // Limit the wait: other processes may still hold the pipes.
            let _ = collect(&outputs, Instant::now().checked_add(REMAINING_OUTPUT_TIMEOUT));
            return Err(GitError::TimedOut {
                command: command.name(),
                after: command.timeout,
            });
        };
        let status = program.wait(command.programs).map_err(failed)?;
        Ok(GitOutput {
            status: status_number(status),
            stdout,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        })
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name("orchestra-git".to_owned())
        .spawn(work)
        .map(drop)
}

/// Reads a pipe to its end in a separate thread, so that a full pipe never blocks the command.
fn read_all(
    mut pipe: impl Read + Send + 'static,
    which: usize,
    sender: &Sender<(usize, Vec<u8>)>,
) -> io::Result<()> {
    let sender = sender.clone();
    spawn(move || {
        let mut bytes = Vec::new();
        // Use what was read before a broken pipe; the exit status reports the failure.
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send((which, bytes));
    })
}

/// Returns both outputs, or `None` if the deadline passes first.
fn collect(outputs: &Receiver<(usize, Vec<u8>)>, deadline: Option<Instant>) -> Option<[Vec<u8>; 2]> {
    let mut both = [Vec::new(), Vec::new()];
    loop {
        let received = match deadline {
            Some(deadline) => outputs.recv_timeout(deadline.saturating_duration_since(Instant::now())),
            None => outputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok((which, bytes)) => {
                if let Some(slot) = both.get_mut(which) {
                    *slot = bytes;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Some(both),
            Err(RecvTimeoutError::Timeout) => return None,
        }
    }
}

fn status_number(status: std::process::ExitStatus) -> i32 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return 128 + signal;
    }
    status.code().unwrap_or(-1)
}
