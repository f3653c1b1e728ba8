//! Writing the files of a project.

use std::io;
use std::path::Path;

use crate::error::CliError;

/// Writes a file atomically, so that a crash leaves either the old or the new text. A link is followed, and a file that
/// exists keeps its permissions.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let target = match std::fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        resolved => resolved.map_err(|error| unwritable(path, &error))?,
    };
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    name.push(".orchestra-tmp");
    let temporary = target.with_file_name(name);
    let written = std::fs::write(&temporary, bytes)
        .and_then(|()| match std::fs::metadata(&target) {
            Ok(old) => std::fs::set_permissions(&temporary, old.permissions()),
            Err(_) => Ok(()),
        })
        .and_then(|()| std::fs::rename(&temporary, &target));
    written.map_err(|error| {
        // Best effort: the first error is the one to report.
        let _ = std::fs::remove_file(&temporary);
        unwritable(path, &error)
    })
}

/// Returns the error for a file that cannot be written.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> CliError {
    let message = format!("cannot write `{}`: {error}", path.display());
    CliError::usage("unwritable_file", message)
}
