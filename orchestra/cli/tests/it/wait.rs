//! Gates of a run without a person: late lines of a pipe, and `--wait` for answers of other processes.

#![cfg(unix)]

use crate::support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use support::{Done, Scratch, Started, done, gate};

const SHIPPED: &str = "success: start -> build -> approve -> ship -> exit\n";

/// A program that is read until it shows how its question can be answered.
struct Waiting {
    child: Child,
    input: Option<ChildStdin>,
    shown: BufReader<std::process::ChildStderr>,
    text: String,
}

impl Waiting {
    fn start(mut command: Command) -> Waiting {
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        Waiting {
            input: child.stdin.take(),
            shown: BufReader::new(child.stderr.take().unwrap()),
            child,
            text: String::new(),
        }
    }

    /// Reads up to the hint, and returns the command in it.
    fn hint(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.shown.read_line(&mut line).unwrap(), 0, "{}", self.text);
            self.text.push_str(&line);
            if let Some((_, command)) = line.split_once("answer with: ") {
                return command.trim().to_owned();
            }
        }
    }

    fn end(mut self) -> Done {
        std::io::Read::read_to_string(&mut self.shown, &mut self.text).unwrap();
        let done = done(self.child.wait_with_output().unwrap());
        Done {
            stderr: self.text,
            ..done
        }
    }
}

/// Runs a printed line in a shell.
fn typed(scratch: &Scratch, line: &str) -> Done {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_orchestra"));
    let path = std::env::var("PATH").unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).current_dir(scratch.path("."));
    shell.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
    done(shell.output().unwrap())
}

fn scratch(attributes: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("g.dot", gate(attributes));
    scratch
}

#[test]
fn a_line_of_a_pipe_that_comes_late_is_an_answer() {
    let scratch = scratch("");
    let mut command = scratch.command(&["run", "g.dot"]);
    command.stdin(Stdio::piped());
    let mut run = Waiting::start(command);
    run.hint();
    assert!(
        run.text.contains("no line of standard input yet; the run waits"),
        "{}",
        run.text
    );
    run.input.as_mut().unwrap().write_all(b"Y\n").unwrap();
    assert_eq!(run.end().exits(0).stdout, SHIPPED);
}

#[test]
fn a_pipe_that_ends_without_an_answer_pauses_the_run() {
    let scratch = scratch("");
    let mut command = scratch.command(&["run", "g.dot"]);
    command.stdin(Stdio::piped());
    let mut run = Waiting::start(command);
    run.hint();
    drop(run.input.take());
    let run = run.end().exits(5);
    assert!(run.stderr.contains("with `--wait`"), "{}", run.stderr);
    assert!(run.last_line().starts_with("resume with: "), "{}", run.stderr);
}

#[test]
fn a_run_without_an_input_waits_for_the_command_that_it_prints() {
    let scratch = scratch("");
    let mut run = Waiting::start(scratch.command(&["run", "g.dot", "--wait"]));
    let command = run.hint();
    assert!(
        run.text.contains("standard input is closed; the run waits"),
        "{}",
        run.text
    );
    typed(&scratch, &command).exits(0);
    let run = run.end().exits(0);
    assert_eq!(run.stdout, SHIPPED);
}

#[test]
fn the_printed_command_names_runs_in_other_folders_too() {
    let scratch = scratch("");
    for folder in [["--runs", "all my runs"], ["--run-dir", "this run's"]] {
        let mut command = scratch.command(&["run", "g.dot", "--wait"]);
        command.args(folder);
        let mut run = Waiting::start(command);
        let command = run.hint();
        typed(&scratch, &command).exits(0);
        assert_eq!(run.end().exits(0).stdout, SHIPPED);
    }
}

#[test]
fn a_resumed_run_waits_as_well() {
    let scratch = scratch("");
    scratch.call(&["run", "g.dot"]).exits(5);
    let mut run = Waiting::start(scratch.command(&["resume", "last", "--wait"]));
    let command = run.hint();
    typed(&scratch, &command).exits(0);
    assert_eq!(run.end().exits(0).stdout, SHIPPED);
    assert_eq!(scratch.lines("built"), 1);
}

#[test]
fn lines_of_a_pipe_come_first_and_then_other_processes() {
    let scratch = scratch("");
    let mut command = scratch.command(&["run", "g.dot", "--wait"]);
    command.stdin(Stdio::piped());
    let mut run = Waiting::start(command);
    run.input.take().unwrap().write_all(b"N\n").unwrap();
    let command = run.hint();
    typed(&scratch, &command).exits(0);
    let run = run.end().exits(0);
    assert_eq!(
        run.stdout,
        "success: start -> build -> approve -> mend -> approve -> ship -> exit\n"
    );
}

#[test]
fn nonsense_of_a_pipe_does_not_end_the_waiting() {
    let scratch = scratch("");
    let mut command = scratch.command(&["run", "g.dot", "--wait"]);
    command.stdin(Stdio::piped());
    let mut run = Waiting::start(command);
    let mut input = run.input.take().unwrap();
    input.write_all(b"perhaps\nperhaps\nperhaps\n").unwrap();
    let command = run.hint();
    typed(&scratch, &command).exits(0);
    assert_eq!(run.end().exits(0).stdout, SHIPPED);
}

#[test]
fn a_time_out_is_kept_to_while_the_run_waits() {
    let scratch = scratch(", timeout=300ms, \"human.default_choice\"=\"Y\"");
    let run = scratch.call(&["run", "g.dot", "--wait"]).exits(0);
    assert_eq!(run.stdout, SHIPPED);
    assert!(
        run.stderr.contains("the default `[Y] Yes, ship` is taken"),
        "{}",
        run.stderr
    );
}

#[test]
fn branches_go_on_while_a_gate_waits_and_all_questions_are_open() {
    let scratch = Scratch::new();
    scratch.write(
        "p.dot",
        r#"digraph p {
    start -> fan
    fan [shape=component]
    fan -> docs; fan -> code; fan -> test
    docs [shape=hexagon, label="Docs good?"]
    code [shape=hexagon, label="Code good?"]
    docs -> join [label="[G] Good"]
    code -> join [label="[G] Good"]
    test [shape=parallelogram, tool_command="echo tested > tested"]
    test -> join
    join [shape=tripleoctagon]
    join -> exit
}"#,
    );
    let (mut run, _) = Started::from_command(scratch.command(&["run", "p.dot", "--wait"]));
    run.until(|object| object["event"] == "InterviewStarted");
    run.until(|object| object["event"] == "InterviewStarted");
    scratch.until("the tool ran", |scratch| scratch.path("tested").exists());
    scratch.call(&["answer", "last", "code", "G"]).exits(0);
    scratch.call(&["answer", "last", "docs", "G"]).exits(0);
    assert_eq!(run.end().exits(0).result()["status"], "success");
}

#[test]
fn a_run_that_waits_is_paused_and_cancelled_like_any_other() {
    for (verb, words) in [("pause", "paused"), ("cancel", "cancelled")] {
        let scratch = scratch("");
        let mut run = Waiting::start(scratch.command(&["run", "g.dot", "--wait"]));
        run.hint();
        scratch.call(&[verb, "last"]).exits(0);
        let run = run.end().exits(130);
        assert!(run.stdout.starts_with(words), "{}", run.stdout);
    }
}

#[test]
fn a_gate_of_a_child_is_waited_for() {
    let scratch = scratch("");
    scratch.write(
        "p.dot",
        r#"digraph p { start -> sub -> exit; sub [shape=folder, label="Ship", subpipeline.file="g.dot"] }"#,
    );
    let mut run = Waiting::start(scratch.command(&["run", "p.dot", "--wait"]));
    let command = run.hint();
    typed(&scratch, &command).exits(0);
    assert_eq!(run.end().exits(0).stdout, "success: start -> sub -> exit\n");
}
