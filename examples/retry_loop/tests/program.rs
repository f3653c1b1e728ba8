//! The program itself: an author who listens, and one who does not.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_retry_loop")).args(args).output();
    program.unwrap()
}

fn reported(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_third_try_is_verified() {
    let done = run(&[]);
    let reported = reported(&done);
    assert_eq!(done.status.code(), Some(0), "{reported}");
    assert!(reported.contains("verifier, try 1: tests: "), "{reported}");
    assert!(reported.contains("verifier, try 2: lint: "), "{reported}");
    assert!(reported.contains("tries: 3\n\n## Features\n"), "{reported}");
}

#[test]
fn an_author_who_does_not_listen_ends_at_the_failed_end() {
    let done = run(&["deaf"]);
    let reported = reported(&done);
    assert_eq!(done.status.code(), Some(1), "{reported}");
    assert!(
        reported.contains("-> failed\ntries: 3\nfailed_at: 2"),
        "{reported}"
    );
    assert_eq!(
        reported
            .lines()
            .filter(|line| line.starts_with("  verifier, try"))
            .count(),
        3,
        "{reported}"
    );
}
