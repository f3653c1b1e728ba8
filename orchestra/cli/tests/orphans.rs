//! What tools leave behind: the program adopts it, also as process 1, reaps it and ends it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod support;

use std::process::Command;

use support::Place;

/// Leaves fifty orphans that end at once, then waits until none of them is left unreaped.
const ORPHANS: &str = r#"digraph orphans {
    work [shape=parallelogram, timeout="60s", tool_command="for i in 1 2 3 4 5 6 7 8 9 10; do (for j in 1 2 3 4 5; do setsid true & done) & done; wait; sleep 0.1; while grep -l '^State:.Z' /proc/[0-9]*/status >/dev/null 2>&1; do sleep 0.05; done; echo reaped"]
    start -> work -> exit
}
"#;

/// Leaves a process that bears no mark, in no group of the tool, and is no descendant of it any more.
const ESCAPE: &str = r#"digraph escape {
    work [shape=parallelogram, tool_command="cd ROOT; (env -i PATH=$PATH setsid sh -c 'prlimit --pid $$ --locks=unlimited:unlimited; sleep 1800 & echo $! > escaped; exit' &) ; while ! test -s escaped; do sleep 0.01; done; sleep 0.05"]
    start -> work -> exit
}
"#;

#[test]
fn as_process_1_the_program_reaps_orphans() {
    let place = Place::new();
    place.write("orphans.dot", ORPHANS);
    let mut command = Command::new("unshare");
    command.args([
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        env!("CARGO_BIN_EXE_orchestra"),
    ]);
    let output = command
        .args(["run", "orphans.dot"])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let done = support::done(output);
    if done.stderr.starts_with("unshare:") && done.stderr.contains("Operation not permitted") {
        eprintln!("skipped: this process may not make a process namespace");
        return;
    }
    done.exits(0);
}

#[test]
fn an_orphan_without_any_mark_does_not_outlive_its_tool() {
    let place = Place::new();
    let root = format!("'{}'", place.path("").display());
    place.write("escape.dot", ESCAPE.replace("ROOT", &root));
    place.call(&["run", "escape.dot"]).exits(0);
    let escaped = place.read("escaped");
    assert!(!support::lives(escaped.trim()), "{escaped} outlives its tool");
}
