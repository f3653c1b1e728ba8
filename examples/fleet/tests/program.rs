//! The program itself, with a server if one is installed.

#![allow(clippy::unwrap_used)]
#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use orchestra::engine::{RunEvent, RunFolder, RunPhase, RunView};
use orchestra_restate_server_tests::server_or_skip;

fn program(arguments: &[&str], server: &Path) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_fleet"));
    program.args(arguments).env("ORCHESTRA_RESTATE_SERVER", server);
    program
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the ids of the workers, from the lines with which they were announced.
fn workers(shown: &str) -> Vec<u32> {
    let announced = shown.lines().filter(|line| line.contains(" listens at "));
    let id = |line: &str| line.split_once("process ")?.1.split(' ').next()?.parse().ok();
    announced.filter_map(id).collect()
}

fn is_running(process: u32) -> bool {
    let probe = Command::new("kill").args(["-0", &process.to_string()]).output();
    probe.unwrap().status.success()
}

/// Checks that neither the workers nor the server run any more.
fn assert_ended(shown: &str) {
    let ingress = shown
        .lines()
        .find_map(|line| line.split_once("accepts calls at http://"));
    let (_, ingress) = ingress.unwrap();
    assert!(
        TcpStream::connect(ingress).is_err(),
        "the server still runs:\n{shown}"
    );
    let workers = workers(shown);
    assert_eq!(workers.len(), 2, "{shown}");
    for process in workers {
        assert!(!is_running(process), "process {process} still runs:\n{shown}");
    }
}

#[test]
fn a_run_goes_on_when_its_worker_is_killed() {
    let Some(server) = server_or_skip("a_run_goes_on_when_its_worker_is_killed") else {
        return;
    };
    let runs = tempfile::tempdir().unwrap();
    let done = program(&["--runs", runs.path().to_str().unwrap()], &server)
        .output()
        .unwrap();
    let shown = text(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{shown}{}", text(&done.stderr));
    let lines = |part: &str| shown.lines().filter(|line| line.contains(part)).count();
    assert_eq!(lines("fleet    | killed worker "), 1, "{shown}");
    assert_eq!(lines("write#1/1 was interrupted and begins again"), 1, "{shown}");
    assert_eq!(lines("[warehouse] begins attempt 2 of 2 in "), 1, "{shown}");
    // The program checks the number of requests in each turn. The answer that was on its way may just have arrived.
    let requests = [4, 5].map(|requests| lines(&format!("model:        {requests} requests for 4 answers")));
    assert!(matches!(requests, [0, 1] | [1, 0]), "{shown}");
    let path =
        "path:         start -> customer -> warehouse -> look -> order -> write -> approve -> send -> exit\n";
    assert!(shown.contains(path), "{shown}");
    assert_ended(&shown);

    let copies = RunFolder::list(runs.path()).unwrap();
    let [copy] = &copies[..] else {
        panic!("one run is copied: {copies:?}");
    };
    let mut view = RunView::new();
    for event in RunFolder::open(copy).unwrap().events(1).unwrap() {
        view.apply(&RunEvent::from_json(event.to_string().as_bytes()).unwrap());
    }
    assert_eq!(view.summary().phase, RunPhase::Success);
    let summary = view.summary();
    assert_eq!((view.name(), summary.failures, summary.repeats), ("fleet", 1, 1));
    // Those of the worker that was killed are among them.
    assert_eq!(summary.tool_calls, 3);
}

#[test]
fn a_person_answers_the_gate() {
    let Some(server) = server_or_skip("a_person_answers_the_gate") else {
        return;
    };
    let runs = tempfile::tempdir().unwrap();
    let mut program = program(&["--ask", "--runs", runs.path().to_str().unwrap()], &server);
    program.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = program.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"Perhaps\nD\n").unwrap();
    let done = child.wait_with_output().unwrap();
    let shown = text(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{shown}");
    let refused = "gate     | `Perhaps` is not one of the answers: [S] Send, [D] Discard\n";
    assert!(shown.contains(refused), "{shown}");
    assert!(shown.contains("-> write -> approve -> exit\n"), "{shown}");
}

/// Waits for the end of a program that is interrupted when it prints a text.
fn interrupted(server: &Path, at: &str) -> Output {
    let mut child = program(&[], server)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut shown = Vec::new();
    while !text(&shown).contains(at) {
        assert!(
            output.read_until(b'\n', &mut shown).unwrap() > 0,
            "{}",
            text(&shown)
        );
    }
    let signal = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(signal.unwrap().success());
    std::io::copy(&mut output, &mut shown).unwrap();
    let mut done = child.wait_with_output().unwrap();
    done.stdout = shown;
    done
}

#[test]
fn nothing_is_left_after_an_interruption() {
    let Some(server) = server_or_skip("nothing_is_left_after_an_interruption") else {
        return;
    };
    let done = interrupted(&server, "model    | turn 1 of worker ");
    let shown = text(&done.stdout);
    assert_eq!(done.status.code(), Some(130), "{shown}");
    assert_eq!(
        text(&done.stderr),
        "interrupted; the workers and the server are stopped\n"
    );
    assert_ended(&shown);
}

#[test]
fn without_a_server_the_install_command_is_printed() {
    let done = program(&[], Path::new("/no/server")).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(text(&done.stdout), "");
    let shown = text(&done.stderr);
    assert!(
        shown.starts_with(
            "error: the Restate server /no/server is not a file; install one with `npm install "
        ),
        "{shown}"
    );
    let nowhere = tempfile::tempdir().unwrap();
    let done = program(&[], Path::new(""))
        .current_dir(nowhere.path())
        .env("PATH", "")
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1));
    let shown = text(&done.stderr);
    assert!(
        shown.starts_with("error: no Restate server found; install one with `npm install "),
        "{shown}"
    );
}

#[test]
fn a_wrong_option_is_named() {
    let done = program(&["--no-kill"], Path::new("")).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    let shown = text(&done.stderr);
    assert!(
        shown.starts_with("error: unknown option `--no-kill`\nusage: cargo run -p fleet -- "),
        "{shown}"
    );
}
