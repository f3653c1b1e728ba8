//! Files and folders of which no link is followed, for the parts of a run folder that keep themselves.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;

use super::StoreError;

/// Opens a file for reading without following a link and without waiting for the writer of a pipe.
pub(crate) fn open_plain(path: &Path) -> io::Result<File> {
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
pub(crate) fn make_folder(path: &Path) -> Result<(), StoreError> {
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

/// Puts a new file in a place, whatever stood there: the draft is new, and the move replaces links too.
pub(crate) fn replace(
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
