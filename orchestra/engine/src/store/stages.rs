//! The folders of stages below one root. No name leads out of the root, and no link inside it is followed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orchestra_graph::is_identifier;
use sha2::{Digest as _, Sha256};

use super::files::{Access, FileSystem, write_new};
use super::owner::{Ownership, remove_if_there};
use super::{FileEnds, StageFile, StagePlace, StoreError, obstacle};

/// The longest name of a folder on every file system, with room for what is put behind it.
const MAX_NAME: usize = 200;
/// How much of a longer name stands before its digest.
const SHOWN_NAME: usize = 150;
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
    /// What stood in the way and was moved aside, by its old path.
    moved: Vec<PathBuf>,
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
            moved: Vec::new(),
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
        let base = self.lock().base.clone();
        if base != self.root {
            self.require_folder(&base)?;
        }
        let folder = base.join(&*stage_folder_name(node));
        if branch.is_empty() {
            return Ok(folder);
        }
        self.make_folder(&folder)?;
        let branches = folder.join(BRANCHES);
        self.make_folder(&branches)?;
        Ok(branches.join(&*stage_folder_name(branch)))
    }

    pub(super) fn stage(&self, place: StagePlace<'_>, visit: u32) -> Result<PathBuf, StoreError> {
        let path = self.path(place)?;
        let made = self.make_folder(&path)?;
        let known = self.lock().opened.get(&path).copied();
        let fresh = match known {
            Some(present) if present.visit == visit => return Ok(path),
            Some(_) if made => true,
            Some(earlier) => self.set_aside(&path, earlier.visit).map(|()| true)?,
            None if made => true,
            // An earlier process left it.
            None => self.set_aside_left(&path, visit)?,
        };
        self.lock().opened.insert(path.clone(), Opened { visit, fresh });
        Ok(path)
    }

    /// Where the folder of a place is, if it is there.
    fn present(&self, place: StagePlace<'_>) -> PathBuf {
        let mut path = self.lock().base.join(&*stage_folder_name(place.node));
        if !place.branch.is_empty() {
            path.extend([BRANCHES, &*stage_folder_name(place.branch)]);
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
        let folder = self.present(place);
        if !obstacle::is_folder(&folder) {
            return false;
        }
        // Whoever began the next visit may have moved it already.
        if obstacle::is_folder(&folder.join(VISITS).join(format!(".{visit}.tmp"))) {
            return true;
        }
        let path = folder.join(StageFile::Status.name());
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
            let stands = obstacle::is_folder(&path);
            obstacle::replace(&*self.files, &draft, &path)?;
            if stands {
                self.lock().moved.push(path.clone());
            }
            Ok(())
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
        let folder = self.path(place)?;
        match is_folder(&folder) {
            Ok(true) => {}
            // Nothing is removed through a link.
            Ok(false) => return self.make_folder(&folder).map(drop),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(StoreError::io("read", &folder, error)),
        }
        let path = folder.join(file.name());
        let stands = obstacle::is_folder(&path);
        remove_if_there(&*self.files, &path)?;
        if stands {
            self.lock().moved.push(path);
        }
        Ok(())
    }

    pub(super) fn take_moved(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.lock().moved)
    }

    /// Makes a folder, unless it is there; a link to a folder is none, and whatever is none is moved aside. Gives whether it
    /// is new.
    fn make_folder(&self, path: &Path) -> Result<bool, StoreError> {
        if obstacle::is_folder(path) {
            return Ok(false);
        }
        let stands = fs::symlink_metadata(path).is_ok();
        let made = obstacle::make_folder(&*self.files, path)?;
        if stands {
            self.lock().moved.push(path.to_owned());
        }
        Ok(made)
    }

    /// The same, where nobody wants to know whether it is new.
    fn require_folder(&self, path: &Path) -> Result<(), StoreError> {
        self.make_folder(path).map(drop)
    }

    /// Moves what an earlier visit left in a stage's folder to `visits/N`. Only when all of it is there does it get that
    /// name, so that what a process could not finish is gone on with by the next. After a loss of power the name may be
    /// there without the files: then they are moved below it.
    fn set_aside(&self, folder: &Path, visit: u32) -> Result<(), StoreError> {
        let visits = folder.join(VISITS);
        self.make_folder(&visits)?;
        let target = visits.join(visit.to_string());
        let is_named = is_folder(&target).unwrap_or(false);
        let draft = match is_named {
            true => target.clone(),
            false => visits.join(format!(".{visit}.tmp")),
        };
        self.make_folder(&draft)?;
        let failed = |error| StoreError::io("read", folder, error);
        for entry in fs::read_dir(folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if name != VISITS && name != BRANCHES {
                self.rename(&folder.join(&name), &draft.join(&name))?;
            }
        }
        match is_named {
            true => Ok(()),
            false => self.rename(&draft, &target),
        }
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
        match obstacle::replace(&*self.files, from, to) {
            Err(StoreError::Io { source, .. })
                if source.kind() == ErrorKind::PermissionDenied && obstacle::is_folder(from) =>
            {
                // A folder that a tool made read-only can be moved to another one only by who may write to it.
                let failed = |error| StoreError::io("move", from, error);
                let permissions = fs::symlink_metadata(from).map_err(failed)?.permissions();
                fs::set_permissions(from, writable(&permissions)).map_err(failed)?;
                obstacle::replace(&*self.files, from, to)?;
                fs::set_permissions(to, permissions).map_err(failed)
            }
            moved => moved,
        }
    }
}

/// Returns the name of the folder in which a run keeps the files of a node: its id, or the beginning of a long id and a
/// digest of it, which no other id has.
///
/// ```
/// use orchestra_engine::stage_folder_name;
/// assert_eq!(stage_folder_name("build"), "build");
/// let long = stage_folder_name(&"build_".repeat(50)).into_owned();
/// assert!(long.starts_with("build_build_") && long.len() < 200);
/// assert_ne!(stage_folder_name(&"build_".repeat(51)), long);
/// ```
pub fn stage_folder_name(id: &str) -> Cow<'_, str> {
    if id.len() <= MAX_NAME {
        return Cow::Borrowed(id);
    }
    // No id holds a hyphen, so this is the name of no other one.
    let mut name = id
        .get(..id.floor_char_boundary(SHOWN_NAME))
        .unwrap_or_default()
        .to_owned();
    name.push('-');
    for byte in Sha256::digest(id.as_bytes()).iter().take(16) {
        let _ = write!(name, "{byte:02x}");
    }
    Cow::Owned(name)
}

#[cfg(unix)]
fn writable(permissions: &fs::Permissions) -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(permissions.mode() | 0o700)
}

#[cfg(not(unix))]
fn writable(permissions: &fs::Permissions) -> fs::Permissions {
    permissions.clone()
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
    let bad = !is_identifier(node) || node.eq_ignore_ascii_case("artifacts");
    if bad || !(branch.is_empty() || is_branch(branch)) {
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
