//! The program itself: with one mirror down, and with two.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_parallel_review"))
        .args(args)
        .output();
    program.unwrap()
}

fn reported(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_page_is_published_on_the_mirrors_that_answer() {
    let done = run(&[]);
    let reported = reported(&done);
    assert_eq!(done.status.code(), Some(0), "{reported}");
    assert!(reported.contains("write: mended: fillers\n"), "{reported}");
    assert!(reported.contains("north: not waited for\n"), "{reported}");
}

#[test]
fn in_a_storm_the_page_is_withdrawn() {
    let done = run(&["storm"]);
    let reported = reported(&done);
    assert_eq!(done.status.code(), Some(1), "{reported}");
    assert!(reported.contains("withdraw: withdrawn from west\n"), "{reported}");
}
