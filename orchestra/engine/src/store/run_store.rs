//! The interface to the persistence of one run.

use std::future::Future;
#[cfg(unix)]
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use super::checkpoint::Checkpoint;
use super::error::StoreError;
use super::line::Position;
use super::manifest::{Manifest, RunIdentity};
use super::stage_file::{FileEnds, StageFile, StageFolder};
use crate::event::RunEvent;

/// The persistence of one run (Attractor 5.6, rule D2). The run and its stages make one call at a time.
pub(crate) trait RunStore: Send + Sync + 'static {
    /// Returns the folder of the run.
    fn folder(&self) -> &Path;

    /// Stores the manifest, which makes the folder a run.
    fn manifest(&self, manifest: &Manifest) -> Result<(), StoreError>;

    /// Returns the identity that the files of the run refer to. Returns `None` if they have no identity.
    fn identity(&self) -> Option<RunIdentity> {
        None
    }

    /// Returns whether there is a journal. Without one, records are discarded.
    fn keeps_journal(&self) -> bool;

    /// Writes a record to the journal without waiting for the disk. Returns the position after it.
    fn append(&self, record: &[u8]) -> Result<Position, StoreError>;

    /// Makes the records so far durable as required. The caller must not act on them before this has succeeded.
    fn sync(&self) -> Result<Synced, StoreError>;

    /// Checks that no other process has taken over the run (rule D5).
    fn check_ownership(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the lock files whose names are removed when another process takes over the run or a parent run. They are
    /// open as long as this value lives.
    #[cfg(unix)]
    fn locks(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// Writes the record of a state that the journal had lost, makes it durable, and removes the checkpoint that
    /// contained the state, because its position is not in the journal.
    fn restored(&self, record: &[u8]) -> Result<Position, StoreError> {
        self.append(record)
    }

    /// Returns the position of the next record.
    fn position(&self) -> Position;

    /// Returns whether the journal has outgrown the latest checkpoint.
    fn wants_checkpoint(&self) -> bool;

    /// Stores an event. Others see it after [`flush`](RunStore::flush).
    fn event(&self, event: &RunEvent) -> Result<(), StoreError>;

    /// Writes the stored events to the operating system.
    fn flush(&self) -> Result<(), StoreError>;

    /// Replaces the checkpoint. If this succeeds, the new one is durable. If it fails, the old one is intact.
    fn checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), StoreError>;

    /// Restarts the run (rule R9): the following stages are stored in `restart-N`.
    fn restarted(&self, restart: u32) -> Result<(), StoreError>;

    /// Prepares the store of a resumed run after this number of restarts.
    fn resumed(&self, restarts: u32) -> Result<(), StoreError> {
        match restarts {
            0 => Ok(()),
            restarts => self.restarted(restarts),
        }
    }

    /// Returns the folder of a stage. Creates it if it is missing, and moves the files of an earlier visit to
    /// `visits/N`.
    fn stage(&self, stage_folder: StageFolder<'_>, visit: u32) -> Result<PathBuf, StoreError>;

    /// Returns whether the files of a visit were moved to `visits/N`, because a later visit has begun.
    fn is_aside(&self, stage_folder: StageFolder<'_>, visit: u32) -> bool;

    /// Returns whether a visit has left its outcome in the folder of the stage.
    fn has_status(&self, stage_folder: StageFolder<'_>, visit: u32) -> bool;

    /// Returns whether a stage has a folder, of any visit.
    fn has_folder(&self, stage_folder: StageFolder<'_>) -> bool;

    /// Writes a file of a stage.
    fn write(&self, stage_folder: StageFolder<'_>, file: StageFile, bytes: &[u8]) -> Result<(), StoreError>;

    /// Reads a file of a stage. Returns `None` if it is missing.
    fn read(&self, stage_folder: StageFolder<'_>, file: StageFile) -> Result<Option<Vec<u8>>, StoreError>;

    /// Reads the two ends of a file of a visit, `most` bytes in total. Returns `None` if it is missing.
    fn recall(
        &self,
        stage_folder: StageFolder<'_>,
        visit: u32,
        file: StageFile,
        most: usize,
    ) -> Option<FileEnds>;

    /// Takes the paths of conflicting files and folders that were moved aside since the last call.
    fn take_moved(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Removes a file of a stage if it exists.
    fn remove(&self, stage_folder: StageFolder<'_>, file: StageFile) -> Result<(), StoreError>;

    /// Makes the stored data durable and releases the ownership. This process writes nothing more.
    fn close(&self) -> Result<(), StoreError>;
}

/// The result of a request to make records durable.
pub(crate) enum Synced {
    /// They are durable.
    Done,
    /// They are durable when this future completes.
    Later(Commit),
}

/// A future that completes when records are durable.
pub(crate) type Commit = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;
