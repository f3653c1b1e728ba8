//! VS Code in a browser, with the packaged extension: `editors/vscode/test/session.mjs`.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use orchestra_installed_tests::{find, skip};

use crate::support::{PROGRAM, repository};

/// Returns the name of the file that `editors/install-vscode` creates last.
fn installed() -> String {
    let script = std::fs::read_to_string(repository().join("editors/install-vscode")).unwrap();
    let version = script.lines().find_map(|line| line.strip_prefix("version="));
    format!("installed-{}", version.expect("a version"))
}

fn printed(output: &Output) -> String {
    let (out, error) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(error)
    )
}

#[test]
fn a_session_with_the_packaged_extension() {
    let extension = repository().join("editors/vscode");
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let code = temporary.join("vscode");
    let has_programs = ["node", "npm", "chromium"]
        .iter()
        .all(|program| find(program).is_some());
    if !has_programs || !code.join(installed()).exists() || !extension.join("node_modules").exists() {
        return skip("VS Code is not installed by `editors/prepare`");
    }
    let package = Command::new("npm")
        .args(["run", "package"])
        .current_dir(&extension)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(package.status.success(), "{}", printed(&package));
    let session = Command::new("node")
        .arg(extension.join("test/session.mjs"))
        .arg("--code")
        .arg(&code)
        .arg("--extension")
        .arg(extension.join("orchestra.vsix"))
        .args(["--program", PROGRAM])
        .arg("--project")
        .arg(repository().join("examples/pr_review"))
        .arg("--failed")
        .arg(temporary.join("vscode-failed.png"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(session.status.success(), "{}", printed(&session));
}
