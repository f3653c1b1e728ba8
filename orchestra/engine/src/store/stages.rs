//! The folders of stages below one root. No name leads out of the root, and no link inside it is followed.

use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orchestra_graph::is_identifier;

use super::files::{Access, FileSystem, write_new};
use super::owner::{Ownership, remove_if_there};
use super::{FileEnds, StageFile, StagePlace, StoreError};

/// The longest node id that can be a folder on every file system, with room for what is put behind it.
const MAX_NAME: usize = 200;
/// The largest stage file that is read: a status, not a data set.
const MAX_READ: u64 = 1 << 20;
/// The folder of earlier visits; no stage file has this name.
const VISITS: &str = "visits";
/// The folder of the branches that run the stage; no stage file has this name either.
const BRANCHES: &str = "branches";

pub(super) struct StageFolders {
    files: Arc<dyn FileSystem>,
    root: PathBuf,
    /// Whoever is not the owner any more moves nothing.
    ownership: Option<Arc<Ownership>>,
    inner: Mutex<Inner>,
}

struct Inner {
    /// Where stages are now: the root, or the folder of the latest restart.
    base: PathBuf,
    opened: HashMap<PathBuf, Opened>,
}

/// What is known of a stage's folder.
#[derive(Clone, Copy)]
struct Opened {
    /// The visit whose files it holds.
    visit: u32,
    /// Whether it was empty when the visit began, so that a file most likely has no forerunner.
    fresh: bool,
}

impl StageFolders {
    pub(super) fn new(files: Arc<dyn FileSystem>, root: PathBuf) -> StageFolders {
        let inner = Inner {
            base: root.clone(),
            opened: HashMap::new(),
        };
        StageFolders {
            files,
            root,
            ownership: None,
            inner: Mutex::new(inner),
        }
    }

    /// The same, for as long as the run is this process's.
    pub(super) fn owned(self, ownership: Arc<Ownership>) -> StageFolders {
        StageFolders {
            ownership: Some(ownership),
            ..self
        }
    }

    fn still_mine(&self) -> Result<(), StoreError> {
        self.ownership
            .as_ref()
            .map_or(Ok(()), |ownership| ownership.still_mine())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on in a new folder (rule R9); that of an earlier process may be there.
    pub(super) fn restarted(&self, restart: u32) -> Result<(), StoreError> {
        let base = self.root.join(format!("restart-{restart}"));
        self.make_folder(&base)?;
        let mut inner = self.lock();
        inner.base = base;
        inner.opened.clear();
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a place; those above it are made.
    fn path(&self, place: StagePlace<'_>) -> Result<PathBuf, StoreError> {
        checked(place)?;
        let StagePlace { node, branch } = place;
        let folder = self.lock().base.join(node);
        if branch.is_empty() {
            return Ok(folder);
        }
        self.make_folder(&folder)?;
        let branches = folder.join(BRANCHES);
        self.make_folder(&branches)?;
        Ok(branches.join(branch))
    }

    pub(super) fn stage(&self, place: StagePlace<'_>, visit: u32) -> Result<PathBuf, StoreError> {
        let path = self.path(place)?;
        let made = self.make_folder(&path)?;
        let mut inner = self.lock();
        let fresh = match inner.opened.get(&path) {
            Some(present) if present.visit == visit => return Ok(path),
            Some(earlier) => self.set_aside(&path, earlier.visit).map(|()| true)?,
            None if made => true,
            // An earlier process left it.
            None => self.set_aside_left(&path, visit)?,
        };
        inner.opened.insert(path.clone(), Opened { visit, fresh });
        Ok(path)
    }

    /// Where the folder of a place is, if it is there.
    fn present(&self, place: StagePlace<'_>) -> PathBuf {
        let mut path = self.lock().base.join(place.node);
        if !place.branch.is_empty() {
            path.extend([BRANCHES, place.branch]);
        }
        path
    }

    pub(super) fn is_aside(&self, place: StagePlace<'_>, visit: u32) -> bool {
        let path = self.present(place).join(VISITS).join(visit.to_string());
        is_folder(&path).unwrap_or(false)
    }

    pub(super) fn has_status(&self, place: StagePlace<'_>, visit: u32) -> bool {
        // The visit before has a name among the visits as soon as this one has begun.
        if visit > 1 && !self.is_aside(place, visit - 1) {
            return false;
        }
        let path = self.present(place).join(StageFile::Status.name());
        let read = self.files.open(&path, Access::Read);
        let bytes = read.and_then(|file| file.read_from(0, MAX_READ));
        // One that was not written to its end is none.
        bytes.is_ok_and(|bytes| bytes.ends_with(b"\n}\n"))
    }

    pub(super) fn has_folder(&self, place: StagePlace<'_>) -> bool {
        fs::symlink_metadata(self.present(place)).is_ok()
    }

    pub(super) fn is_open(&self, place: StagePlace<'_>, visit: u32) -> bool {
        let path = self.present(place);
        let inner = self.lock();
        inner
            .opened
            .get(&path)
            .is_some_and(|opened| opened.visit == visit)
    }

    pub(super) fn write(
        &self,
        place: StagePlace<'_>,
        file: StageFile,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let folder = self.path(place)?;
        self.require_folder(&folder)?;
        let path = folder.join(file.name());
        let fresh = self.lock().opened.get(&folder).is_some_and(|opened| opened.fresh);
        if fresh {
            match write_new(&*self.files, &path, bytes, false) {
                Err(StoreError::Io {
                    action: "make",
                    source,
                    ..
                }) if source.kind() == ErrorKind::AlreadyExists => {}
                Ok(()) => return Ok(()),
                Err(error) => {
                    let _ = self.files.remove(&path);
                    return Err(error);
                }
            }
        }
        let draft = folder.join(format!(".{}.tmp", file.name()));
        remove_if_there(&*self.files, &draft)?;
        let replaced = write_new(&*self.files, &draft, bytes, false).and_then(|()| {
            self.still_mine()?;
            let moved = self.files.rename(&draft, &path);
            moved.map_err(|error| StoreError::io("replace", &path, error))
        });
        if replaced.is_err() {
            let _ = self.files.remove(&draft);
        }
        replaced
    }

    pub(super) fn read(&self, place: StagePlace<'_>, file: StageFile) -> Result<Option<Vec<u8>>, StoreError> {
        let folder = self.path(place)?;
        match fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(not_plain(&folder, "folder")),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io("read", &folder, error)),
        }
        let path = folder.join(file.name());
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(not_plain(&path, "file")),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io("read", &path, error)),
        }
        let failed = |error| StoreError::io("read", &path, error);
        let opened = self.files.open(&path, Access::Read).map_err(failed)?;
        if !opened.is_file() {
            return Err(not_plain(&path, "file"));
        }
        let bytes = opened.read_from(0, MAX_READ + 1).map_err(failed)?;
        if bytes.len() as u64 > MAX_READ {
            return Err(StoreError::TooLarge {
                path,
                limit: MAX_READ,
            });
        }
        Ok(Some(bytes))
    }

    /// Reads the ends of what a visit left; what cannot be read is not there.
    pub(super) fn recall(
        &self,
        place: StagePlace<'_>,
        visit: u32,
        file: StageFile,
        most: usize,
    ) -> Option<FileEnds> {
        checked(place).ok()?;
        let present = self.present(place);
        let parents = present
            .ancestors()
            .take(if place.branch.is_empty() { 1 } else { 3 });
        if !parents
            .into_iter()
            .all(|folder| is_folder(folder).unwrap_or(false))
        {
            return None;
        }
        let path = self.left_by(&present, visit)?.join(file.name());
        let opened = self.files.open(&path, Access::Read).ok()?;
        if !opened.is_file() {
            return None;
        }
        let length = opened.length().ok()?;
        let whole = length <= most as u64;
        let head = opened
            .read_from(0, if whole { length } else { most as u64 / 2 })
            .ok()?;
        let rest = (most - most / 2) as u64;
        let tail = match whole {
            true => Vec::new(),
            false => opened.read_from(length - rest, rest).ok()?,
        };
        let missing = length.saturating_sub((head.len() + tail.len()) as u64);
        Some(FileEnds {
            path,
            head,
            tail,
            missing,
        })
    }

    /// The folder that holds the files of a visit: that among the earlier visits, else the stage's own.
    fn left_by(&self, present: &Path, visit: u32) -> Option<PathBuf> {
        let visits = present.join(VISITS);
        let aside = visits.join(visit.to_string());
        if is_folder(&visits).unwrap_or(false) && is_folder(&aside).unwrap_or(false) {
            return Some(aside);
        }
        match self.lock().opened.get(present) {
            Some(opened) if opened.visit != visit => {}
            _ => return Some(present.to_owned()),
        }
        // Where several branches run a node, its visits are not counted one by one.
        let left = fs::read_dir(&visits).ok()?;
        let left = left
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let nearest = left.filter(|left: &u32| *left >= visit).min()?;
        Some(visits.join(nearest.to_string()))
    }

    pub(super) fn remove(&self, place: StagePlace<'_>, file: StageFile) -> Result<(), StoreError> {
        remove_if_there(&*self.files, &self.path(place)?.join(file.name()))
    }

    /// Makes a folder, unless it is there; a link to a folder is none. Gives whether it is new.
    fn make_folder(&self, path: &Path) -> Result<bool, StoreError> {
        match self.files.make_folder(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match is_folder(path) {
                Ok(true) => Ok(false),
                Ok(false) => Err(not_plain(path, "folder")),
                Err(error) => Err(StoreError::io("read", path, error)),
            },
            Err(error) => Err(StoreError::io("make", path, error)),
            Ok(()) => Ok(true),
        }
    }

    /// The same, where the folder most likely is there.
    fn require_folder(&self, path: &Path) -> Result<(), StoreError> {
        match is_folder(path) {
            Ok(true) => Ok(()),
            _ => self.make_folder(path).map(drop),
        }
    }

    /// Moves what an earlier visit left in a stage's folder to `visits/N`. Only when all of it is there does it get that
    /// name, so that what a process could not finish is gone on with by the next.
    fn set_aside(&self, folder: &Path, visit: u32) -> Result<(), StoreError> {
        let visits = folder.join(VISITS);
        self.make_folder(&visits)?;
        let draft = visits.join(format!(".{visit}.tmp"));
        self.make_folder(&draft)?;
        let failed = |error| StoreError::io("read", folder, error);
        for entry in fs::read_dir(folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if name != VISITS && name != BRANCHES {
                self.rename(&folder.join(&name), &draft.join(&name))?;
            }
        }
        self.rename(&draft, &visits.join(visit.to_string()))
    }

    /// Sets aside what lies in a folder that this process has not opened yet, where it is an earlier visit's; gives
    /// whether it did. The visit before has a name among the visits as soon as this one has begun.
    fn set_aside_left(&self, folder: &Path, visit: u32) -> Result<bool, StoreError> {
        let Some(earlier) = visit.checked_sub(1).filter(|earlier| *earlier > 0) else {
            return Ok(false);
        };
        let target = folder.join(VISITS).join(earlier.to_string());
        match fs::symlink_metadata(&target) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.set_aside(folder, earlier).map(|()| true)
            }
            Err(error) => Err(StoreError::io("read", &target, error)),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        self.still_mine()?;
        let moved = self.files.rename(from, to);
        moved.map_err(|error| StoreError::io("move", from, error))
    }
}

/// Refuses names that are none of a stage or a branch.
fn checked(place: StagePlace<'_>) -> Result<(), StoreError> {
    let StagePlace { node, branch } = place;
    let is_branch = |name: &str| {
        let parts = name.split(['.', '~']);
        parts
            .into_iter()
            .all(|part| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_'))
    };
    let bad = !is_identifier(node) || node.len() > MAX_NAME || node.eq_ignore_ascii_case("artifacts");
    if bad || !(branch.is_empty() || is_branch(branch) && branch.len() <= MAX_NAME) {
        let name = if bad { node } else { branch };
        return Err(StoreError::BadName {
            name: name.to_owned(),
        });
    }
    Ok(())
}

fn is_folder(path: &Path) -> io::Result<bool> {
    Ok(fs::symlink_metadata(path)?.is_dir())
}

fn not_plain(path: &Path, expected: &'static str) -> StoreError {
    StoreError::NotPlain {
        path: path.to_owned(),
        expected,
    }
}
