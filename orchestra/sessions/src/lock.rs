//! The lock that lets many users share the database, or one process replace it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::SessionError;

/// A lock file beside the database. While any process holds it, no process replaces the database. A lock in the
/// database file itself could not ensure that, because it disappears with the file.
pub(crate) struct DatabaseLock {
    path: PathBuf,
    file: Option<Arc<File>>,
}

/// The kind of access.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum LockMode {
    /// Together with other users.
    Shared,
    /// Exclusively.
    Exclusive,
}

/// A guard that releases the lock when it is dropped.
pub(crate) struct LockGuard(Option<Arc<File>>);

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // If this fails, the lock is released when the file is closed.
            let _ = file.unlock();
        }
    }
}

impl DatabaseLock {
    /// Opens the lock file.
    ///
    /// # Errors
    ///
    /// Returns an error if the lock file cannot be created.
    pub(crate) fn open(path: PathBuf) -> io::Result<DatabaseLock> {
        let file = DatabaseLock::file(&path)?;
        Ok(DatabaseLock {
            path,
            file: Some(file),
        })
    }

    fn file(path: &Path) -> io::Result<Arc<File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(path).map(Arc::new)
    }

    /// Waits for the lock until the deadline. Returns `None` if the deadline passes first.
    ///
    /// # Errors
    ///
    /// Returns an error if the lock file cannot be created or locked.
    pub(crate) fn acquire(
        &mut self,
        mode: LockMode,
        deadline: Instant,
    ) -> Result<Option<LockGuard>, SessionError> {
        let mut pause = Duration::from_millis(1);
        loop {
            let file = match &self.file {
                Some(file) => file.clone(),
                None => {
                    let file = DatabaseLock::file(&self.path);
                    let file = file.map_err(|source| self.failed("open", source))?;
                    self.file.insert(file).clone()
                }
            };
            let locked = match mode {
                LockMode::Shared => file.try_lock_shared(),
                LockMode::Exclusive => file.try_lock(),
            };
            match locked {
                Ok(()) => {
                    let guard = LockGuard(Some(file.clone()));
                    if is_at(&file, &self.path) {
                        return Ok(Some(guard));
                    }
                    // The lock file was removed; other processes create a new one, so open that.
                    self.file = None;
                }
                Err(TryLockError::WouldBlock) => {
                    if Instant::now() >= deadline {
                        return Ok(None);
                    }
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
                // SQLite could not lock its own files either, so at most one process can use the database.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(Some(LockGuard(None)));
                }
                Err(TryLockError::Error(source)) => return Err(self.failed("lock", source)),
            }
        }
    }

    fn failed(&self, action: &'static str, source: io::Error) -> SessionError {
        SessionError::io(action, &self.path, source)
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let of = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let (held, there) = (file.metadata().map(of).ok(), std::fs::metadata(path).map(of).ok());
    held.is_some() && held == there
}

/// An open file cannot be removed on these systems.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}
