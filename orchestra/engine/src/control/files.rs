//! The files of both sides. No link among them is followed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use crate::store::StoreError;

/// Makes a folder, unless it is there; a link to a folder is none.
pub(super) fn make_folder(path: &Path) -> Result<(), StoreError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => Err(StoreError::NotPlain {
                path: path.to_owned(),
                expected: "folder",
            }),
            Err(error) => Err(StoreError::io("read", path, error)),
        },
        Err(error) => Err(StoreError::io("make", path, error)),
        Ok(()) => Ok(()),
    }
}

/// Puts a new file in a place at once, whatever stood there; a link is replaced too.
pub(super) fn place(draft: &Path, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    match fs::remove_file(draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(StoreError::io("remove", draft, error));
        }
        _ => {}
    }
    let placed = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(draft)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(draft, path));
    placed.map_err(|error| {
        let _ = fs::remove_file(draft);
        StoreError::io("write", path, error)
    })
}

/// Reads a small plain file.
pub(super) fn read_plain(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_plain(path)?;
    if !file.metadata()?.is_file() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
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
