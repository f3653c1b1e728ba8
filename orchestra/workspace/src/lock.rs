//! One operation at a time in a repository, and what a killed one left behind.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::fault::WorkspaceFault;

/// How long an operation takes at most: what came later is not of one that was killed.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// How long another operation is waited for.
const WAIT: Duration = Duration::from_secs(300);

/// A lock file of git that is older than this, where we alone work, is nobody's.
const STALE: Duration = Duration::from_secs(1);

/// The lock of a repository, held for one operation. It dies with its process and the git commands that it runs.
#[derive(Debug)]
pub(crate) struct RepositoryLock {
    file: Arc<File>,
    /// When the operation that was killed began, if the last one was.
    killed: Option<SystemTime>,
}

impl RepositoryLock {
    /// Waits for the lock in a common git folder and writes down what is about to be done.
    pub(crate) fn take(
        repository: &str,
        common: &Path,
        operation: &str,
    ) -> Result<RepositoryLock, WorkspaceFault> {
        let path = common.join("orchestra.lock");
        let io = |source| WorkspaceFault::io(repository, &path, source);
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
        // What is there was written by us, or is damage, which counts as an operation that was killed.
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

    /// The file, for commands that are to hold it as well.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Whether the operation before this one was killed.
    pub(crate) fn after_kill(&self) -> bool {
        self.killed.is_some()
    }

    /// Removes a lock file of git on what only this run changes, once nobody can be behind it.
    pub(crate) fn unlock(&self, path: &Path) {
        if self.killed.is_none() {
            wait_for_age(path);
        }
        let _ = fs::remove_file(path);
    }

    /// The lock of all refs is shared with the user: it goes only if it came while our killed operation ran.
    fn unlock_packed(&self, path: &Path, began: SystemTime) {
        let later = fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|made| made >= began && made <= began + LONGEST);
        if later {
            wait_for_age(path);
            let _ = fs::remove_file(path);
        }
    }
}

impl Drop for RepositoryLock {
    fn drop(&mut self) {
        // Empty means that the operation came to its end, well or not.
        let _ = self.file.set_len(0);
        let _ = self.file.unlock();
    }
}

fn wait(file: File, repository: &str, path: &Path) -> Result<File, WorkspaceFault> {
    let io = |source| WorkspaceFault::io(repository, path, source);
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(source)) => return Err(io(source)),
    }
    let (sender, locked) = channel();
    // Where nobody waits any more, the lock is let go as soon as it is got.
    let waiting = thread::Builder::new().spawn(move || {
        let result = file.lock().map(|()| file);
        let _ = sender.send(result);
    });
    waiting.map_err(io)?;
    match locked.recv_timeout(WAIT) {
        Ok(result) => result.map_err(io),
        Err(_) => Err(WorkspaceFault::Busy {
            repository: repository.to_owned(),
            seconds: WAIT.as_secs(),
            holder: fs::read_to_string(path).unwrap_or_default().trim().to_owned(),
        }),
    }
}

/// Waits until a lock file is gone, or too old to be held by a command that runs.
fn wait_for_age(path: &Path) {
    let young = || {
        let made = fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
        STALE.checked_sub(SystemTime::now().duration_since(made).unwrap_or(STALE))
    };
    while let Some(left) = young().filter(|left| !left.is_zero()) {
        thread::sleep(left.min(Duration::from_millis(20)));
    }
}

/// The lock files of git for some refs.
pub(crate) fn ref_locks(common: &Path, refs: &[String]) -> Vec<PathBuf> {
    refs.iter()
        .map(|name| common.join(format!("{name}.lock")))
        .collect()
}
