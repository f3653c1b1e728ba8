//! The errors of a local server.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use orchestra_engine::process::ProcessError;

/// The command that installs a server.
pub(super) const INSTALL: &str = "npm install --ignore-scripts @restatedev/restate-server@1.7.12";

/// An error of a [`LocalServer`](crate::LocalServer).
///
/// ```
/// use orchestra_restate::{LocalServer, LocalServerError};
///
/// let error = LocalServer::find(None, &["/no/project"], None).unwrap_err();
/// assert!(matches!(error, LocalServerError::NotInstalled));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalServerError {
    /// There is no server.
    #[error("no Restate server found; install one with `{}`", INSTALL)]
    NotInstalled,
    /// The program that was named is not a file.
    #[error(
        "the Restate server {} is not a file; install one with `{}`",
        program.display(),
        INSTALL
    )]
    NotAFile {
        /// The program.
        program: PathBuf,
    },
    /// The program could not be run.
    #[error("cannot run {} --version", program.display())]
    CannotRun {
        /// The program.
        program: PathBuf,
        /// The reason.
        source: ProcessError,
    },
    /// The program does not tell its version.
    #[error(
        "{} is not a Restate server: `--version` printed `{output}`; install one with `{}`",
        program.display(),
        INSTALL
    )]
    UnknownVersion {
        /// The program.
        program: PathBuf,
        /// The output of the program.
        output: String,
    },
    /// The program is older than version 1.7.
    #[error(
        "{} has the version {version}, but 1.7 or later is needed; install it with `{}`",
        program.display(),
        INSTALL
    )]
    TooOld {
        /// The program.
        program: PathBuf,
        /// Its version.
        version: String,
    },
    /// The name of the node cannot be the name of a folder.
    #[error("the node name `{name}` is invalid; use letters, digits, `-` and `_`")]
    NodeName {
        /// The name.
        name: String,
    },
    /// The data folder cannot be used.
    #[error("cannot create the data folder {}", path.display())]
    DataFolder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The server cannot listen at a port.
    #[error("cannot listen at port {port}; end the program that uses it, or choose another port")]
    Port {
        /// The port.
        port: u16,
        /// The reason.
        source: io::Error,
    },
    /// The thread of the server could not be started.
    #[error("cannot start a thread for the Restate server")]
    Thread {
        /// The reason.
        source: io::Error,
    },
    /// The server ended.
    #[error("the Restate server ended with {how}; its log {} ends with:\n{last_lines}", log.display())]
    Ended {
        /// The way in which it ended, such as `exit code 1`.
        how: String,
        /// The log.
        log: PathBuf,
        /// The last lines of the log.
        last_lines: String,
    },
    /// The server did not become ready. It was killed.
    #[error("the Restate server was not ready after {after:?}; see its log {}", log.display())]
    NotReady {
        /// The time limit.
        after: Duration,
        /// The log.
        log: PathBuf,
    },
}

impl LocalServerError {
    /// Returns whether another program took a port of the server before the server did.
    pub(super) fn is_port_in_use(&self) -> bool {
        matches!(self, LocalServerError::Ended { last_lines, .. } if last_lines.contains("in use"))
    }
}
