//! The installation of the server by npm.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use orchestra_installed_tests::{find, skip_test};
use orchestra_restate::LocalServer;

const MANIFEST: &str = include_str!("../package.json");
/// Names the exact packages, with hashes of their content.
const LOCK: &str = include_str!("../package-lock.json");
/// Written after an installation: the lock file that was installed.
const INSTALLED: &str = "installed.json";

/// Returns the program of the server: that of `ORCHESTRA_RESTATE_SERVER`, else the one that npm installs into
/// `target/restate`. Without one, says that the test is skipped.
///
/// # Panics
/// Panics if `ORCHESTRA_RESTATE_SERVER` is not a file, or if there is no server and `ORCHESTRA_RESTATE_REQUIRED=1`.
#[track_caller]
pub fn server_or_skip(test: &str) -> Option<PathBuf> {
    static SERVER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match SERVER.get_or_init(server) {
        Ok(program) => Some(program.clone()),
        Err(reason) => {
            let reason = format!(
                "no Restate server: {reason}; run `{}` and set ORCHESTRA_RESTATE_SERVER to its program",
                LocalServer::INSTALL
            );
            let is_required =
                std::env::var_os("ORCHESTRA_RESTATE_REQUIRED").is_some_and(|value| value == "1");
            assert!(
                !is_required,
                "{test} needs what ORCHESTRA_RESTATE_REQUIRED=1 promises: {reason}"
            );
            skip_test(test, &reason);
            None
        }
    }
}

#[allow(clippy::panic)]
fn server() -> Result<PathBuf, String> {
    if let Some(explicit) = std::env::var_os("ORCHESTRA_RESTATE_SERVER").filter(|path| !path.is_empty()) {
        let found = LocalServer::find(Some(Path::new(&explicit)), &[] as &[PathBuf], None);
        // A mistake in the variable must not skip tests.
        return Ok(found.unwrap_or_else(|error| panic!("ORCHESTRA_RESTATE_SERVER: {error}")));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    install(&target.join("restate"))
}

/// Installs the server into a folder, unless it is installed there. Waits for other processes that do so.
fn install(folder: &Path) -> Result<PathBuf, String> {
    let failed = |error: io::Error| format!("cannot install it into {}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let lock = File::create(folder.join("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let installed = folder.join(INSTALLED);
    let find_here = || LocalServer::find(None, &[folder], None).map_err(|error| error.to_string());
    if fs::read_to_string(&installed).is_ok_and(|lock| lock == LOCK)
        && let Ok(program) = find_here()
    {
        return Ok(program);
    }
    if find("npm").is_none() {
        return Err("npm is not installed".to_owned());
    }
    let _ = fs::remove_file(&installed);
    fs::write(folder.join("package.json"), MANIFEST).map_err(failed)?;
    fs::write(folder.join("package-lock.json"), LOCK).map_err(failed)?;
    let output = Command::new("npm")
        .args([
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--fetch-retries=1",
        ])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(failed)?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let first: Vec<&str> = errors.lines().take(3).collect();
        return Err(format!("`npm ci` failed: {}", first.join("; ")));
    }
    let program = find_here()?;
    fs::write(&installed, LOCK).map_err(failed)?;
    Ok(program)
}
