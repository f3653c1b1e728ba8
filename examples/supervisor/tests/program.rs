//! The program itself, in real time.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_supervisor")).args(args).output();
    program.unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_child_is_told_a_better_way() {
    let done = run(&[]);
    let told = told(&done);
    assert_eq!(done.status.code(), Some(0), "{told}");
    assert!(told.contains("watch: steers `approximate`"), "{told}");
    assert!(told.contains("report: pi is 3.14159265"), "{told}");
}
