//! Obstacles: files of the wrong kind at a path of the engine, which a tool may have planted. The run folder belongs to
//! the engine, so the engine moves them aside and never writes through them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::StoreError;
use super::files::FileSystem;

/// The prefix and suffix of the names of obstacles that were moved aside. No file of the engine has such a name.
const PREFIX: &str = ".planted-";
const SUFFIX: &str = ".aside";
/// Maximum number of obstacles with one name.
const MOST: u32 = 10_000;

/// Moves an obstacle aside within its folder. Returns its new path.
pub(super) fn move_aside(files: &dyn FileSystem, path: &Path) -> Result<PathBuf, StoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for number in 1..=MOST {
        let aside = path.with_file_name(format!("{PREFIX}{number}-{name}{SUFFIX}"));
        if fs::symlink_metadata(&aside).is_ok() {
            continue;
        }
        files
            .rename(path, &aside)
            .map_err(|error| StoreError::io("move", path, error))?;
        tracing::warn!(
            "`{}` was no file or folder of the engine, and was moved to `{}`",
            path.display(),
            aside.display()
        );
        return Ok(aside);
    }
    Err(StoreError::io("move", path, ErrorKind::AlreadyExists.into()))
}

/// Creates a folder unless it exists. Moves an obstacle aside. Returns whether the folder is new.
pub(super) fn make_folder(files: &dyn FileSystem, path: &Path) -> Result<bool, StoreError> {
    let failed = |error| StoreError::io("make", path, error);
    match files.make_folder(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if is_folder(path) {
                return Ok(false);
            }
            move_aside(files, path)?;
            files.make_folder(path).map_err(failed).map(|()| true)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Removes a file if it exists. Moves a folder at its path aside.
pub(super) fn remove_file(files: &dyn FileSystem, path: &Path) -> Result<(), StoreError> {
    match files.remove(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(_) if is_folder(path) => move_aside(files, path).map(drop),
        Err(error) => Err(StoreError::io("remove", path, error)),
    }
}

/// Renames a file or folder to `to`. Moves a folder at that path aside, and for a folder any other obstacle too.
pub(super) fn replace(files: &dyn FileSystem, from: &Path, to: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("replace", to, error);
    match files.rename(from, to) {
        Err(error) if is_folder(to) || is_folder(from) && fs::symlink_metadata(to).is_ok() => {
            if error.kind() == ErrorKind::NotFound {
                return Err(failed(error));
            }
            move_aside(files, to)?;
            files.rename(from, to).map_err(failed)
        }
        moved => moved.map_err(failed),
    }
}

/// Returns whether a path is a folder, and not a link to one.
pub(super) fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Returns whether a path exists but is not a regular file.
pub(super) fn is_no_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_file())
}
