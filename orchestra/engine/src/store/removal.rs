//! The removal of run folders.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::error::StoreError;
use super::files::{FileSystem, OpenFile, system};
use super::guard::{Guard, busy, guard};
use super::layout::RunFile;
use super::ownership::{is_free, open_lock, owned, read_owner};
use super::run_folder::RunFolder;
use crate::id::RunId;

/// The beginning of the name of a folder that is being removed. No id of a run begins with it.
const REMOVING: &str = ".removing-";

impl RunFolder {
    /// Returns whether a folder belongs to a run that never began: its process ended before it wrote the manifest.
    pub fn is_unstarted(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        let lock = fs::symlink_metadata(RunFile::OwnerLock.path(path));
        RunId::new(name_of(path)).is_ok()
            && !RunFolder::is_one(path)
            && lock.is_ok_and(|found| found.is_file())
    }

    /// Returns whether a folder is what a [removal](RunFolder::remove) has left that was interrupted.
    pub fn is_partly_removed(path: impl AsRef<Path>) -> bool {
        name_of(path.as_ref()).starts_with(REMOVING)
    }

    /// Removes the folder of a run that no process owns, also if the run never began or was removed in part. The folder
    /// is renamed first, so that its remains after a crash are not a run.
    ///
    /// # Errors
    /// Fails if a process owns the run, or if the folder cannot be locked, renamed or removed.
    pub fn remove(path: impl AsRef<Path>) -> Result<(), StoreError> {
        let path = path.as_ref();
        let failed = |error| StoreError::io("remove", path, error);
        let (Some(parent), Some(_)) = (path.parent(), path.file_name()) else {
            return Err(failed(ErrorKind::InvalidInput.into()));
        };
        if RunFolder::is_partly_removed(path) {
            return fs::remove_dir_all(path).map_err(failed);
        }
        let _lock = MaintenanceLock::acquire(&*system(), path)?;
        let removing = parent.join(format!("{REMOVING}{}", name_of(path)));
        fs::rename(path, &removing).map_err(failed)?;
        fs::remove_dir_all(&removing).map_err(failed)
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The lock of a run that no process owns, held during an administrative operation. No process can become the owner
/// meanwhile.
struct MaintenanceLock {
    /// `None` if the folder contains no lock file.
    lock: Option<OpenFile>,
    _guard: Guard,
}

impl MaintenanceLock {
    /// Acquires the lock.
    ///
    /// # Errors
    /// Fails if a process owns the run or keeps the folder locked, or if the lock cannot be inspected.
    fn acquire(files: &dyn FileSystem, folder: &Path) -> Result<MaintenanceLock, StoreError> {
        let guard = guard(files, folder)?.ok_or_else(|| busy(folder))?;
        let lock = open_lock(files, folder)?;
        if let Some(lock) = &lock
            && !is_free(files, lock)?
        {
            return Err(owned(folder, read_owner(lock)));
        }
        Ok(MaintenanceLock { lock, _guard: guard })
    }
}

impl Drop for MaintenanceLock {
    fn drop(&mut self) {
        // Closing it is not enough while a program that is being started still holds it open.
        let _ = self.lock.as_ref().map(OpenFile::unlock);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::path::Path;

    use super::RunFolder;
    use crate::store::tests::create;
    use crate::store::{RunStore as _, StoreError};

    #[test]
    fn only_a_run_without_an_owner_is_removed() {
        let runs = tempfile::tempdir().unwrap();
        let folder = runs.path().join("nightly");
        let store = create(&folder);
        let error = RunFolder::remove(&folder).unwrap_err();
        assert!(matches!(&error, StoreError::Owned { by: Some(by), .. } if by.pid == std::process::id()));
        assert!(RunFolder::is_one(&folder));
        store.close().unwrap();
        RunFolder::remove(&folder).unwrap();
        assert_eq!(fs::read_dir(runs.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_run_that_never_began_and_the_rest_of_a_removal_are_distinguished_from_other_folders() {
        let runs = tempfile::tempdir().unwrap();
        let [unborn, rest, notes] = ["unborn", ".removing-old", "notes"].map(|name| runs.path().join(name));
        for folder in [&unborn, &rest, &notes] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(unborn.join("owner.lock"), "{}\n").unwrap();
        fs::write(rest.join("manifest.json"), "{}").unwrap();
        let kinds = |folder: &Path| {
            (
                RunFolder::is_unstarted(folder),
                RunFolder::is_partly_removed(folder),
            )
        };
        assert_eq!(kinds(&unborn), (true, false));
        assert_eq!(kinds(&rest), (false, true));
        assert_eq!(kinds(&notes), (false, false));
        RunFolder::remove(&unborn).unwrap();
        RunFolder::remove(&rest).unwrap();
        assert_eq!(fs::read_dir(runs.path()).unwrap().count(), 1);
    }
}
