//! The program itself, without a model.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_pr_review"));
    program
        .args(args)
        .env_remove("ANTHROPIC_API_KEY")
        .output()
        .unwrap()
}

#[test]
fn it_reviews_in_two_rounds_and_needs_no_key() {
    let done = run(&[]);
    let reported = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(0), "{reported}");
    let rounds = reported.lines().filter(|line| *line == "review: success").count();
    assert_eq!(rounds, 2, "{reported}");
    let decisions: Vec<&str> = reported
        .lines()
        .filter_map(|line| line.strip_prefix("critic: "))
        .collect();
    assert_eq!(decisions, ["insufficient", "success"]);
    assert!(
        reported.ends_with("critic -> synthesizer -> exit\n"),
        "{reported}"
    );
}

#[test]
fn what_it_does_not_know_it_refuses() {
    let done = run(&["aks", "change.diff"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8(done.stderr).unwrap().contains("aks"));
}
