//! Projects that `orchestra init` creates compile and run.

#![cfg(unix)]

use crate::support;

use std::path::Path;
use std::process::Command;

use support::{Scratch, done};

/// Checks a created project, or builds and runs it if `ORCHESTRA_INIT=run`. All projects share one target folder with the
/// packages of `tests/compile_fail`, and nothing is downloaded. A check also shares their set of features, so that the
/// dependencies are compiled once; a build has exactly the features of the project.
fn cargo(scratch: &Scratch, project: &str, pipeline: &str, path: &str) {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    std::fs::copy(lock, scratch.path(project).join("Cargo.lock")).unwrap();
    let run = std::env::var_os("ORCHESTRA_INIT").is_some_and(|how| how == "run");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .arg(if run { "run" } else { "check" })
        .args(["--quiet", "--offline", "--target=host-tuple"])
        .args(if run {
            ["--", "run", pipeline]
        } else {
            ["--features", "orchestra/agents", "--features=orchestra/testkit"]
        })
        .current_dir(scratch.path(project))
        .env(
            "CARGO_TARGET_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR"))
                .with_file_name("tests")
                .join("trybuild"),
        )
        // As for the packages of `tests/compile_fail`, which are built in the same folder.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
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
    scratch.call(&["init", "greeting"]).exits(0);
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
