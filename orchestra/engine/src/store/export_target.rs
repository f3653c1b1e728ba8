//! The folder of a copy of a run that another process decides about. A copy is written beside its folder and replaces the
//! earlier one as a whole.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::files::{FileSystem, system};
use super::folder::{FolderStore, StoreOptions};
use super::manifest::{Manifest, RunIdentity};
use super::owner::Owner;
use super::ownership::sync_folder;
use super::{Checkpoint, Durability, JOURNAL, RunFolder, StoreError, journal};
use crate::clock::Timestamp;

/// The folder beside copies in which they are written. No id of a run begins with a dot.
const STAGED: &str = ".exports";

/// The present content of the folder of a copy.
pub(crate) struct PresentCopy {
    pub(crate) manifest: Manifest,
    pub(crate) checkpoint: Option<Checkpoint>,
    /// The time of the state and the number of events in the copy.
    pub(crate) taken: (Timestamp, u64),
}

/// Reads the copy of a run in a folder. Returns `None` if the folder is missing or empty.
///
/// # Errors
/// Fails if the folder holds something else.
pub(crate) fn present_copy(folder: &Path) -> Result<Option<PresentCopy>, StoreError> {
    let other = |found: &str| StoreError::NotACopy {
        path: folder.to_owned(),
        found: found.to_owned(),
    };
    if !RunFolder::is_one(folder) {
        let failed = |error| StoreError::io("read", folder, error);
        return match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            entries => match entries.map_err(failed)?.next() {
                None => Ok(None),
                Some(_) => Err(other("files that are no copy of a run")),
            },
        };
    }
    let run = RunFolder::open(folder)?;
    if run.manifest().exported_from.is_none() {
        return Err(other("a run that was executed on this machine"));
    }
    if let Some(owner) = run.owner()? {
        return Err(owned(folder, owner));
    }
    Ok(Some(PresentCopy {
        manifest: run.manifest().clone(),
        checkpoint: run.checkpoint()?,
        taken: taken(folder)?,
    }))
}

fn owned(folder: &Path, owner: Owner) -> StoreError {
    StoreError::Owned {
        path: folder.to_owned(),
        by: Some(Box::new(owner)),
    }
}

/// Returns the time of the last record, and the number of events before it.
fn taken(folder: &Path) -> Result<(Timestamp, u64), StoreError> {
    #[derive(Deserialize)]
    struct Taken {
        at: u64,
        events: u64,
    }
    let records = journal::read(&*system(), &folder.join(JOURNAL), None, u64::MAX)?;
    let last = records.iter().next_back().unwrap_or_default();
    let last: Taken = serde_json::from_slice(last)
        .map_err(|error| StoreError::damaged_record(folder, records.end.records.saturating_sub(1), &error))?;
    Ok((Timestamp::from_millis(last.at), last.events))
}

/// A folder that is to become, or to replace, the copy of a run.
pub(crate) struct ExportTarget {
    folder: PathBuf,
    staged: PathBuf,
    replaces: bool,
}

impl ExportTarget {
    /// Prepares a folder for a copy.
    ///
    /// # Errors
    /// Fails if the folder holds something else, or a copy of another run.
    pub(crate) fn open(folder: &Path, identity: &RunIdentity) -> Result<ExportTarget, StoreError> {
        let folder = std::path::absolute(folder).map_err(|error| StoreError::io("find", folder, error))?;
        let present = present_copy(&folder)?;
        if let Some(present) = &present
            && !present.manifest.belonging().is_of(identity)
        {
            return Err(StoreError::NotACopy {
                path: folder,
                found: format!("a copy of another run `{}`", present.manifest.run),
            });
        }
        let invalid = || StoreError::io("make", &folder, ErrorKind::InvalidInput.into());
        let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
            return Err(invalid());
        };
        Ok(ExportTarget {
            staged: parent.join(STAGED).join(name),
            replaces: present.is_some(),
            folder,
        })
    }

    /// Creates the folder in which the copy is written. Removes what an interrupted export has left.
    ///
    /// # Errors
    /// Fails if the folder cannot be created, or another process is writing it.
    pub(crate) fn create(&self) -> Result<FolderStore, StoreError> {
        if fs::symlink_metadata(&self.staged).is_ok() {
            RunFolder::remove(&self.staged)?;
        }
        let options = StoreOptions {
            durability: Durability::Full,
            ..StoreOptions::default()
        };
        FolderStore::create(system(), &self.staged, options)
    }

    /// Replaces the earlier copy by the new one, which is complete and closed.
    ///
    /// # Errors
    /// Fails if the folder cannot be moved.
    pub(crate) fn publish(self) -> Result<(), StoreError> {
        let files = system();
        if self.replaces {
            self.exchange(&*files)?;
        } else {
            self.rename(&*files, &self.staged, &self.folder)?;
        }
        if let Some(parent) = self.folder.parent() {
            sync_folder(&*files, parent)?;
        }
        if self.replaces {
            RunFolder::remove(&self.staged)?;
        }
        Ok(())
    }

    fn rename(&self, files: &dyn FileSystem, from: &Path, to: &Path) -> Result<(), StoreError> {
        files
            .rename(from, to)
            .map_err(|error| StoreError::io("move", from, error))
    }

    /// Exchanges the two copies, so that readers find one of them at any time where the system can do so.
    fn exchange(&self, files: &dyn FileSystem) -> Result<(), StoreError> {
        if swap(&self.staged, &self.folder) {
            return Ok(());
        }
        // After a crash between the two steps, the next export finds no copy, and writes one.
        let name = self.staged.file_name().unwrap_or_default().to_string_lossy();
        let old = self.staged.with_file_name(format!(".old-{name}"));
        if fs::symlink_metadata(&old).is_ok() {
            RunFolder::remove(&old)?;
        }
        self.rename(files, &self.folder, &old)?;
        self.rename(files, &self.staged, &self.folder)?;
        self.rename(files, &old, &self.staged)
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn swap(one: &Path, other: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn swap(_: &Path, _: &Path) -> bool {
    false
}
