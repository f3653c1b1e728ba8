//! A run that is taken over from an owner that hangs: its tools are ended before the new owner runs anything.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::Command;

use support::Place;

/// The first time, the tool hangs with a child of its own session; the second time it is done.
const PIPELINE: &str = r#"digraph hung {
    node [shape=parallelogram]
    start [shape=Mdiamond]
    exit [shape=Msquare]
    work [tool_command="cd ROOT; echo begun >> begun; test -e again && exit 0; touch again; setsid sleep 1800 & echo $! > child; echo $$ > leader; sleep 1800; echo survived >> survived"]
    last [tool_command="cd ROOT; echo last >> last"]
    start -> work -> last -> exit
}
"#;

/// Whether a process is there, other than to be reaped by an owner that is stopped.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn tools_of_an_owner_that_is_frozen_are_ended_by_who_takes_over() {
    let place = Place::new();
    let root = place.path("").display().to_string();
    place.write("hung.dot", PIPELINE.replace("ROOT", &format!("'{root}'")));
    // Another run of another process, with a tool that must live.
    place.write("other.dot", PIPELINE.replace("ROOT", &format!("'{root}/other'")));
    place.write("other/.keep", "");
    let mut frozen = place.start(&["run", "hung.dot", "--run-dir", "hung"]);
    let other = place.start(&["run", "other.dot", "--run-dir", "elsewhere"]);
    frozen.until_stage("work");
    place.until("both tools run", |place| {
        place.lines("leader") + place.lines("other/leader") == 2
    });
    let (leader, child) = (place.read("leader"), place.read("child"));
    let living = [place.read("other/leader"), place.read("other/child")];
    assert!(runs(&leader) && runs(&child));
    frozen.signal("STOP");
    place.call(&["resume", "hung", "--take-over"]).exits(0);
    assert!(!runs(&leader), "the leader of the earlier owner's tool runs on");
    assert!(!runs(&child), "a child of the earlier owner's tool runs on");
    assert!(
        living.iter().all(|pid| runs(pid)),
        "a tool of another run was ended"
    );
    frozen.signal("CONT");
    assert_eq!(frozen.end().code, 7);
    assert_eq!(
        (place.lines("begun"), place.lines("last"), place.lines("survived")),
        (2, 1, 0)
    );
    Command::new("kill")
        .arg(other.pid().to_string())
        .status()
        .unwrap();
    other.end();
}

/// A run whose stage runs another one, whose tool hangs the first time.
const OUTER: &str = r#"digraph outer {
    start -> part -> last -> exit
    part [shape=folder, subpipeline.file="hung.dot"]
    last [shape=parallelogram, tool_command="true"]
}
"#;

#[test]
fn what_becomes_of_the_tools_of_a_run_within_a_run_is_recorded_by_nobody() {
    // Whether the earlier owner sees its tool end before the new one has the inner run is a race.
    for _ in 0..4 {
        let place = Place::new();
        let root = place.path("").display().to_string();
        place.write("hung.dot", PIPELINE.replace("ROOT", &format!("'{root}'")));
        place.write("outer.dot", OUTER);
        // This owner is not frozen: it sees that its tool is killed.
        let mut first = place.start(&["run", "outer.dot", "--run-dir", "outer"]);
        first.until_stage("part");
        place.until("the tool runs", |place| place.lines("leader") == 1);
        place.call(&["resume", "outer", "--take-over"]).exits(0);
        assert_eq!(first.end().code, 7);
        assert_eq!((place.lines("begun"), place.lines("last")), (2, 1));
    }
}
