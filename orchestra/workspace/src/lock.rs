//! The lock that serializes the operations in a repository, and the detection of operations that were killed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::error::GitWorkspaceError;

/// Maximum duration of an operation. A lock file that was created later is not from the killed operation.
const MAX_OPERATION: Duration = Duration::from_secs(15 * 60);

/// Maximum time to wait for another operation.
const LOCK_TIMEOUT: Duration = Duration::from_secs(300);

/// Age from which a lock file of git is stale, if only this run writes there.
const STALE_AGE: Duration = Duration::from_secs(1);

/// The lock of a repository, held for one operation. It is released when this process and the git commands that it runs
/// have ended.
#[derive(Debug)]
pub(crate) struct RepositoryLock {
    file: Arc<File>,
    /// The start time of the previous operation if it was killed.
    killed: Option<SystemTime>,
}

impl RepositoryLock {
    /// Waits for the lock in a common git folder and records the operation.
    pub(crate) fn take(
        repository: &str,
        common: &Path,
        operation: &str,
    ) -> Result<RepositoryLock, GitWorkspaceError> {
        let path = common.join("orchestra.lock");
        let io = |source| GitWorkspaceError::io(repository, &path, source);
        let open = || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
        };
        let mut file = wait(open().map_err(io)?, repository, &path)?;
        let mut left = String::new();
        // The content is the record of a previous operation. Unreadable content counts as a killed operation.
        if file.read_to_string(&mut left).is_err() {
            left.push('?');
        }
        let began = file
            .metadata()
            .and_then(|metadata| metadata.modified())
            .unwrap_or(SystemTime::UNIX_EPOCH);
        let killed = (!left.trim().is_empty()).then_some(began);
        file.set_len(0).map_err(io)?;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        let line = format!("{} {}\n", std::process::id(), operation.escape_debug());
        file.write_all(line.as_bytes()).map_err(io)?;
        let lock = RepositoryLock {
            file: Arc::new(file),
            killed,
        };
        if let Some(began) = lock.killed {
            lock.unlock_packed(&common.join("packed-refs.lock"), began);
        }
        Ok(lock)
    }

    /// Returns the file, for commands that hold the lock as well.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Returns whether the previous operation was killed.
    pub(crate) fn after_kill(&self) -> bool {
        self.killed.is_some()
    }

    /// Removes a lock file of git for refs that only this run changes, once no process can hold it.
    pub(crate) fn unlock(&self, path: &Path) {
        if self.killed.is_none() {
            wait_for_age(path);
        }
        let _ = fs::remove_file(path);
    }

    /// Removes the lock of the packed refs if it was created while the killed operation ran. The user's git commands
    /// share this lock.
    fn unlock_packed(&self, path: &Path, began: SystemTime) {
        let later = fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|modified| modified >= began && modified <= began + MAX_OPERATION);
        if later {
            wait_for_age(path);
            let _ = fs::remove_file(path);
        }
    }
}

impl Drop for RepositoryLock {
    fn drop(&mut self) {
        // An empty file means that the operation ended, successfully or not.
        let _ = self.file.set_len(0);
        let _ = self.file.unlock();
    }
}

fn wait(file: File, repository: &str, path: &Path) -> Result<File, GitWorkspaceError> {
    let io = |source| GitWorkspaceError::io(repository, path, source);
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(source)) => return Err(io(source)),
    }
    let (sender, locked) = channel();
    // If the receiver has timed out, the send fails and the lock is released again.
    let waiting = thread::Builder::new().spawn(move || {
        let result = file.lock().map(|()| file);
        let _ = sender.send(result);
    });
    waiting.map_err(io)?;
    match locked.recv_timeout(LOCK_TIMEOUT) {
        Ok(result) => result.map_err(io),
        Err(_) => Err(GitWorkspaceError::Busy {
            repository: repository.to_owned(),
            seconds: LOCK_TIMEOUT.as_secs(),
            holder: fs::read_to_string(path).unwrap_or_default().trim().to_owned(),
        }),
    }
}

/// Waits until a lock file is gone, or too old to belong to a running command.
fn wait_for_age(path: &Path) {
    let young = || {
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
        STALE_AGE.checked_sub(SystemTime::now().duration_since(modified).unwrap_or(STALE_AGE))
    };
    while let Some(left) = young().filter(|left| !left.is_zero()) {
        thread::sleep(left.min(Duration::from_millis(20)));
    }
}

/// Returns the paths of git's lock files for some refs.
pub(crate) fn ref_locks(common: &Path, refs: &[String]) -> Vec<PathBuf> {
    refs.iter()
        .map(|name| common.join(format!("{name}.lock")))
        .collect()
}
