//! The files on which the runs of a pool work.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use orchestra_engine::{AttemptHost, OpenedWorkspace, RunId, WorkspaceError};
use tokio::sync::Mutex;

use crate::blobs::{BlobError, Blobs};

/// The workspaces of the runs whose attempts this worker executes.
#[derive(Default)]
pub(crate) struct Workspaces {
    /// Attempts of a run that are executed at the same time share what is open. Otherwise the files and the snapshot of an
    /// attempt say everything, as in a new process.
    opened: Mutex<HashMap<RunId, Weak<OpenedWorkspace>>>,
}

/// The reason for which a run cannot work on its files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoWorkspace {
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

impl Workspaces {
    /// Opens the workspace of a run. Returns `None` if its pipeline has none.
    pub(crate) async fn open(
        &self,
        blobs: &Blobs,
        host: &AttemptHost,
        run: &RunId,
    ) -> Result<Option<Arc<OpenedWorkspace>>, NoWorkspace> {
        if host.workspace_pool().is_none() {
            return Ok(None);
        }
        let mut known = self.opened.lock().await;
        known.retain(|_, opened| opened.strong_count() > 0);
        if let Some(opened) = known.get(run).and_then(Weak::upgrade) {
            return Ok(Some(opened));
        }
        let kept = blobs.workspace(run).await?;
        let Some(mut opened) = host.open_workspace(run, kept.as_ref()).await? else {
            return Ok(None);
        };
        if kept.is_none()
            && let Some(first) = blobs.keep_workspace(run, &opened.kept).await?
        {
            // Another worker was first.
            match host.open_workspace(run, Some(&first)).await? {
                Some(again) => opened = again,
                None => return Ok(None),
            }
        }
        let opened = Arc::new(opened);
        known.insert(run.clone(), Arc::downgrade(&opened));
        Ok(Some(opened))
    }

    /// Returns whether a run has had files.
    pub(crate) async fn has_begun(blobs: &Blobs, run: &RunId) -> Result<bool, BlobError> {
        Ok(blobs.workspace(run).await?.is_some())
    }
}
