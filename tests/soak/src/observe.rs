//! What a folder takes on the disk.

use std::path::Path;

/// Returns how many bytes the files in a folder have, and how many files there are.
pub(crate) fn size(folder: &Path) -> (u64, u64) {
    let (mut bytes, mut files) = (0, 0);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path().symlink_metadata() {
            Ok(found) if found.is_dir() => {
                let inside = size(&entry.path());
                bytes += inside.0;
                files += inside.1;
            }
            Ok(found) => {
                bytes += found.len();
                files += 1;
            }
            Err(_) => {}
        }
    }
    (bytes, files)
}
