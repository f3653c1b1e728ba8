//! Work that blocks on git, and its errors for the engine.

use orchestra_engine::{StageEnd, WorkspaceError};

use crate::error::GitWorkspaceError;

/// Converts an error to that of the engine.
pub(crate) fn error_of(error: &GitWorkspaceError) -> WorkspaceError {
    WorkspaceError::new(error.code(), error.to_string())
}

/// Runs work that blocks on git outside of the threads that run stages.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, GitWorkspaceError> + Send + 'static,
) -> Result<T, WorkspaceError> {
    match orchestra_engine::beside(work).await {
        Ok(done) => done.map_err(|error| error_of(&error)),
        Err(error) => Err(WorkspaceError::new("workspace_io", error.to_string())),
    }
}

/// Returns the end of a stage whose files cannot be prepared or committed.
pub(crate) fn failed(error: WorkspaceError) -> Box<StageEnd> {
    Box::new(error.outcome().into())
}
