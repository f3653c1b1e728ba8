//! The ownership of a run: a lock that ends with its process (rule D5).

use std::io::{self, ErrorKind};
#[cfg(unix)]
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::StoreError;
#[cfg(unix)]
use super::files::SystemFiles;
use super::files::{Access, FileSystem, OpenFile};
use super::guard::{busy, guard};
use super::layout::{ARTIFACT_INDEX, ARTIFACTS, EVENTS, JOURNAL, MANIFEST, OWNER_LOCK};
use super::obstacle;
use super::owner::{Owner, host, program};
use super::run_store::RunStore;
use crate::clock::{Clock, SystemClock};
#[cfg(unix)]
use crate::process::{RunMark, end_tools};

/// The number and the interval of attempts to get the lock of an owner that has ended. A process that the owner was
/// about to start releases the lock within milliseconds, or within seconds on an overloaded machine.
const GHOST_TRIES: u32 = 2_500;
const GHOST_PAUSE: Duration = Duration::from_millis(2);
/// The number of bytes of a file that are copied at once.
const COPIED: u64 = 4 << 20;
/// Time limit for the tools of an earlier owner to die.
#[cfg(unix)]
const TOOLS_END: Duration = Duration::from_secs(10);
/// Maximum size in bytes of a lock file.
const MOST: u64 = 64 << 10;

/// The content of the lock file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Content {
    #[serde(flatten)]
    owner: Owner,
    /// `true` if files that an earlier owner may still write to have yet to be replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    replacing: bool,
    /// The mark of the owner's commands.
    #[cfg(unix)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<RunMark>,
}

/// The ownership of a run. It ends when this value is dropped or the process ends.
///
/// A process that looks for the owner, or wants to become the owner, first locks the folder for a moment. A new owner
/// writes a new lock file, locks it, and renames it. So no process sees a lock whose content is not written yet.
pub(crate) struct Ownership {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    lock: OpenFile,
    content: Mutex<Content>,
    /// The store of the parent run. A process that takes over the parent also owns this run. It ends the tools of both
    /// runs before it takes over this one, so the results of these tools must not be recorded here.
    around: Option<Arc<dyn RunStore>>,
}

impl Ownership {
    /// Acquires the ownership of a new run, which no other process can open yet.
    pub(crate) fn create(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        around: Option<Arc<dyn RunStore>>,
    ) -> Result<Ownership, StoreError> {
        let path = folder.join(OWNER_LOCK);
        let content = Content::new(1, folder);
        let lock = files
            .open(&path, Access::New)
            .map_err(|error| StoreError::io("make", &path, error))?;
        if !files
            .try_lock(&lock)
            .map_err(|error| StoreError::io("lock", &path, error))?
        {
            return Err(owned(folder, None));
        }
        files
            .write_at(&lock, &content.text(&path)?, 0)
            .map_err(|error| StoreError::io("write", &path, error))?;
        Ok(Ownership {
            files,
            folder: folder.to_owned(),
            lock,
            content: Mutex::new(content),
            around,
        })
    }

    /// Acquires the ownership of an existing run. With `take_over`, takes it from a current owner, which notices and
    /// stops.
    ///
    /// # Errors
    /// Fails if another process owns the run or its parent run, or keeps the folder locked.
    pub(crate) fn acquire(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        take_over: bool,
        around: Option<Arc<dyn RunStore>>,
    ) -> Result<Ownership, StoreError> {
        let Some(_guard) = guard(&*files, folder)? else {
            return Err(busy(folder));
        };
        if let Some(around) = &around {
            around.check_ownership()?;
        }
        let path = folder.join(OWNER_LOCK);
        let held = match files.open(&path, Access::Change) {
            Ok(held) => Some(held),
            // Nobody can have locked an obstacle. It is moved aside when the new lock file is renamed.
            Err(error) if error.kind() == ErrorKind::NotFound || obstacle::is_no_file(&path) => None,
            Err(error) => return Err(StoreError::io("open", &path, error)),
        };
        let free = match &held {
            Some(held) => is_free(&*files, held)?,
            None => false,
        };
        let previous = held.as_ref().and_then(read);
        if held.is_some() && !free && !(take_over && cfg!(unix)) {
            return Err(owned(folder, previous.map(|content| content.owner)));
        }
        if let Some(owner) = previous.as_ref().map(|content| &content.owner)
            && !free
            && owner.host == host()
            && crate::process::descends_from(owner.pid)
        {
            return Err(StoreError::OwnProcess {
                path: folder.to_owned(),
                by: Box::new(owner.clone()),
            });
        }
        let fencing_token = previous.as_ref().map_or(0, |content| content.owner.fencing_token) + 1;
        let mut content = Content::new(fencing_token, folder);
        // Also replace the files if the lock file is missing, because its owner may be alive.
        content.replacing = !free || previous.as_ref().is_some_and(|content| content.replacing);
        let lock = publish(&*files, &path, held, &content)?;
        let ownership = Ownership {
            files,
            folder: folder.to_owned(),
            lock,
            content: Mutex::new(content),
            around,
        };
        // From here on an earlier owner notices the loss before it renames any draft. Drafts that it may still rename
        // are removed below.
        if let Some(previous) = &previous {
            end_tools_of(previous, folder, !free)?;
        }
        remove_drafts(&*ownership.files, folder)?;
        ownership.replace_files()?;
        Ok(ownership)
    }

    /// Gives the files that are written in place new inodes, so that further writes of an earlier owner have no effect.
    fn replace_files(&self) -> Result<(), StoreError> {
        let mut content = self.content();
        if !content.replacing {
            return Ok(());
        }
        // The fencing token must not be lost, because it identifies lines that the earlier owner may still commit.
        self.sync_lock()?;
        for name in [JOURNAL, EVENTS] {
            copy(&*self.files, &self.folder, name)?;
        }
        let artifacts = self.folder.join(ARTIFACTS);
        if std::fs::symlink_metadata(&artifacts).is_ok_and(|found| found.is_dir()) {
            remove_if_there(&*self.files, &artifacts.join(format!(".{ARTIFACT_INDEX}.tmp")))?;
            copy(&*self.files, &artifacts, ARTIFACT_INDEX)?;
            sync_folder(&*self.files, &artifacts)?;
        }
        sync_folder(&*self.files, &self.folder)?;
        content.replacing = false;
        self.rewrite(&content)
    }

    fn sync_lock(&self) -> Result<(), StoreError> {
        self.files
            .sync_all(&self.lock)
            .map_err(|error| StoreError::io("sync", self.lock.path(), error))?;
        sync_folder(&*self.files, &self.folder)
    }

    /// Rewrites the content. The caller must keep other processes from reading it.
    fn rewrite(&self, content: &Content) -> Result<(), StoreError> {
        let path = self.folder.join(OWNER_LOCK);
        let text = content.text(&path)?;
        self.files
            .write_at(&self.lock, &text, 0)
            .and_then(|()| self.files.set_length(&self.lock, text.len() as u64))
            .map_err(|error| StoreError::io("write", &path, error))
    }

    fn content(&self) -> Content {
        self.content
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the fencing token: the number of owners of the run so far.
    pub(crate) fn fencing_token(&self) -> u64 {
        self.content().owner.fencing_token
    }

    /// Raises the fencing token, if records have a higher one than the lock file.
    pub(crate) fn raise(&self, fencing_token: u64) -> Result<(), StoreError> {
        let mut content = self.content();
        if fencing_token <= content.owner.fencing_token {
            return Ok(());
        }
        content.owner.fencing_token = fencing_token;
        let _guard = guard(&*self.files, &self.folder)?;
        self.rewrite(&content)?;
        *self.content.lock().unwrap_or_else(PoisonError::into_inner) = content;
        Ok(())
    }

    /// Checks that no other process has taken over the run or a parent run: the lock file is still the one that this
    /// process wrote.
    ///
    /// # Errors
    /// Fails if another process has. Nothing more may be written then.
    pub(crate) fn check_ownership(&self) -> Result<(), StoreError> {
        match self.files.links(&self.lock) {
            Ok(0) => Err(self.reason_of_loss()),
            Ok(_) => self
                .around
                .as_ref()
                .map_or(Ok(()), |around| around.check_ownership()),
            Err(error) => Err(StoreError::io("read", self.lock.path(), error)),
        }
    }

    /// Returns the lock files of the run and of its parent runs. Skips files without a name, which an in-process file
    /// system may have.
    #[cfg(unix)]
    pub(crate) fn locks(&self) -> Vec<RawFd> {
        let mut locks = self
            .around
            .as_ref()
            .map(|around| around.locks())
            .unwrap_or_default();
        if SystemFiles.links(&self.lock).is_ok_and(|links| links > 0) {
            locks.push(self.lock.descriptor());
        }
        locks
    }

    /// Returns the reason for which the lock file has no name any longer. A process that takes over a run replaces it.
    fn reason_of_loss(&self) -> StoreError {
        let path = self.folder.join(OWNER_LOCK);
        let present = self.files.open(&path, Access::Read);
        let is_missing = |path: &Path| {
            let found = std::fs::symlink_metadata(path);
            found.is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
        };
        if is_missing(&self.folder) || is_missing(&path) && is_missing(&self.folder.join(MANIFEST)) {
            return StoreError::FolderGone {
                path: self.folder.clone(),
            };
        }
        let by = present.as_ref().ok().and_then(read).map(|content| content.owner);
        match by.filter(|by| *by != self.content().owner) {
            Some(by) => StoreError::OwnershipLost {
                path: self.folder.clone(),
                by: Some(Box::new(by)),
            },
            None => StoreError::Tampered {
                path,
                expected: "the lock that this process wrote".to_owned(),
                found: match present {
                    Err(error) if error.kind() == ErrorKind::NotFound => "no file".to_owned(),
                    _ => "another in its place".to_owned(),
                },
            },
        }
    }

    /// Ends the ownership.
    pub(crate) fn release(&self) {
        // Unlock explicitly: closing the file is not enough while a program that is being started still holds it open.
        // Otherwise the lock ends with the process at the latest.
        let _ = self.lock.unlock();
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        self.release();
    }
}

impl Content {
    #[cfg_attr(not(unix), allow(unused_variables))]
    fn new(fencing_token: u64, folder: &Path) -> Content {
        Content {
            owner: Owner {
                pid: std::process::id(),
                host: host(),
                program: program(),
                fencing_token,
                since: SystemClock::new().now(),
            },
            replacing: false,
            #[cfg(unix)]
            tools: Some(RunMark::from_folder(folder)),
        }
    }

    fn text(&self, path: &Path) -> Result<Vec<u8>, StoreError> {
        let mut text = serde_json::to_vec(self).map_err(|source| StoreError::Json {
            path: path.to_owned(),
            source,
        })?;
        text.push(b'\n');
        Ok(text)
    }
}

/// Ends the processes that an earlier owner has left running, before the new owner runs anything. An owner that ended
/// normally, or whose watcher ended its tools, has left none.
#[cfg(unix)]
fn end_tools_of(previous: &Content, folder: &Path, taken_over: bool) -> Result<(), StoreError> {
    let Some(mark) = previous
        .tools
        .as_ref()
        .filter(|mark| taken_over || !mark.is_own())
    else {
        return Ok(());
    };
    if previous.owner.host != host() {
        if taken_over {
            tracing::warn!(
                owner = %previous.owner,
                "tools of the earlier owner cannot be ended from this host; end them there"
            );
        }
        return Ok(());
    }
    if end_tools(mark, TOOLS_END) || cfg!(not(target_os = "linux")) {
        return Ok(());
    }
    let reason = "tools of the earlier owner of the run cannot be ended";
    // The search for processes opens a few files. If that fails, report it as the reason.
    let looks: io::Result<Vec<_>> = (0..4).map(|_| std::fs::File::open("/proc/self/stat")).collect();
    let error = looks
        .err()
        .unwrap_or_else(|| io::Error::new(ErrorKind::TimedOut, reason));
    Err(StoreError::io("take over", folder, error))
}

#[cfg(not(unix))]
fn end_tools_of(_: &Content, _: &Path, _: bool) -> Result<(), StoreError> {
    Ok(())
}

/// Returns the current owner of a run. Returns `None` if it has none.
pub(crate) fn present(files: &dyn FileSystem, folder: &Path) -> Result<Option<Owner>, StoreError> {
    // Without the guard, a process that wants to own the run could take this one for its owner.
    let guard = guard(files, folder)?;
    let Some(held) = open_lock(files, folder)? else {
        return Ok(None);
    };
    let free = match &guard {
        Some(_) => is_free(files, &held)?,
        None => false,
    };
    if free {
        let _ = held.unlock();
        return Ok(None);
    }
    Ok(read_owner(&held))
}

/// Opens the lock file of a run. Returns `None` if there is none. Nobody can have locked an obstacle.
pub(super) fn open_lock(files: &dyn FileSystem, folder: &Path) -> Result<Option<OpenFile>, StoreError> {
    let path = folder.join(OWNER_LOCK);
    match files.open(&path, Access::Read) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind() == ErrorKind::NotFound || obstacle::is_no_file(&path) => Ok(None),
        Err(error) => Err(StoreError::io("open", &path, error)),
    }
}

/// Takes the lock unless another process has it. Returns whether it was taken.
pub(super) fn is_free(files: &dyn FileSystem, lock: &OpenFile) -> Result<bool, StoreError> {
    let failed = |error| StoreError::io("lock", lock.path(), error);
    for _ in 0..GHOST_TRIES {
        if files.try_lock(lock).map_err(failed)? {
            return Ok(true);
        }
        // An owner that was killed while it started a program leaves its lock to that program until the exec.
        if !read(lock).is_some_and(|content| is_gone(&content.owner)) {
            return Ok(false);
        }
        std::thread::sleep(GHOST_PAUSE);
    }
    files.try_lock(lock).map_err(failed)
}

/// Returns whether an owner was a process of this machine that has ended.
#[cfg(unix)]
fn is_gone(owner: &Owner) -> bool {
    let pid = i32::try_from(owner.pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let gone = |pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
    owner.host == host() && pid.is_some_and(gone)
}

#[cfg(not(unix))]
fn is_gone(_: &Owner) -> bool {
    false
}

/// Returns the fencing token of the latest owner of a run, or 0 if it is unknown.
pub(super) fn fencing_token(files: &dyn FileSystem, folder: &Path) -> u64 {
    let lock = files.open(&folder.join(OWNER_LOCK), Access::Read).ok();
    lock.as_ref()
        .and_then(read)
        .map_or(0, |content| content.owner.fencing_token)
}

pub(super) fn owned(folder: &Path, by: Option<Owner>) -> StoreError {
    StoreError::Owned {
        path: folder.to_owned(),
        by: by.map(Box::new),
    }
}

/// Returns the owner that a lock file describes. Returns `None` if the content cannot be read.
pub(super) fn read_owner(lock: &OpenFile) -> Option<Owner> {
    read(lock).map(|content| content.owner)
}

fn read(lock: &OpenFile) -> Option<Content> {
    let text = lock.read_from(0, MOST).ok()?;
    // While the owner shortens the content, the end of the earlier one still follows the first line.
    let line = text.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice(line).ok()
}

/// Publishes a complete and locked lock file by a rename. `held` is the previous one, which no other process has
/// locked.
fn publish(
    files: &dyn FileSystem,
    path: &Path,
    held: Option<OpenFile>,
    content: &Content,
) -> Result<OpenFile, StoreError> {
    let failed = |error| StoreError::io("write", path, error);
    let text = content.text(path)?;
    if let Some(held) = held
        && !cfg!(unix)
    {
        files.write_at(&held, &text, 0).map_err(failed)?;
        files.set_length(&held, text.len() as u64).map_err(failed)?;
        return Ok(held);
    }
    let draft = draft(path, content.owner.fencing_token);
    remove_if_there(files, &draft)?;
    let made = files.open(&draft, Access::New).map_err(failed)?;
    let done = files.write_at(&made, &text, 0).and_then(|()| {
        if !files.try_lock(&made)? {
            return Err(io::Error::from(ErrorKind::WouldBlock));
        }
        Ok(())
    });
    let done = done.map_err(failed);
    match done.and_then(|()| obstacle::replace(files, &draft, path)) {
        Ok(()) => Ok(made),
        Err(error) => {
            let _ = files.remove(&draft);
            Err(error)
        }
    }
}

/// Returns the path of the draft of a file. No two owners of a run use the same drafts.
pub(super) fn draft(path: &Path, fencing_token: u64) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{fencing_token}.tmp"))
}

/// Removes a file if it exists.
pub(super) fn remove_if_there(files: &dyn FileSystem, path: &Path) -> Result<(), StoreError> {
    obstacle::remove_file(files, path)
}

/// Removes the drafts of earlier owners, so that they can never be renamed.
fn remove_drafts(files: &dyn FileSystem, folder: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("read", folder, error);
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let text = name.to_string_lossy();
        if text.starts_with('.') && text.ends_with(".tmp") {
            let path = folder.join(&name);
            remove_if_there(files, &path)?;
        }
    }
    Ok(())
}

/// Replaces a file by a copy without its trailing zeros.
fn copy(files: &dyn FileSystem, folder: &Path, name: &str) -> Result<(), StoreError> {
    let path = folder.join(name);
    let old = match files.open(&path, Access::Read) {
        Ok(old) => old,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::io("open", &path, error)),
    };
    let draft = folder.join(format!(".{name}.tmp"));
    let failed = |error| StoreError::io("write", &draft, error);
    let new = files.open(&draft, Access::New).map_err(failed)?;
    let mut offset = 0;
    loop {
        let mut bytes = old
            .read_from(offset, COPIED)
            .map_err(|error| StoreError::io("read", &path, error))?;
        let read = bytes.len() as u64;
        let end = bytes.iter().rposition(|byte| *byte != 0);
        bytes.truncate(end.map_or(0, |last| last + 1));
        if !bytes.is_empty() {
            files.write_at(&new, &bytes, offset).map_err(failed)?;
        }
        offset += read;
        if read < COPIED {
            break;
        }
    }
    files.sync_all(&new).map_err(failed)?;
    files
        .rename(&draft, &path)
        .map_err(|error| StoreError::io("replace", &path, error))
}

pub(super) fn sync_folder(files: &dyn FileSystem, folder: &Path) -> Result<(), StoreError> {
    files
        .sync_folder(folder)
        .map_err(|error| StoreError::io("sync", folder, error))
}
