//! Support for tests that need programs which a machine may lack, such as a browser or an editor.

use std::io::Write as _;
use std::path::PathBuf;

/// Returns the path of a program.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}

/// Says on standard error that the test of this thread is skipped, also if the harness captures the output of tests.
///
/// # Panics
/// Panics like [`skip_test`].
#[track_caller]
pub fn skip(reason: &str) {
    let test = std::thread::current();
    skip_test(test.name().unwrap_or("a test"), reason);
}

/// Says on standard error that a test is skipped.
///
/// # Panics
/// Panics on a CI machine, unless `.ci/run` could not install what the test needs and has said so.
#[track_caller]
pub fn skip_test(name: &str, reason: &str) {
    let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    let may_skip = std::env::var_os("ORCHESTRA_MAY_SKIP").is_some();
    assert!(!is_ci || may_skip, "{reason}, and CI=true");
    skip_unrequested(name, reason);
}

/// Says on standard error that a test is skipped, which runs only if somebody asks for it: also on a CI machine.
pub fn skip_unrequested(name: &str, reason: &str) {
    // In one write, because other tests write at the same time.
    let _ = std::io::stderr().write_all(format!("{name} skipped: {reason}\n").as_bytes());
}
