//! Who uses the database now: many at once, or one who replaces it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::SessionError;

/// A lock file beside the database. While anybody is inside, nobody replaces the database under them; a lock that lies in
/// the database itself could not give that, since it goes when the file goes.
pub(crate) struct Gate {
    path: PathBuf,
    file: Option<Arc<File>>,
}

/// How one passes the gate.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Pass {
    /// With others.
    Shared,
    /// Alone.
    Alone,
}

/// Leaves when it is dropped.
pub(crate) struct Inside(Option<Arc<File>>);

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // A lock that cannot be given back ends with the file.
            let _ = file.unlock();
        }
    }
}

impl Gate {
    /// # Errors
    /// The lock file cannot be made.
    pub(crate) fn open(path: PathBuf) -> io::Result<Gate> {
        let file = Gate::file(&path)?;
        Ok(Gate {
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

    /// Waits for its turn, not beyond the deadline; `None` where time is up.
    ///
    /// # Errors
    /// The lock file cannot be made or locked.
    pub(crate) fn pass(&mut self, pass: Pass, deadline: Instant) -> Result<Option<Inside>, SessionError> {
        let mut pause = Duration::from_millis(1);
        loop {
            let file = match &self.file {
                Some(file) => file.clone(),
                None => {
                    let file = Gate::file(&self.path).map_err(|source| self.failed("open", source))?;
                    self.file.insert(file).clone()
                }
            };
            let locked = match pass {
                Pass::Shared => file.try_lock_shared(),
                Pass::Alone => file.try_lock(),
            };
            match locked {
                Ok(()) => {
                    let inside = Inside(Some(file.clone()));
                    if is_at(&file, &self.path) {
                        return Ok(Some(inside));
                    }
                    // Somebody has removed the lock file; those who come now make a new one.
                    self.file = None;
                }
                Err(TryLockError::WouldBlock) => {
                    if Instant::now() >= deadline {
                        return Ok(None);
                    }
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
                // Where files cannot be locked, SQLite could not lock its own either: there is one process at most.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(Some(Inside(None)));
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

/// A file that is open cannot be removed there.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}
