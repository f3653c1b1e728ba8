//! Orphaned processes of tools: the program adopts them, also as process 1, reaps them, and kills them at the end.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use crate::support;

use std::process::Command;

use support::Scratch;

/// Leaves fifty orphans that end at once, then waits until all of them are reaped.
const ORPHANS: &str = r#"digraph orphans {
    work [shape=parallelogram, timeout="60s", tool_command="for i in 1 2 3 4 5 6 7 8 9 10; do (for j in 1 2 3 4 5; do setsid true & done) & done; wait; sleep 0.1; while grep -l '^State:.Z' /proc/[0-9]*/status >/dev/null 2>&1; do sleep 0.05; done; echo reaped"]
    start -> work -> exit
}
"#;

/// Leaves a process without a mark, outside of the tool's process group, that is no longer a descendant of the tool.
const ESCAPE: &str = r#"digraph escape {
    work [shape=parallelogram, tool_command="cd ROOT; (env -i PATH=$PATH setsid sh -c 'prlimit --pid $$ --locks=unlimited:unlimited; sleep 1800 & echo $! > escaped; exit' &) ; while ! test -s escaped; do sleep 0.01; done; sleep 0.05"]
    start -> work -> exit
}
"#;

#[test]
fn as_process_1_the_program_reaps_orphans() {
    let scratch = Scratch::new();
    scratch.write("orphans.dot", ORPHANS);
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
        .current_dir(scratch.path(""))
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
    let scratch = Scratch::new();
    let root = format!("'{}'", scratch.path("").display());
    scratch.write("escape.dot", ESCAPE.replace("ROOT", &root));
    scratch.call(&["run", "escape.dot"]).exits(0);
    let escaped = scratch.read("escaped");
    assert!(!support::lives(escaped.trim()), "{escaped} outlives its tool");
}
