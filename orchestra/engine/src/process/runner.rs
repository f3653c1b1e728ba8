//! The runner of tool commands, behind a trait so that tests can supply their own.

use std::ffi::OsStr;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::command::ShellCommand;
use super::output::{Exit, OutputStream, ProcessError, ToolOutput};
use super::streams::Streams;
#[cfg(unix)]
use super::supervise;
#[cfg(windows)]
use super::windows;

/// The future of a running command.
pub type ProcessFuture<'a> = Pin<Box<dyn Future<Output = Result<ToolOutput, ProcessError>> + Send + 'a>>;

/// A runner of the commands of tool stages.
///
/// [`SystemProcesses`] starts processes. Other implementations serve tests and return a result without starting
/// anything.
///
/// ```
/// use std::time::Duration;
/// use orchestra_engine::Engine;
/// use orchestra_engine::process::{Exit, ProcessFuture, ProcessRunner, ShellCommand};
///
/// /// Every command says that it was run, and succeeds.
/// struct Polite;
/// impl ProcessRunner for Polite {
///     fn run<'a>(&'a self, command: ShellCommand) -> ProcessFuture<'a> {
///         let said = format!("ran {}\n", command.text());
///         Box::pin(async move { command.simulate(Exit::Code(0), said.as_bytes(), b"", Duration::ZERO) })
///     }
/// }
/// let engine = Engine::builder().processes(Polite).build()?;
/// # Ok::<(), orchestra_engine::BuildError>(())
/// ```
pub trait ProcessRunner: Send + Sync + 'static {
    /// Runs a command like [`ShellCommand::run`], until it has ended and none of its processes is left.
    fn run<'a>(&'a self, command: ShellCommand) -> ProcessFuture<'a>;
}

/// The runner that starts processes of the system.
///
/// ```
/// use orchestra_engine::process::{Exit, ProcessRunner, ShellCommand, SystemProcesses};
///
/// # #[cfg(unix)]
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let output = SystemProcesses.run(ShellCommand::new("exit 3")).await?;
/// assert_eq!(output.exit, Exit::Code(3));
/// # Ok::<(), orchestra_engine::process::ProcessError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemProcesses;

impl ProcessRunner for SystemProcesses {
    fn run<'a>(&'a self, command: ShellCommand) -> ProcessFuture<'a> {
        Box::pin(command.run())
    }
}

/// The accessors that a [`ProcessRunner`] of a test needs.
impl ShellCommand {
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

    /// Returns the text that the shell reads.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the value of a variable that was [set](Self::variable) for the command.
    #[must_use]
    pub fn variable_value(&self, name: &str) -> Option<&OsStr> {
        let mut set = self.variables.iter().rev();
        set.find(|(known, _)| known == name)
            .map(|(_, value)| value.as_os_str())
    }

    /// Returns the time after which the command is ended.
    #[must_use]
    pub fn time_limit(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns the token that ends the command early.
    #[must_use]
    pub fn cancellation(&self) -> Option<&CancellationToken> {
        self.cancel.as_ref()
    }

    /// Returns the result of a command with this output and exit, without running anything. The output is processed
    /// like real output: it passes through the redactor, into the files, and within the limits.
    ///
    /// # Errors
    /// Fails like [`run`](Self::run) if the command could not be started because its variables or its directory are
    /// invalid, or if an output file cannot be created.
    pub fn simulate(
        mut self,
        exit: Exit,
        stdout: &[u8],
        stderr: &[u8],
        duration: Duration,
    ) -> Result<ToolOutput, ProcessError> {
        self.check()?;
        let mut streams = Streams::create(&mut self)?;
        streams.feed(OutputStream::Stdout, stdout);
        streams.feed(OutputStream::Stderr, stderr);
        Ok(streams.finish(exit, duration))
    }
}
