//! Reading the files of a run folder that are replaced as a whole.

use std::io::ErrorKind;
use std::path::Path;

use super::checkpoint::Checkpoint;
use super::error::StoreError;
use super::files::{Access, FileSystem, Mark};
use super::layout::MANIFEST;
use super::manifest::Manifest;

/// Reads a whole file. Returns `None` if it is missing.
pub(super) fn read_whole(files: &dyn FileSystem, path: &Path) -> Result<Option<(Vec<u8>, Mark)>, StoreError> {
    match files.open(path, Access::Read) {
        Ok(file) => {
            let bytes = file.read_from(0, u64::MAX);
            let bytes = bytes.map_err(|error| StoreError::io("read", path, error))?;
            Ok(Some((bytes, file.mark())))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("open", path, error)),
    }
}

/// Reads the manifest of a run folder.
pub(super) fn read_manifest(files: &dyn FileSystem, root: &Path) -> Result<Manifest, StoreError> {
    let path = root.join(MANIFEST);
    match read_whole(files, &path)? {
        Some((text, _)) => Manifest::read(&path, &text),
        None => Err(StoreError::NoRun {
            path: root.to_owned(),
            missing: MANIFEST,
        }),
    }
}

/// A checkpoint and its file.
pub(super) struct ReadCheckpoint {
    pub(super) checkpoint: Checkpoint,
    pub(super) size: u64,
    pub(super) mark: Mark,
}

/// Reads a checkpoint. Returns `None` if it is missing.
pub(super) fn read_checkpoint(
    files: &dyn FileSystem,
    path: &Path,
) -> Result<Option<ReadCheckpoint>, StoreError> {
    let Some((text, mark)) = read_whole(files, path)? else {
        return Ok(None);
    };
    Ok(Some(ReadCheckpoint {
        checkpoint: Checkpoint::read(path, &text)?,
        size: text.len() as u64,
        mark,
    }))
}
