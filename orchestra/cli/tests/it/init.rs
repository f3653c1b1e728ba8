//! Projects that `orchestra init` creates compile and run.

#![cfg(unix)]

use crate::support;

use std::path::Path;
use std::process::Command;

use support::{Done, Scratch, done};

/// Builds and runs a created project. All projects share one target folder with the packages of `tests/compile_fail`,
/// and nothing is downloaded.
fn run(scratch: &Scratch, project: &str, pipeline: &str) -> Done {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    std::fs::copy(lock, scratch.path(project).join("Cargo.lock")).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["run", "--quiet", "--offline", "--", "run", pipeline])
        .current_dir(scratch.path(project));
    command.env(
        "CARGO_TARGET_DIR",
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("target"),
    );
    command
        // As for the packages of `tests/compile_fail`, which are built in the same folder.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "0")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    done(command.output().unwrap())
}

#[test]
fn a_new_project_of_each_template_compiles_and_runs() {
    let scratch = Scratch::new();
    scratch.call(&["init", "greeting"]).exits(0);
    let hello = run(&scratch, "greeting", "greeting").exits(0);
    assert_eq!(hello.stdout, "success: start -> greet -> check -> exit\n");
    scratch
        .call(&["init", "nightly-build", "--template", "tools"])
        .exits(0);
    let tools = run(&scratch, "nightly-build", "nightly_build").exits(0);
    assert_eq!(
        tools.stdout,
        "success: start -> build -> test -> passed -> report -> exit\n"
    );
    assert!(!tools.stderr.contains("warning"), "{}", tools.stderr);
}
