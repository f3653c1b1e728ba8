//! Taking over a run from an owner that hangs: its tools are killed before the new owner runs anything.

#![cfg(target_os = "linux")]

use crate::support;

use std::process::Command;

use support::Scratch;

/// The first time, the tool hangs with a child in a separate session; the second time, it ends.
const PIPELINE: &str = r#"digraph hung {
    node [shape=parallelogram]
    start [shape=Mdiamond]
    exit [shape=Msquare]
    work [tool_command="cd ROOT; echo begun >> begun; test -e again && exit 0; touch again; setsid sleep 1800 & echo $! > child; echo $$ > leader; sleep 1800; echo survived >> survived"]
    last [tool_command="cd ROOT; echo last >> last"]
    start -> work -> last -> exit
}
"#;

/// Returns whether a process exists. A zombie, which a suspended owner cannot reap, does not count.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn tools_of_an_owner_that_is_frozen_are_ended_by_who_takes_over() {
    let scratch = Scratch::new();
    let root = scratch.path("").display().to_string();
    scratch.write("hung.dot", PIPELINE.replace("ROOT", &format!("'{root}'")));
    // A run of another process, whose tool must survive.
    scratch.write("other.dot", PIPELINE.replace("ROOT", &format!("'{root}/other'")));
    scratch.write("other/.keep", "");
    let mut frozen = scratch.start(&["run", "hung.dot", "--run-dir", "hung"]);
    let other = scratch.start(&["run", "other.dot", "--run-dir", "elsewhere"]);
    frozen.until_stage("work");
    scratch.until("both tools run", |scratch| {
        scratch.lines("leader") + scratch.lines("other/leader") == 2
    });
    let (leader, child) = (scratch.read("leader"), scratch.read("child"));
    let living = [scratch.read("other/leader"), scratch.read("other/child")];
    assert!(runs(&leader) && runs(&child));
    frozen.signal("STOP");
    scratch.call(&["resume", "hung", "--take-over"]).exits(0);
    assert!(!runs(&leader), "the leader of the earlier owner's tool runs on");
    assert!(!runs(&child), "a child of the earlier owner's tool runs on");
    assert!(
        living.iter().all(|pid| runs(pid)),
        "a tool of another run was ended"
    );
    frozen.signal("CONT");
    assert_eq!(frozen.end().code, 7);
    assert_eq!(
        (
            scratch.lines("begun"),
            scratch.lines("last"),
            scratch.lines("survived")
        ),
        (2, 1, 0)
    );
    Command::new("kill")
        .arg(other.pid().to_string())
        .status()
        .unwrap();
    other.end();
}

/// A run with a child run, whose tool hangs the first time.
const OUTER: &str = r#"digraph outer {
    start -> part -> last -> exit
    part [shape=folder, subpipeline.file="hung.dot"]
    last [shape=parallelogram, tool_command="true"]
}
"#;

#[test]
fn what_becomes_of_the_tools_of_a_run_within_a_run_is_recorded_by_nobody() {
    // It is a race whether the previous owner notices the end of its tool before the new one owns the child run.
    for _ in 0..4 {
        let scratch = Scratch::new();
        let root = scratch.path("").display().to_string();
        scratch.write("hung.dot", PIPELINE.replace("ROOT", &format!("'{root}'")));
        scratch.write("outer.dot", OUTER);
        // This owner is not suspended: it notices that its tool is killed.
        let mut first = scratch.start(&["run", "outer.dot", "--run-dir", "outer"]);
        first.until_stage("part");
        scratch.until("the tool runs", |scratch| scratch.lines("leader") == 1);
        scratch.call(&["resume", "outer", "--take-over"]).exits(0);
        let end = first.end();
        assert_eq!(end.code, 7, "{}", end.stderr);
        assert_eq!((scratch.lines("begun"), scratch.lines("last")), (2, 1));
    }
}
