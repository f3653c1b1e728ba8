//! The errors of runs that cannot start, cannot be resumed, or stop unexpectedly.

use std::path::Path;

use orchestra_engine::{RunError, RunFailure, RunFile, StartError, StoreError};

use crate::error::{CliError, Exit};
use crate::runs::Runs;
use crate::runs::stopped::StoppedRun;

/// The name of the journal, as errors report it.
const JOURNAL: &str = RunFile::Journal.name();

/// Converts the error of a run that cannot start or be resumed.
pub(crate) fn start_error(error: &StartError, runs: &Runs, folder: Option<&Path>) -> CliError {
    let command =
        |verb: &str, options: &[&str]| runs.command(verb, folder.unwrap_or(Path::new("RUN")), options);
    let failed = |exit, help: Option<String>| CliError {
        exit,
        code: error.code().into(),
        message: error.to_string(),
        help,
        resume: None,
    };
    match error {
        StartError::Refused(refusals) => {
            let no_model = refusals.list.iter().all(|refusal| refusal.code == "no_backend");
            failed(
                if no_model {
                    Exit::Credentials
                } else {
                    Exit::Invalid
                },
                None,
            )
        }
        StartError::Inputs { .. } => failed(
            Exit::Usage,
            Some("give each input with `--set KEY=VALUE`".to_owned()),
        ),
        StartError::Changed(_) => failed(
            Exit::Invalid,
            Some("undo the change, or go on all the same with `--accept-changes`".to_owned()),
        ),
        StartError::IncompatibleState { .. } => failed(
            Exit::Invalid,
            Some(format!("`{}` lists them", command("checkpoints", &[]))),
        ),
        StartError::ContractChanged { .. } => failed(
            Exit::Invalid,
            Some("start a new run, or make the inputs of the pipeline optional".to_owned()),
        ),
        StartError::AlreadyFinished(over) if is_failed(over.failure.as_ref()) => failed(
            Exit::Usage,
            Some(format!("retry it with `{}`", command("resume", &["--retry"]))),
        ),
        StartError::NotFailed { .. } => failed(
            Exit::Usage,
            Some(format!("resume it with `{}`", command("resume", &[]))),
        ),
        StartError::NothingToRetry { .. } => failed(
            Exit::Usage,
            Some(format!(
                "change the pipeline, then `{}`",
                command("resume", &["--retry", "--accept-changes"])
            )),
        ),
        StartError::NothingToReplay { .. } => failed(
            Exit::Usage,
            Some(format!(
                "name an earlier one: `{}` lists them",
                command("checkpoints", &[])
            )),
        ),
        StartError::AlreadyFinished(_) => failed(
            Exit::Usage,
            Some(format!(
                "`{}` lists the checkpoints from which a new run can begin",
                command("checkpoints", &[])
            )),
        ),
        StartError::Store(store @ StoreError::Owned { .. }) => failed(
            Exit::from_store_error(store),
            Some(format!(
                "follow it with `{}`; `--take-over` takes it from a process that hangs",
                command("attach", &[])
            )),
        ),
        StartError::Store(
            store @ (StoreError::JournalCut { .. }
            | StoreError::Damaged { .. }
            | StoreError::NoRun { missing: JOURNAL, .. }),
        ) => failed(
            Exit::from_store_error(store),
            Some(format!(
                "go on without what is lost with `{}`",
                command("resume", &["--accept-loss"])
            )),
        ),
        StartError::Store(store) => failed(Exit::from_store_error(store), None),
        StartError::Workspace(_) => failed(Exit::Invalid, None),
        _ => failed(Exit::Usage, None),
    }
}

/// Returns whether a run that ended with this failure can be retried.
fn is_failed(failure: Option<&RunFailure>) -> bool {
    failure.is_some_and(|failure| !matches!(failure, RunFailure::Cancelled { .. }))
}

/// Converts the error of a run that stopped unexpectedly.
pub(crate) fn run_error(error: &RunError, stopped: &StoppedRun<'_>) -> CliError {
    let lost_ownership = matches!(
        error,
        RunError::Store {
            source: StoreError::OwnershipLost { .. },
            ..
        }
    );
    let is_gone = matches!(
        error,
        RunError::Store {
            source: StoreError::FolderGone { .. },
            ..
        }
    );
    CliError {
        exit: if lost_ownership {
            Exit::Owned
        } else {
            Exit::RunFailed
        },
        code: error.code().into(),
        message: error.to_string(),
        help: None,
        resume: if lost_ownership || is_gone {
            None
        } else {
            stopped.resume()
        },
    }
}
