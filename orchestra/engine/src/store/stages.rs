//! The folders of stages below one root. No name leads out of the root, and no link inside it is followed.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use orchestra_graph::is_identifier;

use super::{StageFile, StagePlace, StoreError};

/// The longest node id that can be a folder on every file system, with room for what is put behind it.
const MAX_NAME: usize = 200;
/// The largest stage file that is read: a status, not a data set.
const MAX_READ: u64 = 1 << 20;
/// The folder of earlier visits; no stage file has this name.
const VISITS: &str = "visits";
/// The folder of the branches that run the stage; no stage file has this name either.
const BRANCHES: &str = "branches";

pub(super) struct StageFolders {
    root: PathBuf,
    inner: Mutex<Inner>,
}

struct Inner {
    /// Where stages are now: the root, or the folder of the latest restart.
    base: PathBuf,
    /// The visit whose files each stage's folder holds.
    opened: HashMap<PathBuf, u32>,
}

impl StageFolders {
    pub(super) fn new(root: PathBuf) -> StageFolders {
        let inner = Inner {
            base: root.clone(),
            opened: HashMap::new(),
        };
        StageFolders {
            root,
            inner: Mutex::new(inner),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where stages are now.
    pub(super) fn base(&self) -> PathBuf {
        self.lock().base.clone()
    }

    /// Goes on in a new folder (rule R9).
    pub(super) fn restarted(&self, restart: u32) -> Result<(), StoreError> {
        let base = self.root.join(format!("restart-{restart}"));
        make_folder(&base)?;
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
        let folder = self.base().join(node);
        if branch.is_empty() {
            return Ok(folder);
        }
        make_folder(&folder)?;
        let branches = folder.join(BRANCHES);
        make_folder(&branches)?;
        Ok(branches.join(branch))
    }

    pub(super) fn stage(&self, place: StagePlace<'_>, visit: u32) -> Result<PathBuf, StoreError> {
        let path = self.path(place)?;
        make_folder(&path)?;
        let mut inner = self.lock();
        match inner.opened.get(&path) {
            Some(present) if *present == visit => return Ok(path),
            Some(earlier) => set_aside(&path, *earlier)?,
            None => {}
        }
        inner.opened.insert(path.clone(), visit);
        Ok(path)
    }

    pub(super) fn write(
        &self,
        place: StagePlace<'_>,
        file: StageFile,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let folder = self.path(place)?;
        make_folder(&folder)?;
        let path = folder.join(file.name());
        let draft = folder.join(format!(".{}.tmp", file.name()));
        replace(&draft, &path, |out| out.write_all(bytes))
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
        let opened = open_plain(&path).map_err(|error| StoreError::io("read", &path, error))?;
        if !opened.metadata().is_ok_and(|found| found.is_file()) {
            return Err(not_plain(&path, "file"));
        }
        let mut bytes = Vec::new();
        let read = opened.take(MAX_READ + 1).read_to_end(&mut bytes);
        read.map_err(|error| StoreError::io("read", &path, error))?;
        if bytes.len() as u64 > MAX_READ {
            return Err(StoreError::TooLarge {
                path,
                limit: MAX_READ,
            });
        }
        Ok(Some(bytes))
    }

    pub(super) fn remove(&self, place: StagePlace<'_>, file: StageFile) -> Result<(), StoreError> {
        let path = self.path(place)?.join(file.name());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::io("remove", &path, error)),
            _ => Ok(()),
        }
    }
}

fn not_plain(path: &Path, expected: &'static str) -> StoreError {
    StoreError::NotPlain {
        path: path.to_owned(),
        expected,
    }
}

/// Opens a file for reading without following a link and without waiting for the writer of a pipe.
fn open_plain(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    options.open(path)
}

/// Makes a folder, unless it is there; a link to a folder is none.
fn make_folder(path: &Path) -> Result<(), StoreError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => Err(not_plain(path, "folder")),
            Err(error) => Err(StoreError::io("read", path, error)),
        },
        Err(error) => Err(StoreError::io("make", path, error)),
        Ok(()) => Ok(()),
    }
}

/// Moves what a visit left in a stage's folder to `visits/N`.
fn set_aside(folder: &Path, visit: u32) -> Result<(), StoreError> {
    let visits = folder.join(VISITS);
    make_folder(&visits)?;
    let target = visits.join(visit.to_string());
    make_folder(&target)?;
    let entries = fs::read_dir(folder).map_err(|error| StoreError::io("read", folder, error))?;
    for entry in entries {
        let name = entry
            .map_err(|error| StoreError::io("read", folder, error))?
            .file_name();
        if name != VISITS && name != BRANCHES {
            let (from, to) = (folder.join(&name), target.join(&name));
            fs::rename(&from, &to).map_err(|error| StoreError::io("move", &from, error))?;
        }
    }
    Ok(())
}

/// Puts a new file in a place, whatever stood there: the draft is new, and the move replaces links too.
pub(super) fn replace(
    draft: &Path,
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), StoreError> {
    match fs::remove_file(draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(StoreError::io("remove", draft, error));
        }
        _ => {}
    }
    let mut out = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(draft)
        .map_err(|error| StoreError::io("write", draft, error))?;
    let done = write(&mut out)
        .map_err(|error| StoreError::io("write", path, error))
        .and_then(|()| fs::rename(draft, path).map_err(|error| StoreError::io("replace", path, error)));
    if done.is_err() {
        let _ = fs::remove_file(draft);
    }
    done
}
