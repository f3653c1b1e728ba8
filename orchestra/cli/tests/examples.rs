//! The examples, run by the program as the README says.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;

use support::{Done, Place};

fn examples() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"))
}

/// A copy of the release check, so that its crate can be broken.
fn release_check(place: &Place) {
    for file in ["release_check.dot", "widget/Cargo.toml", "widget/src/lib.rs"] {
        let text = std::fs::read(examples().join("release_check").join(file)).unwrap();
        place.write(&format!("examples/release_check/{file}"), text);
    }
}

fn run_release_check(place: &Place) -> Done {
    place.call(&["run", "examples/release_check/release_check.dot"])
}

#[test]
fn the_release_check_builds_tests_and_packages_a_real_crate() {
    let place = Place::new();
    release_check(&place);
    let run = run_release_check(&place).exits(0);
    assert_eq!(
        run.stdout,
        "success: start -> build -> test -> verdict -> package -> record -> exit\n"
    );
    assert!(
        place
            .path("examples/release_check/widget/target/package/widget-0.3.1.crate")
            .is_file()
    );
}

#[test]
fn a_broken_test_takes_the_failure_path_and_says_so() {
    let place = Place::new();
    release_check(&place);
    let source = "examples/release_check/widget/src/lib.rs";
    let text = place.read(source);
    place.write(
        source,
        text.replace("self.major == other.major", "self.major != other.major"),
    );
    let run = run_release_check(&place).exits(1);
    assert_eq!(
        run.stdout,
        "failed: start -> build -> test -> verdict -> report_failure\n"
    );
    assert!(
        run.stderr.contains("-> report_failure (outcome=fail)"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("end=\"fail\""), "{}", run.stderr);
}

#[test]
fn every_example_is_sound_and_canonical() {
    let place = Place::new();
    let mut files = Vec::new();
    for example in std::fs::read_dir(examples()).unwrap() {
        for file in std::fs::read_dir(example.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "dot") {
                files.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    assert!(files.len() >= 3, "{files:?}");
    let mut args = vec!["check", "--deny", "warnings"];
    args.extend(files.iter().map(String::as_str));
    place.call(&args).exits(0);
    let mut args = vec!["fmt", "--check"];
    args.extend(files.iter().map(String::as_str));
    place.call(&args).exits(0);
}

#[test]
fn the_branching_example_takes_both_ways() {
    let place = Place::new();
    let file = examples().join("branching/branching.dot");
    let file = file.to_str().unwrap();
    let yes = place.call(&["run", file, "--simulate"]).exits(0);
    assert_eq!(
        yes.stdout,
        "success: start -> translate -> readable -> proofread -> exit\n"
    );
    let no = place
        .call(&["run", file, "--simulate", "--outcome", "translate=fail"])
        .exits(0);
    assert_eq!(
        no.stdout,
        "success: start -> translate -> readable -> apologise -> exit\n"
    );
}
