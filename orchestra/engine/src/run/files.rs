//! The files that a run writes for its stages.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orchestra_core::EffectId;
use orchestra_graph::NodeIndex;

use crate::event::EventKind;
use crate::run::stage_files::OwnedStageFolder;
use crate::run::state::Run;
use crate::store::{RunStore, StoreError};

impl Run {
    /// Returns the store of stage files: the run folder, or a temporary folder that is created on first use.
    pub(crate) fn files(&self) -> Result<Arc<dyn RunStore>, StoreError> {
        self.stage_files.will_be_present();
        match &self.store {
            Some(store) => Ok(store.clone()),
            None => self.stage_files.temporary(&self.id),
        }
    }

    /// Returns the store of stage files. Returns `None` if no stage has needed it yet.
    pub(crate) fn present_files(&self) -> Option<Arc<dyn RunStore>> {
        match &self.store {
            Some(store) => Some(store.clone()),
            None => self.stage_files.present_temporary(),
        }
    }

    /// Returns the run folder. Returns `None` if nothing is persisted.
    pub(crate) fn run_dir(&self) -> Option<&Path> {
        self.store.as_deref().map(RunStore::folder)
    }

    /// Returns the run folder for a stage, which may leave files there.
    pub(crate) fn shown_dir(&self) -> Option<&Path> {
        self.stage_files.will_be_present();
        self.run_dir()
    }

    /// Returns the folder of a stage, which the first call creates.
    pub(crate) fn stage_dir(&self, id: &EffectId) -> Result<PathBuf, StoreError> {
        let folder = self.files()?.stage(self.stage_folder(id).as_ref(), id.visit);
        self.warn_moved(id);
        folder
    }

    /// Returns the location of a stage's files.
    pub(crate) fn stage_folder(&self, id: &EffectId) -> OwnedStageFolder<'_> {
        self.stage_files.location(&self.pipeline, id)
    }

    /// Returns the location of a node's files in the branch with the given name.
    pub(crate) fn stage_folder_in(&self, node: NodeIndex, branch: String) -> OwnedStageFolder<'_> {
        self.stage_files.location_in_branch(&self.pipeline, node, branch)
    }

    /// Starts a new folder for stage files, because the run is restarted (rule R9).
    pub(crate) fn restarted(&self, restart: u32) -> Result<(), StoreError> {
        match self.present_files() {
            Some(files) => files.restarted(restart),
            None => Ok(()),
        }
    }

    /// Emits a warning about each conflicting file that was moved aside for the files of stages.
    pub(crate) fn warn_moved(&self, id: &EffectId) {
        let Some(files) = self.present_files() else {
            return;
        };
        for path in files.take_moved() {
            self.emit(EventKind::StageWarning {
                node: self.name(id.node),
                branch: (!id.branch.is_empty()).then(|| id.branch.name(&self.pipeline)),
                code: "planted_file".to_owned(),
                message: format!(
                    "`{}` was in the way of the files that the engine keeps, and was moved aside",
                    path.display()
                ),
                keys: Vec::new(),
            });
        }
    }
}
