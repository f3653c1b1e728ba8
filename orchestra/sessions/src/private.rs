//! Files that only their user may read.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

/// Writes a new file, or one that is there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}
