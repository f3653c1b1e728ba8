//! Endless files, files that block on reading, and files of 100 GiB in place of the files that the program reads. Each
//! is rejected promptly with its name, and with little memory.

#![cfg(target_os = "linux")]

use crate::support;

use std::fs::File;
use std::time::{Duration, Instant};

use support::{Done, Scratch};

/// The address space of the program in KiB: more than it needs, and less than any of the files.
const ROOM: &str = "4000000";
/// A time that nothing exceeds unless it waits or reads forever.
const PATIENCE: Duration = Duration::from_secs(60);

const FLOW: &str = "digraph flow { start -> exit }";

fn call(scratch: &Scratch, args: &[&str]) -> Done {
    let script = format!("ulimit -v {ROOM}; exec timeout 120 \"$0\" \"$@\"");
    let mut command = std::process::Command::new("sh");
    let shell = command
        .args(["-c", &script, env!("CARGO_BIN_EXE_orchestra")])
        .args(args);
    let begun = Instant::now();
    let output = shell
        .current_dir(scratch.path("."))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(begun.elapsed() < PATIENCE, "{args:?} took {:?}", begun.elapsed());
    Done {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn pipe(scratch: &Scratch, name: &str) {
    let made = std::process::Command::new("mkfifo")
        .arg(scratch.path(name))
        .status()
        .unwrap();
    assert!(made.success());
}

fn huge(scratch: &Scratch, name: &str) {
    let file = File::create(scratch.path(name)).unwrap();
    file.set_len(100 << 30).unwrap();
}

#[test]
fn what_the_program_is_given_is_read_up_to_its_limit() {
    let scratch = Scratch::new();
    scratch.write("flow.dot", FLOW);
    std::fs::create_dir(scratch.path("folder")).unwrap();
    pipe(&scratch, "pipe");
    huge(&scratch, "huge");
    for file in ["/dev/zero", "pipe", "huge", "folder"] {
        let value = format!("key=@{file}");
        for args in [
            &["run", file][..],
            &["check", file],
            &["compile", file],
            &["fmt", "--check", file],
            &["graph", file],
            &["run", "flow.dot", "--set", &value],
            &["run", "flow.dot", "--simulate", file],
            &["run", "flow.dot", "--config", file],
        ] {
            let done = call(&scratch, args);
            assert!(
                [2, 3].contains(&done.code),
                "{args:?}: {} {}",
                done.code,
                done.stderr
            );
            let said = format!("{}{}", done.stdout, done.stderr);
            assert!(said.contains(file), "{args:?}: {said}");
        }
    }
    // Input from a pipe is read.
    let done = scratch
        .call_with(
            &["run", "flow.dot", "--set", "key=@/dev/stdin", "--json"],
            "piped",
        )
        .exits(0);
    assert!(done.stdout.contains("\"status\":\"success\""), "{}", done.stdout);
}

#[test]
fn what_a_run_folder_holds_is_read_up_to_its_limit() {
    let scratch = Scratch::new();
    scratch.write("flow.dot", FLOW);
    for name in [
        "manifest.json",
        "journal.jsonl",
        "checkpoint.json",
        "events.jsonl",
        "owner.lock",
    ] {
        for plant in [pipe as fn(&Scratch, &str), huge] {
            let _ = std::fs::remove_dir_all(scratch.path("runs"));
            scratch
                .call(&["run", "flow.dot", "--run-dir", "runs/flow"])
                .exits(0);
            let path = format!("runs/flow/{name}");
            std::fs::remove_file(scratch.path(&path)).unwrap();
            plant(&scratch, &path);
            let done = call(&scratch, &["resume", "runs/flow"]);
            // Without a checkpoint, the journal leads to the end again; no signal or panic ends the program.
            assert!(
                (0..=2).contains(&done.code),
                "{name}: {} {}",
                done.code,
                done.stderr
            );
            assert!(!done.stderr.contains("panicked"), "{name}: {}", done.stderr);
            // Events are read to the end of the file, in lines of bounded length.
            if name == "events.jsonl" {
                continue;
            }
            let done = call(&scratch, &["status", "runs/flow"]);
            assert!(
                (0..=2).contains(&done.code),
                "{name}: {} {}",
                done.code,
                done.stderr
            );
        }
    }
}
