//! Projects that `orchestra init` creates compile and run.

#![cfg(unix)]

use crate::support;

use std::path::Path;
use std::process::Command;

use support::{Scratch, done};

/// Checks a created project as the packages of `tests/compile_fail` are checked, with their features, so that nothing is
/// compiled but the project; or builds and runs it as it is if `ORCHESTRA_INIT=run`. Nothing is downloaded.
fn cargo(scratch: &Scratch, project: &str, pipeline: &str, path: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::copy(root.join("Cargo.lock"), scratch.path(project).join("Cargo.lock")).unwrap();
    let run = std::env::var_os("ORCHESTRA_INIT").is_some_and(|how| how == "run");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args([
            if run { "run" } else { "check" },
            "--quiet",
            "--offline",
            "--config",
        ])
        .arg(root.join("tests/checks.toml"));
    if run {
        command.args(["--", "run", pipeline]);
    } else {
        for feature in ["agents", "server", "testkit"] {
            command.arg(format!("--features=orchestra-workflow/{feature}"));
        }
    }
    // As for those packages: what the outer cargo says to its tests would run build scripts again.
    for (name, _) in std::env::vars_os() {
        let known = name.to_string_lossy();
        if known.starts_with("CARGO_PKG_") || known.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
        .current_dir(scratch.path(project))
        .env(
            "CARGO_TARGET_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap(),
        )
        .env("CARGO_INCREMENTAL", "0")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    let done = done(command.output().unwrap()).exits(0);
    assert!(!done.stderr.contains("warning"), "{}", done.stderr);
    if run {
        assert_eq!(done.stdout, format!("success: {path}\n"));
    }
}

#[test]
fn a_new_project_of_each_template_compiles_and_runs() {
    let scratch = Scratch::new();
    let created = scratch.call(&["init", "greeting"]).exits(0);
    let next = "next: cd greeting && orchestra run pipelines/greeting.dot\n";
    assert!(created.stderr.contains(next), "{}", created.stderr);
    let run = scratch
        .command(&["run", "pipelines/greeting.dot"])
        .current_dir(scratch.path("greeting"))
        .output();
    done(run.unwrap()).exits(0);
    cargo(
        &scratch,
        "greeting",
        "greeting",
        "start -> greet -> check -> exit",
    );
    scratch
        .call(&["init", "nightly-build", "--template", "tools"])
        .exits(0);
    cargo(
        &scratch,
        "nightly-build",
        "nightly_build",
        "start -> build -> test -> passed -> report -> exit",
    );
}
