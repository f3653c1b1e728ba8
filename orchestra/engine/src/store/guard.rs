//! A lock on a run folder for a short time.

use std::path::Path;
use std::time::Duration;

use super::error::StoreError;
use super::files::{Access, FileSystem, OpenFile};

/// The number and the interval of attempts to get the lock.
const TRIES: u32 = 1_000;
const PAUSE: Duration = Duration::from_millis(2);

/// A lock on a folder for a short time.
pub(super) struct Guard(Option<OpenFile>);

impl Drop for Guard {
    fn drop(&mut self) {
        // Closing it is not enough while a program that is being started still holds it open.
        let _ = self.0.as_ref().map(OpenFile::unlock);
    }
}

/// Locks a folder for a short time. Returns `None` if another process keeps it locked. If the system cannot lock
/// folders, the guard has no effect.
pub(super) fn guard(files: &dyn FileSystem, folder: &Path) -> Result<Option<Guard>, StoreError> {
    if !cfg!(unix) {
        return Ok(Some(Guard(None)));
    }
    let opened = files
        .open(folder, Access::Folder)
        .map_err(|error| StoreError::io("open", folder, error))?;
    for _ in 0..TRIES {
        match files.try_lock(&opened) {
            Ok(true) => return Ok(Some(Guard(Some(opened)))),
            Ok(false) => std::thread::sleep(PAUSE),
            Err(_) => return Ok(Some(Guard(None))),
        }
    }
    Ok(None)
}

/// Returns the error for a folder that another process keeps locked.
pub(super) fn busy(folder: &Path) -> StoreError {
    StoreError::Busy {
        path: folder.to_owned(),
        pid: locked_by(folder),
    }
}

/// Returns the process that has locked a folder, if the system reports it.
#[cfg(target_os = "linux")]
fn locked_by(folder: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let inode = std::fs::metadata(folder).ok()?.ino().to_string();
    // A line has the form `1: FLOCK  ADVISORY  WRITE 4242 fe:00:1234 0 EOF`.
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let is_lock = words.next() == Some("FLOCK");
        let (pid, file) = (words.nth(2)?, words.next()?);
        let (_, locked) = file.rsplit_once(':')?;
        (is_lock && locked == inode).then(|| pid.parse().ok())?
    })
}

#[cfg(not(target_os = "linux"))]
fn locked_by(_: &Path) -> Option<u32> {
    None
}
