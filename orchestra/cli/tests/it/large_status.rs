//! `status` of a run with very many events needs no more memory than that of a small run.

#![cfg(target_os = "linux")]

use crate::support;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;

use support::{Scratch, done};

/// The size of the events in bytes. Twice this size exceeds the memory limit below.
const EVENTS: usize = 48 << 20;

/// The memory limit in kilobytes.
const MEMORY: usize = 64 << 10;

#[test]
fn what_is_not_shown_is_not_held_in_memory() {
    let scratch = Scratch::new();
    scratch.write("a.dot", "digraph { start -> exit }");
    scratch
        .call(&["run", "a.dot", "--run-dir", ".orchestra/runs/one"])
        .exits(0);
    let path = scratch.path(".orchestra/runs/one/events.jsonl");
    let before = scratch.lines(".orchestra/runs/one/events.jsonl");
    let mut events = OpenOptions::new().append(true).open(&path).unwrap();
    let message = "x".repeat(512 << 10);
    for at in 1..=EVENTS / message.len() {
        let seq = before + at;
        writeln!(
            events,
            r#"{{"schema":"orchestra.event/1","seq":{seq},"time":"2026-11-21T15:30:00Z","run":"one","event":"StageLog","node":"start","message":"{message}"}}"#
        )
        .unwrap();
    }
    for args in [
        "status one",
        "status one --all",
        "status one --json",
        "checkpoints one",
    ] {
        let program = env!("CARGO_BIN_EXE_orchestra");
        let mut shell = Command::new("/bin/sh");
        let line = format!("ulimit -d {MEMORY} && exec {program} {args}");
        shell.args(["-c", &line]).current_dir(scratch.path("."));
        let reported = done(shell.output().unwrap()).exits(0);
        assert!(reported.stdout.contains("exit"), "{args}: {}", reported.stdout);
    }
}
