//! The program itself.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_hello")).args(args).output();
    program.unwrap()
}

fn reported(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_colleague_is_welcomed() {
    let done = run(&[]);
    let reported = reported(&done);
    assert_eq!(done.status.code(), Some(0), "{reported}");
    assert!(
        reported.starts_with("Hello: start -> draft -> polish -> exit\n"),
        "{reported}"
    );
}
