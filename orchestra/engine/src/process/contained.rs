//! Programs of the engine that may start untrusted programs, such as git with the filters of a repository.

use std::io;
use std::process::ExitStatus;

use super::program::{Pipes, Program};
use crate::ownership::RunOwnership;

/// A program that runs like a tool: in a process group of its own, and such that none of its processes outlives the
/// engine process.
///
/// The thread that starts it must also wait for it.
///
/// ```
/// use orchestra_engine::process::{ContainedProgram, Program};
/// use std::io::Read as _;
///
/// let mut git = Program::new("git");
/// git.arg("--version");
/// let (program, mut pipes) = ContainedProgram::start(git, None)?;
/// let mut text = String::new();
/// pipes.stdout.read_to_string(&mut text)?;
/// assert!(program.wait(false)?.success());
/// assert!(text.starts_with("git version"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ContainedProgram(Inner);

#[cfg(unix)]
type Inner = super::supervise::Leader;
#[cfg(not(unix))]
type Inner = std::process::Child;

impl ContainedProgram {
    /// Starts a program. On Linux it receives TERM when the thread that starts it ends, and therefore also when the
    /// process ends.
    ///
    /// If it belongs to a run, it is only started while this process owns the run, and a process that takes over the
    /// run ends it.
    ///
    /// # Errors
    /// Fails if the program, or the watcher that guards it, cannot be started, or if this process does not own the run.
    pub fn start(program: Program, run: Option<&RunOwnership>) -> io::Result<(Self, Pipes)> {
        #[cfg(unix)]
        {
            super::watcher::ensure()?;
            let (leader, pipes) =
                super::supervise::Leader::start(program, run, rustix::process::Signal::TERM)?;
            Ok((Self(leader), pipes))
        }
        #[cfg(not(unix))]
        {
            if run.is_some_and(|run| !run.is_held()) {
                return Err(io::Error::other("another process has taken the run over"));
            }
            let mut child = program.to_std()?.spawn()?;
            let pipes = Pipes::of(&mut child)?;
            Ok((Self(child), pipes))
        }
    }

    /// Waits for the end of the program. With `sweep`, also kills the processes that it left behind, which may inspect all
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
