//! The stage folders below one root. No name leads out of the root, and no link inside it is followed.

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
use super::layout::{ARTIFACTS, BRANCHES, VISITS, stages_after};
use super::ownership::{Ownership, remove_if_there};
use super::{FileEnds, StageFile, StageFolder, StoreError, obstacle};

/// Maximum length of a folder name on every file system, with space for a suffix.
const MAX_NAME: usize = 200;
/// The length of the prefix of a longer name before its digest.
const SHOWN_NAME: usize = 150;
/// Maximum size in bytes of a stage file that is read.
const MAX_READ: u64 = 1 << 20;

pub(super) struct StageFolders {
    files: Arc<dyn FileSystem>,
    root: PathBuf,
    /// The ownership of the run. A process that has lost it moves nothing.
    ownership: Option<Arc<Ownership>>,
    inner: Mutex<Inner>,
}

struct Inner {
    /// The folder of the current stages: the root, or the folder of the latest restart.
    base: PathBuf,
    opened: HashMap<PathBuf, Opened>,
    /// The former paths of obstacles that were moved aside.
    moved: Vec<PathBuf>,
}

/// The state of a stage's folder.
#[derive(Clone, Copy)]
struct Opened {
    /// The visit whose files it contains.
    visit: u32,
    /// `true` if it was empty when the visit began, so that its files most likely do not exist yet.
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

    /// Returns the same folders, writable only as long as this process owns the run.
    pub(super) fn owned(self, ownership: Arc<Ownership>) -> StageFolders {
        StageFolders {
            ownership: Some(ownership),
            ..self
        }
    }

    fn check_ownership(&self) -> Result<(), StoreError> {
        self.ownership
            .as_ref()
            .map_or(Ok(()), |ownership| ownership.check_ownership())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Continues in a new folder (rule R9). An earlier process may have created it.
    pub(super) fn restarted(&self, restart: u32) -> Result<(), StoreError> {
        let base = stages_after(&self.root, restart);
        self.make_folder(&base)?;
        let mut inner = self.lock();
        inner.base = base;
        inner.opened.clear();
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of a stage and creates its parents.
    fn path(&self, stage_folder: StageFolder<'_>) -> Result<PathBuf, StoreError> {
        checked(stage_folder)?;
        let StageFolder { node, branch } = stage_folder;
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

    pub(super) fn stage(&self, stage_folder: StageFolder<'_>, visit: u32) -> Result<PathBuf, StoreError> {
        let path = self.path(stage_folder)?;
        let made = self.make_folder(&path)?;
        let known = self.lock().opened.get(&path).copied();
        let fresh = match known {
            Some(present) if present.visit == visit => return Ok(path),
            Some(_) if made => true,
            Some(earlier) => self.set_aside(&path, earlier.visit).map(|()| true)?,
            None if made => true,
            // An earlier process left it, or something that was planted.
            None => {
                let emptied = self.set_aside_left(&path, visit)?;
                // A status file that this attempt did not write must not count for it. A process that took over the run may
                // have written this one.
                self.check_ownership()?;
                remove_if_there(&*self.files, &path.join(StageFile::Status.name()))?;
                emptied
            }
        };
        self.lock().opened.insert(path.clone(), Opened { visit, fresh });
        Ok(path)
    }

    /// Returns the path of a stage's folder, which may be missing.
    fn present(&self, stage_folder: StageFolder<'_>) -> PathBuf {
        let mut path = self.lock().base.join(&*stage_folder_name(stage_folder.node));
        if !stage_folder.branch.is_empty() {
            path.extend([BRANCHES, &*stage_folder_name(stage_folder.branch)]);
        }
        path
    }

    pub(super) fn is_aside(&self, stage_folder: StageFolder<'_>, visit: u32) -> bool {
        let path = self.present(stage_folder).join(VISITS).join(visit.to_string());
        is_folder(&path).unwrap_or(false)
    }

    pub(super) fn has_status(&self, stage_folder: StageFolder<'_>, visit: u32) -> bool {
        // The previous visit is among the visits as soon as this one has begun.
        if visit > 1 && !self.is_aside(stage_folder, visit - 1) {
            return false;
        }
        let folder = self.present(stage_folder);
        if !obstacle::is_folder(&folder) {
            return false;
        }
        // A process that began the next visit may have moved it already.
        if obstacle::is_folder(&folder.join(VISITS).join(format!(".{visit}.tmp"))) {
            return true;
        }
        let path = folder.join(StageFile::Status.name());
        let read = self.files.open(&path, Access::Read);
        let bytes = read.and_then(|file| file.read_from(0, MAX_READ));
        // An incompletely written file does not count.
        bytes.is_ok_and(|bytes| bytes.ends_with(b"\n}\n"))
    }

    pub(super) fn has_folder(&self, stage_folder: StageFolder<'_>) -> bool {
        fs::symlink_metadata(self.present(stage_folder)).is_ok()
    }

    pub(super) fn write(
        &self,
        stage_folder: StageFolder<'_>,
        file: StageFile,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let folder = self.path(stage_folder)?;
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
            self.check_ownership()?;
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

    pub(super) fn read(
        &self,
        stage_folder: StageFolder<'_>,
        file: StageFile,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let folder = self.path(stage_folder)?;
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

    /// Reads the two ends of a file of a visit. Returns `None` if it is missing or unreadable.
    pub(super) fn recall(
        &self,
        stage_folder: StageFolder<'_>,
        visit: u32,
        file: StageFile,
        most: usize,
    ) -> Option<FileEnds> {
        checked(stage_folder).ok()?;
        let present = self.present(stage_folder);
        let parents = present
            .ancestors()
            .take(if stage_folder.branch.is_empty() { 1 } else { 3 });
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
        let tail = if whole {
            Vec::new()
        } else {
            opened.read_from(length - rest, rest).ok()?
        };
        let missing = length.saturating_sub((head.len() + tail.len()) as u64);
        Some(FileEnds {
            path,
            head,
            tail,
            missing,
        })
    }

    /// Returns the folder with the files of a visit: the one among the earlier visits, else the folder of the stage.
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
        // If several branches run a node, its visits are not consecutive.
        let left = fs::read_dir(&visits).ok()?;
        let left = left
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let nearest = left.filter(|left: &u32| *left >= visit).min()?;
        Some(visits.join(nearest.to_string()))
    }

    pub(super) fn remove(&self, stage_folder: StageFolder<'_>, file: StageFile) -> Result<(), StoreError> {
        let folder = self.path(stage_folder)?;
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

    /// Creates a folder unless it exists. Moves an obstacle, such as a link to a folder, aside. Returns whether the
    /// folder is new.
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

    /// Creates a folder unless it exists.
    fn require_folder(&self, path: &Path) -> Result<(), StoreError> {
        self.make_folder(path).map(drop)
    }

    /// Moves the files of an earlier visit from a stage's folder to `visits/N`. The target gets that name only when it
    /// is complete, so that the next process can finish an interrupted move. After a loss of power the name may exist
    /// without the files, which are then moved below it.
    fn set_aside(&self, folder: &Path, visit: u32) -> Result<(), StoreError> {
        let visits = folder.join(VISITS);
        self.make_folder(&visits)?;
        let target = visits.join(visit.to_string());
        let is_named = is_folder(&target).unwrap_or(false);
        let draft = if is_named {
            target.clone()
        } else {
            visits.join(format!(".{visit}.tmp"))
        };
        self.make_folder(&draft)?;
        let failed = |error| StoreError::io("read", folder, error);
        for entry in fs::read_dir(folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if name != VISITS && name != BRANCHES {
                self.rename(&folder.join(&name), &draft.join(&name))?;
            }
        }
        if is_named {
            Ok(())
        } else {
            self.rename(&draft, &target)
        }
    }

    /// Sets aside the files of an earlier visit in a folder that this process has not opened yet. Returns whether it
    /// did. The previous visit is among the visits as soon as this one has begun.
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
        self.check_ownership()?;
        match obstacle::replace(&*self.files, from, to) {
            Err(StoreError::Io { source, .. })
                if source.kind() == ErrorKind::PermissionDenied && obstacle::is_folder(from) =>
            {
                // A folder that a tool made read-only can only be moved by a user who can write to it.
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

/// Returns the name of the folder in which a run stores the files of a node: its id, or for a long id its beginning and
/// a digest. Names of different ids are different.
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
    // No id contains a hyphen, so this is not the name of another id.
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

/// Rejects invalid names of a stage or a branch.
fn checked(stage_folder: StageFolder<'_>) -> Result<(), StoreError> {
    let StageFolder { node, branch } = stage_folder;
    let is_branch = |name: &str| {
        let parts = name.split(['.', '~']);
        parts
            .into_iter()
            .all(|part| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_'))
    };
    let bad = !is_identifier(node) || node.eq_ignore_ascii_case(ARTIFACTS);
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
