//! The run folders, from which the index is derived.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use orchestra_engine::{Disk, EventCursor, EventReader, RunFile, RunFolder, RunId};
use serde_json::Value;

use crate::error::SessionError;
use crate::private;

/// The name of the file that makes a folder a run.
const MANIFEST: &str = RunFile::Manifest.name();
/// A folder with one file for each run whose folder is elsewhere. The file has the id of the run as its name, and
/// contains the path. These files allow the index to be rebuilt. A run id cannot begin with a dot.
const ELSEWHERE: &str = ".elsewhere";
/// Maximum length of a path that is read from a file, in bytes.
const LONGEST_PATH: u64 = 64 << 10;
/// Maximum size of a manifest in bytes. The rest is ignored.
const LARGEST_MANIFEST: u64 = 16 << 20;

/// The locations of runs.
pub(crate) struct Folders {
    root: PathBuf,
}

/// A run folder that exists.
pub(crate) struct FoundRun {
    pub(crate) folder: PathBuf,
    pub(crate) elsewhere: bool,
    /// A hash that changes when the manifest changes.
    pub(crate) stamp: i64,
    /// The size of the events file in bytes.
    pub(crate) size: u64,
}

/// The modification times of the folders whose entries are runs. A folder that does not exist has none.
pub(crate) type ModificationTimes = [Option<SystemTime>; 2];

impl Folders {
    pub(crate) fn new(root: PathBuf) -> Folders {
        Folders { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of a run, in the runs folder or elsewhere.
    pub(crate) fn find(&self, run: &RunId) -> Option<FoundRun> {
        let folder = self.root.join(&**run);
        if let Some(found) = examine(&folder, false) {
            return Some(found);
        }
        let folder = self.pointer(run)?;
        let found = examine(&folder, true)?;
        // Another run may have replaced this one in the folder.
        (manifest(&folder).ok()?["run"] == **run).then_some(found)
    }

    /// Returns the names in the runs folder, and of the runs whose folder is elsewhere, that are valid run ids.
    ///
    /// # Errors
    ///
    /// Returns an error if the runs folder cannot be read.
    pub(crate) fn names(&self) -> Result<BTreeSet<RunId>, SessionError> {
        let mut all = BTreeSet::new();
        for folder in [&self.root, &self.root.join(ELSEWHERE)] {
            names(folder, &mut all)?;
        }
        Ok(all)
    }

    /// Returns the modification times of the folders that contain these names.
    pub(crate) fn modified(&self) -> ModificationTimes {
        let modified = |folder: &Path| fs::metadata(folder).ok()?.modified().ok();
        [modified(&self.root), modified(&self.root.join(ELSEWHERE))]
    }

    /// Returns the run in a folder. Stores the path if the folder is outside of the runs folder.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder contains no run, or one with the id of another run.
    pub(crate) fn accept(&self, folder: &Path) -> Result<RunId, SessionError> {
        let not_a_run = |reason: String| SessionError::NotARun {
            folder: folder.to_owned(),
            reason,
        };
        let real = fs::canonicalize(folder).map_err(|source| SessionError::io("find", folder, source))?;
        if examine(&real, true).is_none() {
            return Err(not_a_run(format!("it has no `{MANIFEST}`")));
        }
        let inside = fs::canonicalize(&self.root).ok().as_deref() == real.parent();
        if inside {
            let name = real
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            return RunId::new(name).map_err(|error| not_a_run(error.to_string()));
        }
        let manifest =
            manifest(&real).map_err(|source| SessionError::io("read", &real.join(MANIFEST), source))?;
        let name = manifest["run"].as_str().unwrap_or_default();
        let run =
            RunId::new(name).map_err(|error| not_a_run(format!("its `{MANIFEST}` names no run: {error}")))?;
        let taken_by = self.root.join(name);
        if examine(&taken_by, false).is_some() {
            return Err(SessionError::Taken {
                run,
                folder: real,
                taken_by,
            });
        }
        self.remember(&run, &real)?;
        Ok(run)
    }

    /// Removes the stored path of a run whose folder is elsewhere.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be removed.
    pub(crate) fn forget(&self, run: &RunId) -> Result<(), SessionError> {
        let path = self.root.join(ELSEWHERE).join(&**run);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(SessionError::io("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    fn remember(&self, run: &RunId, folder: &Path) -> Result<(), SessionError> {
        let pointers = self.root.join(ELSEWHERE);
        let path = pointers.join(&**run);
        // The name contains the process id, because two processes may accept a run at the same time.
        let draft = pointers.join(format!(".{run}.{}", std::process::id()));
        fs::create_dir_all(&pointers)
            .and_then(|()| private::write(&draft, &path_to_bytes(folder)))
            .and_then(|()| fs::rename(&draft, &path))
            .map_err(|source| SessionError::io("write", &path, source))
    }

    /// Returns the stored path of a run that is not in the runs folder.
    pub(crate) fn pointer(&self, run: &RunId) -> Option<PathBuf> {
        let path = self.root.join(ELSEWHERE).join(&**run);
        if !fs::symlink_metadata(&path).ok()?.is_file() {
            return None;
        }
        let bytes = Disk::read_at_most(&path, LONGEST_PATH).ok()?;
        Some(path_from_bytes(bytes))
    }
}

/// Adds the file names in a folder that are valid run ids. A folder that does not exist has none.
fn names(folder: &Path, all: &mut BTreeSet<RunId>) -> Result<(), SessionError> {
    let failed = |source| SessionError::io("read", folder, source);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        all.extend(name.into_string().ok().and_then(|name| RunId::new(name).ok()));
    }
    Ok(())
}

/// Examines a run folder. Does not follow links, because the engine creates plain folders and files.
fn examine(folder: &Path, elsewhere: bool) -> Option<FoundRun> {
    if !fs::symlink_metadata(folder).ok()?.is_dir() {
        return None;
    }
    Some(FoundRun {
        folder: folder.to_owned(),
        elsewhere,
        stamp: RunFolder::manifest_stamp(folder)?.cast_signed(),
        size: RunFolder::events_size(folder),
    })
}

/// Reads a manifest. Invalid JSON results in an empty value, so that the run is listed nevertheless.
///
/// # Errors
///
/// Returns an error if the file cannot be read.
pub(crate) fn manifest(folder: &Path) -> io::Result<Value> {
    let text = Disk::read_at_most(RunFile::Manifest.path(folder), LARGEST_MANIFEST)?;
    Ok(serde_json::from_slice(&text).unwrap_or_default())
}

/// Opens the events of a run at a cursor. Returns `None` if the file is not the one for which the cursor was created.
/// Something else in the place of the file, which a tool may have created, counts as a missing file.
///
/// # Errors
///
/// Returns an error if the file cannot be read.
pub(crate) fn events(folder: &Path, cursor: EventCursor) -> io::Result<Option<EventReader>> {
    match fs::symlink_metadata(RunFile::Events.path(folder)) {
        Ok(found) if !found.is_file() => Ok((cursor.offset == 0).then(EventReader::default)),
        _ => EventReader::resume(folder, cursor),
    }
}

#[cfg(unix)]
fn path_to_bytes(path: &Path) -> Vec<u8> {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec()
}

#[cfg(unix)]
fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    let text: std::ffi::OsString = std::os::unix::ffi::OsStringExt::from_vec(bytes);
    text.into()
}

#[cfg(not(unix))]
fn path_to_bytes(path: &Path) -> Vec<u8> {
    path.to_string_lossy().into_owned().into_bytes()
}

#[cfg(not(unix))]
fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}
