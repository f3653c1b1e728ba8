//! Programs of the engine itself that may start what others have chosen, such as git with filters of a repository.

use std::ffi::OsStr;
use std::io;
use std::process::{Child, Command, ExitStatus};

use crate::ownership::RunOwnership;

/// A program that runs as tools do: with the variables of a tool, in a process group of its own, and so that nothing of it
/// outlives the engine process.
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
    /// Prepares a command that has the variables that tools have, and no others.
    pub fn command(program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let variables = std::env::vars_os().filter(|(name, _)| super::is_inherited(name, false));
        command.env_clear().envs(variables);
        command
    }

    /// Starts a command. On Linux it is sent TERM when the thread that starts it ends, as it does with the process.
    ///
    /// One that is started for a run is not started where that is not this process's any more, and is ended by whoever takes
    /// the run over.
    ///
    /// # Errors
    ///
    /// The program, or the watcher that guards it, could not be started, or the run is not this process's.
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

    /// Returns the child, for its input and outputs; not to be waited for.
    pub fn child(&mut self) -> &mut Child {
        #[cfg(unix)]
        return &mut self.0.child;
        #[cfg(not(unix))]
        return &mut self.0;
    }

    /// Waits for the end of the program; with `sweep`, kills what it has left behind, which takes a look at all processes.
    ///
    /// # Errors
    ///
    /// The system does not tell how it ended.
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
