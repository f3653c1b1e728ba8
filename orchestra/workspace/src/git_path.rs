//! Paths as git prints them.

#[cfg(unix)]
use std::ffi::OsStr;
use std::ffi::OsString;
use std::path::PathBuf;

/// Converts a path that git printed as one line. The path may contain line breaks.
pub(crate) fn path_from(output: &[u8]) -> PathBuf {
    os_path(output.strip_suffix(b"\n").unwrap_or(output))
}

/// Converts a path from the bytes that git prints.
pub(crate) fn os_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(os_text(bytes))
}

#[cfg(unix)]
fn os_text(bytes: &[u8]) -> OsString {
    <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes).to_owned()
}

#[cfg(not(unix))]
fn os_text(bytes: &[u8]) -> OsString {
    String::from_utf8_lossy(bytes).into_owned().into()
}
