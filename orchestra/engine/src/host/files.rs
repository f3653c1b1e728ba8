//! The files of hosted attempts.

use orchestra_core::Snapshot;
use serde_json::Value;

use crate::host::AttemptHost;
use crate::host::one_pool::has_files;
use crate::id::RunId;
use crate::run::workspace::{OpenedWorkspace, RunEnd, WorkspaceEnd, WorkspaceError, WorkspaceRun};
use crate::setup::resolve::needs_handler;

impl AttemptHost {
    /// Returns the pool of workers that has the files of the pipeline's runs, if the engine has a workspace: all stages are
    /// in it.
    pub fn workspace_pool(&self) -> Option<&str> {
        if !has_files(&self.settings) {
            return None;
        }
        self.pipeline.stages().find(|stage| needs_handler(*stage))?.pool()
    }

    /// Opens the workspace for attempts of a run. `kept` is the data with which it was opened first; the data of the first
    /// time must be stored before an attempt begins. Concurrent attempts of a run share what was opened. Returns `None` if
    /// the engine has no workspace.
    ///
    /// # Errors
    /// The run cannot have files.
    pub async fn open_workspace(
        &self,
        run: &RunId,
        kept: Option<&Value>,
    ) -> Result<Option<OpenedWorkspace>, WorkspaceError> {
        let run = WorkspaceRun::new(run, &self.pipeline, kept);
        self.settings.open_files(run).await
    }
}

impl OpenedWorkspace {
    /// Ends the files of a hosted run that has ended after a number of restarts, with the last snapshot of its main path.
    ///
    /// # Errors
    /// Something could not be cleaned up.
    pub async fn end(&self, restarts: u32, snapshot: Option<Snapshot>) -> Result<(), WorkspaceError> {
        let end = WorkspaceEnd::new(RunEnd::Over, restarts, snapshot);
        self.session.end(end).await
    }
}
