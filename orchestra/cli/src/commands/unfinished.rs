//! The unfinished runs of a runs folder.

use orchestra_engine::{RunFolder, StoreError};
use orchestra_sessions::{RunFilter, SessionStatus};

use crate::error::CliError;
use crate::runs::Runs;

/// A run that has not ended.
pub(super) struct UnfinishedRun {
    pub(super) id: String,
    /// Its folder; an error if it cannot be read.
    pub(super) folder: Result<RunFolder, StoreError>,
}

/// Returns the runs that have not ended, from the index of the runs folder, the latest first.
pub(super) fn unfinished_runs(runs: &Runs) -> Result<Vec<UnfinishedRun>, CliError> {
    if !runs.dir().is_dir() {
        return Ok(Vec::new());
    }
    let sessions = runs.index()?.list(&RunFilter::all())?.into_iter();
    let has_ended = |status: SessionStatus| {
        matches!(
            status,
            SessionStatus::Success | SessionStatus::Fail | SessionStatus::Cancelled
        )
    };
    let unfinished = sessions.filter(|session| !has_ended(session.status));
    let unfinished = unfinished.map(|session| UnfinishedRun {
        id: session.run.to_string(),
        folder: RunFolder::open(&session.folder),
    });
    Ok(unfinished.collect())
}
