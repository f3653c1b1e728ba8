//! The settings of an engine: those of its runs, its built-in handlers, and the pipelines that stages may run by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orchestra_core::SharedPipeline;

use crate::blocking::on_files;
use crate::handlers::handler::Handler;
use crate::handlers::registry::Registry;
use crate::run::settings::RunSettings;
use crate::run::state::Parent;
use crate::run::workspace::{OpenedWorkspace, Workspace, WorkspaceError, WorkspaceRun};
use crate::store::{FolderStore, OpenOptions, Opened, StoreError, StoreOptions};

/// The pipelines that stages may run by name, with their handlers.
pub(crate) type Subpipelines = BTreeMap<String, (SharedPipeline, Arc<Registry>)>;

/// The settings of an engine.
#[derive(Clone)]
pub(crate) struct EngineSettings {
    pub(crate) run: Arc<RunSettings>,
    /// The folder in which tools run; `None` for the working directory of the program.
    pub(crate) working_dir: Option<PathBuf>,
    /// The workspace that provides the files of stages.
    pub(crate) workspace: Option<Arc<dyn Workspace>>,
    /// The handler of model stages; `None` if there is no backend.
    pub(crate) codergen: Option<Arc<dyn Handler>>,
    pub(crate) tool: Arc<dyn Handler>,
    pub(crate) fan_in: Arc<dyn Handler>,
    pub(crate) subpipelines: Subpipelines,
}

impl EngineSettings {
    /// Opens the workspace for a run. Returns `None` if there is no workspace or nothing is executed.
    pub(crate) async fn open_files(
        &self,
        run: WorkspaceRun<'_>,
    ) -> Result<Option<OpenedWorkspace>, WorkspaceError> {
        match &self.workspace {
            Some(workspace) if !self.run.executes_nothing() => workspace.open(run).await.map(Some),
            None if run.kept.is_some() => Err(WorkspaceError::new(
                "no_workspace",
                format!(
                    "run `{}` works on files of its own; give the engine the workspace that it was begun with \
                     (`Engine::builder().workspace(..)`, on the command line `workspace` in `orchestra.yaml`)",
                    run.run
                ),
            )),
            _ => Ok(None),
        }
    }

    /// Opens a run folder to resume the run, outside of the threads that run stages.
    pub(crate) async fn open_run(
        &self,
        folder: &Path,
        how: OpenOptions,
        parent: Option<&Parent>,
    ) -> Result<Opened, StoreError> {
        let options = self.store_options(folder, parent);
        let (files, folder) = (self.run.files.clone(), folder.to_owned());
        let path = folder.clone();
        let opened = on_files(self.run.files.clone(), move || {
            FolderStore::open(files, &folder, options, how)
        })
        .await;
        opened.unwrap_or_else(|error| Err(StoreError::io("open", &path, std::io::Error::other(error))))
    }

    pub(crate) fn store_options(&self, folder: &Path, parent: Option<&Parent>) -> StoreOptions {
        let runs_dir = self.run.runs_dir();
        StoreOptions {
            durability: self.run.durability,
            among_runs: runs_dir.is_some() && folder.parent() == runs_dir,
            around: parent.and_then(|parent| parent.run.store.clone()),
        }
    }
}
