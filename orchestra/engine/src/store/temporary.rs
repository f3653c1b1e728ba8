//! The stage folders of a run without a run folder. They are removed when the run has ended.

use std::fs;
use std::path::{Path, PathBuf};

use super::files::system;
use super::line::Position;
use super::manifest::Manifest;
use super::stages::StageFolders;
use super::{Checkpoint, FileEnds, RunStore, StageFile, StageFolder, StoreError, Synced};
use crate::event::RunEvent;

pub(crate) struct TemporaryFolder {
    stages: StageFolders,
}

impl TemporaryFolder {
    /// Creates a new folder that only its owner may enter.
    pub(crate) fn create(run: &str) -> Result<TemporaryFolder, StoreError> {
        let unique = format!("orchestra-{run}-{:08x}", crate::id::random() as u32);
        let root = std::env::temp_dir().join(unique);
        #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt;
            builder.mode(0o700);
        }
        builder
            .create(&root)
            .map_err(|error| StoreError::io("make", &root, error))?;
        Ok(TemporaryFolder {
            stages: StageFolders::new(system(), root),
        })
    }
}

impl RunStore for TemporaryFolder {
    fn folder(&self) -> &Path {
        self.stages.root()
    }

    fn manifest(&self, _: &Manifest) -> Result<(), StoreError> {
        Ok(())
    }

    fn keeps_journal(&self) -> bool {
        false
    }

    fn append(&self, _: &[u8]) -> Result<Position, StoreError> {
        Ok(Position::default())
    }

    fn sync(&self) -> Result<Synced, StoreError> {
        Ok(Synced::Done)
    }

    fn position(&self) -> Position {
        Position::default()
    }

    fn wants_checkpoint(&self) -> bool {
        false
    }

    fn event(&self, _: &RunEvent) -> Result<(), StoreError> {
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn checkpoint(&self, _: &Checkpoint) -> Result<(), StoreError> {
        Ok(())
    }

    fn restarted(&self, restart: u32) -> Result<(), StoreError> {
        self.stages.restarted(restart)
    }

    fn stage(&self, stage_folder: StageFolder<'_>, visit: u32) -> Result<PathBuf, StoreError> {
        self.stages.stage(stage_folder, visit)
    }

    fn is_aside(&self, stage_folder: StageFolder<'_>, visit: u32) -> bool {
        self.stages.is_aside(stage_folder, visit)
    }

    fn has_status(&self, stage_folder: StageFolder<'_>, visit: u32) -> bool {
        self.stages.has_status(stage_folder, visit)
    }

    fn has_folder(&self, stage_folder: StageFolder<'_>) -> bool {
        self.stages.has_folder(stage_folder)
    }

    fn write(&self, stage_folder: StageFolder<'_>, file: StageFile, bytes: &[u8]) -> Result<(), StoreError> {
        self.stages.write(stage_folder, file, bytes)
    }

    fn read(&self, stage_folder: StageFolder<'_>, file: StageFile) -> Result<Option<Vec<u8>>, StoreError> {
        self.stages.read(stage_folder, file)
    }

    fn recall(
        &self,
        stage_folder: StageFolder<'_>,
        visit: u32,
        file: StageFile,
        most: usize,
    ) -> Option<FileEnds> {
        self.stages.recall(stage_folder, visit, file, most)
    }

    fn take_moved(&self) -> Vec<PathBuf> {
        self.stages.take_moved()
    }

    fn remove(&self, stage_folder: StageFolder<'_>, file: StageFile) -> Result<(), StoreError> {
        self.stages.remove(stage_folder, file)
    }

    fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A failure has no consequence: the system clears its temporary folder itself.
        let _ = fs::remove_dir_all(self.stages.root());
    }
}
