//! The errors that end a command, and the exit codes.

use std::borrow::Cow;
use std::process::ExitCode;

use orchestra_engine::{StoreError, SystemError};
use orchestra_sessions::SessionError;
use orchestra_testkit::ScriptError;

/// The documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    RunFailed = 1,
    Usage = 2,
    Invalid = 3,
    Credentials = 4,
    WaitsForHuman = 5,
    Budget = 6,
    Owned = 7,
    /// Output could not be written. The code is `EX_IOERR` of `sysexits.h`.
    Output = 74,
    Cancelled = 130,
}

impl Exit {
    /// Returns this code, or `other` if this code is `Ok`.
    pub(crate) fn or(self, other: Exit) -> Exit {
        match self {
            Exit::Ok => other,
            _ => self,
        }
    }

    /// Returns the exit code of a store error.
    pub(crate) fn from_store_error(error: &StoreError) -> Exit {
        match error {
            StoreError::Owned { .. }
            | StoreError::Busy { .. }
            | StoreError::OwnProcess { .. }
            | StoreError::OwnershipLost { .. } => Exit::Owned,
            StoreError::Io { .. }
            | StoreError::Damaged { .. }
            | StoreError::JournalCut { .. }
            | StoreError::Foreign { .. }
            | StoreError::Tampered { .. }
            | StoreError::FolderGone { .. }
            | StoreError::Version { .. } => Exit::RunFailed,
            _ => Exit::Usage,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// An error that ends a command: a message of one line, and a hint that helps to fix it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CliError {
    pub(crate) exit: Exit,
    pub(crate) code: Cow<'static, str>,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    /// The command that resumes the run, if it can be resumed.
    pub(crate) resume: Option<String>,
}

impl CliError {
    pub(crate) fn usage(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> CliError {
        CliError {
            exit: Exit::Usage,
            code: code.into(),
            message: message.into(),
            help: None,
            resume: None,
        }
    }

    pub(crate) fn exit(mut self, exit: Exit) -> CliError {
        self.exit = exit;
        self
    }

    /// Returns the hint: how to raise the system limit that was exceeded, else the help of the error.
    pub(crate) fn advice(&self) -> Option<&str> {
        SystemError::limit_in(&self.message).or(self.help.as_deref())
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> CliError {
        self.help = Some(help.into());
        self
    }
}

impl From<ScriptError> for CliError {
    fn from(error: ScriptError) -> CliError {
        CliError {
            help: error.help(),
            ..CliError::usage(error.code(), error.to_string())
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> CliError {
        CliError::usage(error.code(), error.to_string()).exit(Exit::from_store_error(&error))
    }
}

impl From<SessionError> for CliError {
    fn from(error: SessionError) -> CliError {
        let converted = CliError::usage(error.code(), error.to_string());
        match error {
            SessionError::UnknownRun { .. } => converted.help("`status` lists the runs"),
            SessionError::AmbiguousRun { .. } | SessionError::NotARun { .. } => converted,
            _ => converted.exit(Exit::RunFailed),
        }
    }
}
