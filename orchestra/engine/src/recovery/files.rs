//! The workspace of a recovered run.

use std::sync::Arc;

use crate::driver::state::Driver;
use crate::error::StartError;
use crate::run::workspace::{OpenedWorkspace, WorkspaceError, WorkspaceRun, WorkspaceSession};
use crate::setup::settings::EngineSettings;
use crate::store::{Manifest, RunFolder};

/// Opens the workspace of a recovered run. A child run gets the session of its parent run.
pub(crate) async fn open_files(
    driver: &mut Driver,
    settings: &EngineSettings,
    session: Option<Arc<dyn WorkspaceSession>>,
) -> Result<(), StartError> {
    if driver.run.origin.parent.is_some() {
        if let Some(session) = session
            && !driver.has_ended()
        {
            driver.work_on(session);
        }
        return Ok(());
    }
    let Some(store) = driver.run.store.clone() else {
        return Ok(());
    };
    let mut manifest = RunFolder::open(store.folder())?.manifest().clone();
    if let Some(opened) = opened_files(driver, settings, &manifest).await? {
        if manifest.workspace.as_ref() != Some(&opened.kept) {
            manifest.workspace = Some(opened.kept);
            store.manifest(&manifest)?;
        }
        driver.work_on(opened.session);
    }
    Ok(())
}

/// Opens the workspace of a recovered run, without creating files. Returns `None` if the run has ended or has no
/// workspace of its own.
pub(crate) async fn opened_files(
    driver: &Driver,
    settings: &EngineSettings,
    manifest: &Manifest,
) -> Result<Option<OpenedWorkspace>, WorkspaceError> {
    let run = &driver.run;
    let begun = driver.recovery.as_ref().is_some_and(|recovery| recovery.begun);
    // Changes that stages made without a workspace are elsewhere, and would be missing in new worktrees.
    let elsewhere = begun && manifest.workspace.is_none();
    if driver.has_ended() || elsewhere || run.origin.parent.is_some() {
        return Ok(None);
    }
    let opened = WorkspaceRun::new(&run.id, &run.pipeline, manifest.workspace.as_ref());
    settings.open_files(opened).await
}
