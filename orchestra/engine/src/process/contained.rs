//! Programs of the engine that may start untrusted programs, such as git with the filters of a repository.

use std::ffi::OsStr;
use std::io;
use std::process::{Child, Command, ExitStatus};

use crate::ownership::RunOwnership;

/// A program that runs like a tool: with the variables of a tool, in a process group of its own, and such that none of
/// its processes outlives the engine process.
///
/// Arguments, input and output are those of [`std::process::Command`]. The thread that starts it must also wait for it.
///
/// ```
/// use orchestra_engine::process::ContainedProgram;
/// use std::io::Read as _;
/// use std::process::Stdio;
///
/// let mut command = ContainedProgram::command("git");
/// command.arg("--version").stdout(Stdio::piped());
/// let mut program = ContainedProgram::start(command, None)?;
/// let mut text = String::new();
/// if let Some(mut pipe) = program.child().stdout.take() {
///     pipe.read_to_string(&mut text)?;
/// }
/// assert!(program.wait(false)?.success());
/// assert!(text.starts_with("git version"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ContainedProgram(Inner);

#[cfg(unix)]
type Inner = super::supervise::Leader;
#[cfg(not(unix))]
type Inner = Child;

impl ContainedProgram {
    /// Creates a command with the variables of a tool, and no others.
    pub fn command(program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let variables = std::env::vars_os().filter(|(name, _)| super::variables::is_inherited(name, false));
        command.env_clear().envs(variables);
        command
    }

    /// Starts a command. On Linux it receives TERM when the thread that starts it ends, and therefore also when the
    /// process ends.
    ///
    /// If it belongs to a run, it is only started while this process owns the run, and a process that takes over the
    /// run ends it.
    ///
    /// # Errors
    /// Fails if the program, or the watcher that guards it, cannot be started, or if this process does not own the run.
    pub fn start(command: Command, run: Option<&RunOwnership>) -> io::Result<Self> {
        #[cfg(unix)]
        {
            super::watcher::ensure()?;
            super::supervise::Leader::start(command, run, super::unix::TERM).map(Self)
        }
        #[cfg(not(unix))]
        {
            if run.is_some_and(|run| !run.is_held()) {
                return Err(io::Error::other("another process has taken the run over"));
            }
            let mut command = command;
            command.spawn().map(Self)
        }
    }

    /// Returns the child, for its input and outputs. Do not wait for it.
    pub fn child(&mut self) -> &mut Child {
        #[cfg(unix)]
        return &mut self.0.child;
        #[cfg(not(unix))]
        return &mut self.0;
    }

    /// Waits for the end of the program. With `sweep`, also kills the processes that it left behind, which inspects all
    /// processes of the system.
    ///
    /// # Errors
    /// Fails if the exit status cannot be determined.
    pub fn wait(mut self, sweep: bool) -> io::Result<ExitStatus> {
        #[cfg(unix)]
        {
            const LONG: std::time::Duration = std::time::Duration::from_secs(3600);
            if sweep {
                while !self.0.await_end(LONG) {}
                self.0.destroy();
            }
            self.0.reap()
        }
        #[cfg(not(unix))]
        {
            let _ = sweep;
            self.0.wait()
        }
    }

    /// Kills the program and everything that it started.
    pub fn kill(mut self) {
        #[cfg(unix)]
        {
            self.0.destroy();
            let status = self.0.reap();
            tracing::debug!(?status, "a program was killed");
        }
        #[cfg(not(unix))]
        {
            let killed = self.0.kill().and_then(|()| self.0.wait());
            tracing::debug!(?killed, "a program was killed");
        }
    }
}
