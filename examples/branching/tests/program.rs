//! The program itself, with the command line for its pipeline.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let runs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("branching");
    let mut program = Command::new(env!("CARGO_BIN_EXE_branching"));
    let program = program.args(["run", "branching", "--runs"]).arg(runs);
    program.args(args).output().unwrap()
}

#[test]
fn both_ways_are_taken() {
    let yes = run(&["--simulate"]);
    assert_eq!(
        String::from_utf8(yes.stdout).unwrap(),
        "success: start -> translate -> readable -> proofread -> exit\n"
    );
    let no = run(&["--simulate", "--outcome", "translate=fail"]);
    assert_eq!(
        String::from_utf8(no.stdout).unwrap(),
        "success: start -> translate -> readable -> apologise -> exit\n"
    );
}

#[test]
fn models_alone_can_be_simulated() {
    let run = run(&["--simulate-models", "--outcome", "translate=fail"]);
    assert_eq!(
        String::from_utf8(run.stdout).unwrap(),
        "success: start -> translate -> readable -> apologise -> exit\n"
    );
}
