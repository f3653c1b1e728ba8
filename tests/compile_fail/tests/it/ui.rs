//! Wrong uses of the macros in `ui/`, each with the complete output of rustc beside it. `TRYBUILD=overwrite` writes the
//! output anew.
//!
//! Wrong pipelines are tested by packages that the other tests create (`Package`). `trybuild` compares nothing but
//! programs that do not build, so it cannot hold the warnings of a pipeline that builds; and it compiles all programs in
//! one generated package, so they cannot have a manifest, a configuration or prompt layers of their own.

use std::process::Command;

#[test]
fn every_wrong_use_is_explained_at_its_token() {
    // `trybuild` checks the dependencies once without and once with its own flags for rustc, and a test cannot change its
    // environment. With no flags at all, they are checked once, together with those of `Package`.
    let program = std::env::current_exe().expect("the test has a program");
    let output = Command::new(program)
        .args(["--exact", "ui::cases", "--ignored", "--nocapture"])
        .env("CARGO_ENCODED_RUSTFLAGS", "")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()
        .expect("the test can be started");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "run by the test above"]
fn cases() {
    trybuild::TestCases::new().compile_fail("ui/*/*.rs");
}
