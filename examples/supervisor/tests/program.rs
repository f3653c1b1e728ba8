//! The program itself, in real time.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_supervisor")).args(args).output();
    program.unwrap()
}

fn reported(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_child_is_told_a_better_way() {
    let done = run(&[]);
    let reported = reported(&done);
    assert_eq!(done.status.code(), Some(0), "{reported}");
    assert!(reported.contains("watch: steers `approximate`"), "{reported}");
    assert!(reported.contains("report: pi is 3.14159265"), "{reported}");
}
