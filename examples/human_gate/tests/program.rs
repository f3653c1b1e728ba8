//! The program itself: answers of the command line, of a pipe, and of nobody.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(args: &[&str], input: &str) -> Output {
    let runs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("human_gate");
    let mut program = Command::new(env!("CARGO_BIN_EXE_human_gate"));
    program.args(["run", "human_gate", "--runs"]).arg(runs).args(args);
    let piped = program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // A program that asks nothing may be gone before this is written.
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn answers_of_the_command_line_are_taken_in_turn() {
    let done = run(&["--answer", "review=Shorten", "--answer", "review=p"], "");
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert_eq!(
        text(&done.stdout),
        "success: start -> write -> review -> shorten -> review -> publish -> exit\n"
    );
}

#[test]
fn lines_of_a_pipe_answer_and_nonsense_is_asked_again() {
    let done = run(&[], "X\nA\nIt also floats.\nD\n");
    let shown = text(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{shown}");
    assert!(
        shown.contains("the line is not one of the answers: [P] Publish"),
        "{shown}"
    );
    assert!(shown.contains("It also floats.\""), "{shown}");
    assert_eq!(
        text(&done.stdout),
        "success: start -> write -> review -> wording -> amend -> review -> discard -> exit\n"
    );
}

#[test]
fn where_nobody_can_be_asked_the_gate_is_named() {
    let done = run(&[], "");
    let shown = text(&done.stderr);
    assert_eq!(done.status.code(), Some(5), "{shown}");
    assert!(shown.contains("the gate `review` waits for a person"), "{shown}");
    assert_eq!(text(&done.stdout), "paused: start -> write\n");
}

#[test]
fn a_run_that_waits_is_answered_and_goes_on_in_another_process_of_the_same_program() {
    let dir = tempfile::tempdir().unwrap();
    let program = |args: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_human_gate"));
        program.args(args).current_dir(dir.path()).stdin(Stdio::null());
        program.output().unwrap()
    };
    let waits = program(&["run", "human_gate", "--set", "product=Kettle"]);
    assert_eq!(waits.status.code(), Some(5));
    let shown = text(&waits.stderr);
    let command = shown.trim_end().lines().next_back().unwrap().to_owned();
    assert!(command.starts_with("resume with: human_gate resume "), "{shown}");
    let shortened = program(&["answer", "last", "review", "Shorten"]);
    assert_eq!(shortened.status.code(), Some(0), "{}", text(&shortened.stderr));
    let id = command.rsplit(' ').next().unwrap();
    let published = program(&["resume", id, "--answer", "review=Publish"]);
    assert_eq!(
        text(&published.stdout),
        "success: start -> write -> review -> shorten -> review -> publish -> exit\n"
    );
    let folder = dir.path().join(".orchestra/runs").join(id);
    let announcement = std::fs::read_to_string(folder.join("publish/announcement.md")).unwrap();
    assert_eq!(
        announcement,
        "Kettle 1.4 is here. It starts twice as fast and needs half of the memory.\n"
    );
}
