//! System limits that the program exceeds: each error names the limit, and nothing panics.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use crate::support;

use std::process::Command;

use support::{Done, Scratch, copy_program};

const PIPELINE: &str = r#"digraph small {
    node [shape=parallelogram]
    start [shape=Mdiamond]
    exit [shape=Msquare]
    one [tool_command="echo one"]
    two [tool_command="head -c 200000 /dev/zero | tr '\\0' x"]
    start -> one -> two -> exit
}
"#;

/// Runs the pipeline after shell commands that set limits.
fn run(scratch: &Scratch, limits: &str, words: &str) -> Done {
    scratch.write("small.dot", PIPELINE);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!(
        "{limits}; exec '{}' {words}",
        env!("CARGO_BIN_EXE_orchestra")
    ));
    let output = command.current_dir(scratch.path("")).output().unwrap();
    let done = support::done(output);
    assert!(
        !done.stderr.contains("panicked") && done.code != 101,
        "{limits}: {}",
        done.stderr
    );
    done
}

#[test]
fn the_program_raises_its_limit_on_open_files_and_its_tools_keep_theirs() {
    let scratch = Scratch::new();
    scratch.write(
        "limit.dot",
        r#"digraph limit {
            node [shape=parallelogram]
            start [shape=Mdiamond]
            exit [shape=Msquare]
            look [tool_command="ulimit -Sn; ulimit -Hn; grep 'Max open files' /proc/$PPID/limits"]
            start -> look -> exit
        }"#,
    );
    run(
        &scratch,
        "ulimit -Sn 300; ulimit -Hn 700",
        "run limit.dot --run-dir run",
    )
    .exits(0);
    let seen = std::fs::read_to_string(scratch.path("run/look/tool_output.txt")).unwrap();
    let words: Vec<&str> = seen.split_ascii_whitespace().collect();
    assert_eq!(
        words,
        ["300", "700", "Max", "open", "files", "700", "700", "files"]
    );
}

#[test]
fn too_few_open_files_are_reported_with_their_limit() {
    for files in [
        5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 22, 24, 26, 28, 32, 64,
    ] {
        let scratch = Scratch::new();
        // The shell that creates the pipes needs files too, so the limit applies to the program only.
        let done = run(
            &scratch,
            &format!("ulimit -n {files}"),
            "run small.dot --run-dir run",
        );
        if done.stderr.contains("Too many open files") {
            assert!(
                done.stderr.contains("raise `ulimit -n`"),
                "{files}: {}",
                done.stderr
            );
            assert_eq!(done.code, 1, "{files}: {}", done.stderr);
        }
        if done.stderr.contains("resume with: ") {
            let resumed = scratch.call(&["resume", "run"]);
            // The stage may have failed because of the limit before the run was paused.
            if resumed.code != 0 {
                assert!(
                    resumed.stderr.contains("raise `ulimit -n`"),
                    "{files}: {}",
                    resumed.stderr
                );
                scratch.call(&["resume", "run", "--retry"]).exits(0);
            }
        }
    }
}

#[test]
fn a_file_that_may_not_grow_pauses_the_run_and_names_the_limit() {
    let scratch = Scratch::new();
    let done = run(&scratch, "ulimit -f 4", "run small.dot --run-dir run").exits(1);
    assert!(done.stderr.contains("raise `ulimit -f`"), "{}", done.stderr);
    assert!(done.stderr.contains("resume with: "), "{}", done.stderr);
    scratch.call(&["resume", "run"]).exits(0);
}

#[test]
fn a_lack_of_threads_panics_nowhere() {
    // The limit counts the processes of a user and does not apply to root, so use a user without processes.
    let as_other = "setpriv --reuid=61234 --regid=61234 --clear-groups";
    let tried = Command::new("sh")
        .arg("-c")
        .arg(format!("{as_other} true"))
        .output()
        .unwrap();
    if !tried.status.success() {
        eprintln!("skipped: this process may not become another user");
        return;
    }
    for threads in 1..=9 {
        let scratch = Scratch::new();
        scratch.write("small.dot", PIPELINE);
        Command::new("chmod")
            .args(["-R", "777"])
            .arg(scratch.path(""))
            .status()
            .unwrap();
        let program = scratch.path("orchestra");
        copy_program(env!("CARGO_BIN_EXE_orchestra"), &program);
        let mut command = Command::new("sh");
        let words =
            format!("exec {as_other} prlimit --nproc={threads} ./orchestra run small.dot --run-dir run");
        let output = command
            .arg("-c")
            .arg(words)
            .current_dir(scratch.path(""))
            .output()
            .unwrap();
        let done = support::done(output);
        assert!(
            !done.stderr.contains("panicked") && done.code != 101,
            "{threads}: {}",
            done.stderr
        );
        if done.code != 0 {
            assert!(done.stderr.contains("ulimit -u"), "{threads}: {}", done.stderr);
        }
    }
}
