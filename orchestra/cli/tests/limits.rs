//! Limits of the system that the program runs into: each failure names the limit, and nothing panics.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod support;

use std::process::Command;

use support::{Done, Place};

const PIPELINE: &str = r#"digraph small {
    node [shape=parallelogram]
    start [shape=Mdiamond]
    exit [shape=Msquare]
    one [tool_command="echo one"]
    two [tool_command="head -c 200000 /dev/zero | tr '\\0' x"]
    start -> one -> two -> exit
}
"#;

/// Runs the pipeline behind commands of a shell that set limits.
fn run(place: &Place, limits: &str, words: &str) -> Done {
    place.write("small.dot", PIPELINE);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!(
        "{limits}; exec '{}' {words}",
        env!("CARGO_BIN_EXE_orchestra")
    ));
    let output = command.current_dir(place.path("")).output().unwrap();
    let done = support::done(output);
    assert!(
        !done.stderr.contains("panicked") && done.code != 101,
        "{limits}: {}",
        done.stderr
    );
    done
}

#[test]
fn too_few_open_files_are_told_with_their_limit() {
    for files in [
        5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 22, 24, 26, 28, 32, 64,
    ] {
        let place = Place::new();
        // The shell that makes the pipes needs files as well, so the limit is the program's alone.
        let done = run(
            &place,
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
            let resumed = place.call(&["resume", "run"]);
            // The stage had failed for the limit before the run was paused.
            if resumed.code != 0 {
                assert!(
                    resumed.stderr.contains("raise `ulimit -n`"),
                    "{files}: {}",
                    resumed.stderr
                );
                place.call(&["resume", "run", "--retry"]).exits(0);
            }
        }
    }
}

#[test]
fn a_file_that_may_not_grow_pauses_the_run_and_names_the_limit() {
    let place = Place::new();
    let done = run(&place, "ulimit -f 4", "run small.dot --run-dir run").exits(1);
    assert!(done.stderr.contains("raise `ulimit -f`"), "{}", done.stderr);
    assert!(done.stderr.contains("resume with: "), "{}", done.stderr);
    place.call(&["resume", "run"]).exits(0);
}

#[test]
fn a_lack_of_threads_panics_nowhere() {
    // The limit counts the processes of a user, and does not hold for root: another user, who has none.
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
        let place = Place::new();
        place.write("small.dot", PIPELINE);
        Command::new("chmod")
            .args(["-R", "777"])
            .arg(place.path(""))
            .status()
            .unwrap();
        let program = place.path("orchestra");
        std::fs::copy(env!("CARGO_BIN_EXE_orchestra"), &program).unwrap();
        let mut command = Command::new("sh");
        let words =
            format!("exec {as_other} prlimit --nproc={threads} ./orchestra run small.dot --run-dir run");
        let output = command
            .arg("-c")
            .arg(words)
            .current_dir(place.path(""))
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
