//! Files that only their owner can read.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

/// Creates or overwrites a file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}
