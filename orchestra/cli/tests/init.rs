//! What `orchestra init` makes compiles and runs.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::Command;

use support::{Done, Place, done};

/// Builds and runs a project that was made; all of them share one target folder with the packages of
/// `tests/compile_fail`, and nothing is fetched.
fn run(place: &Place, project: &str, pipeline: &str) -> Done {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    std::fs::copy(lock, place.path(project).join("Cargo.lock")).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["run", "--quiet", "--offline", "--", "run", pipeline])
        .current_dir(place.path(project));
    command.env(
        "CARGO_TARGET_DIR",
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("target"),
    );
    command
        // Nobody debugs what comes of it.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    done(command.output().unwrap())
}

#[test]
fn a_new_project_of_each_template_compiles_and_runs() {
    let place = Place::new();
    place.call(&["init", "greeting"]).exits(0);
    let hello = run(&place, "greeting", "greeting").exits(0);
    assert_eq!(hello.stdout, "success: start -> greet -> check -> exit\n");
    place
        .call(&["init", "nightly-build", "--template", "tools"])
        .exits(0);
    let tools = run(&place, "nightly-build", "nightly_build").exits(0);
    assert_eq!(
        tools.stdout,
        "success: start -> build -> test -> passed -> report -> exit\n"
    );
    assert!(!tools.stderr.contains("warning"), "{}", tools.stderr);
}
