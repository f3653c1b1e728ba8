//! The program itself: with one mirror down, and with two.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_parallel_review"))
        .args(args)
        .output();
    program.unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_page_is_published_on_the_mirrors_that_answer() {
    let done = run(&[]);
    let told = told(&done);
    assert_eq!(done.status.code(), Some(0), "{told}");
    assert!(told.contains("write: mended: fillers\n"), "{told}");
    assert!(told.contains("north: not waited for\n"), "{told}");
}

#[test]
fn in_a_storm_the_page_is_withdrawn() {
    let done = run(&["storm"]);
    let told = told(&done);
    assert_eq!(done.status.code(), Some(1), "{told}");
    assert!(told.contains("withdraw: withdrawn from west\n"), "{told}");
}
