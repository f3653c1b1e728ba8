//! Why a command ended otherwise than well, and the exit code that says so.

use std::process::ExitCode;

use orchestra_testkit::ScriptError;

/// The exit codes of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    RunFailed = 1,
    Usage = 2,
    Invalid = 3,
    Credentials = 4,
    WaitsForHuman = 5,
    Cancelled = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// An error that ends a command: one line of what, and how to mend it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CliError {
    pub(crate) exit: Exit,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

impl CliError {
    pub(crate) fn usage(code: &'static str, message: impl Into<String>) -> CliError {
        CliError {
            exit: Exit::Usage,
            code,
            message: message.into(),
            help: None,
        }
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
