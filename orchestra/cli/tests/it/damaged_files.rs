//! Damaged files, through the program: an index that cannot be used, and a journal that was changed.

#![cfg(unix)]

use crate::support;

use support::{Scratch, gate, tools};

fn asks() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("g.dot", gate(""));
    scratch
}

#[test]
fn a_broken_index_never_stops_a_run() {
    let scratch = Scratch::new();
    scratch.write("a.dot", tools(false));
    // A folder exists in place of the database.
    std::fs::create_dir_all(scratch.path(".orchestra/runs/.sessions.sqlite/full")).unwrap();
    let run = scratch.call(&["run", "a.dot"]).exits(0);
    assert_eq!(run.stdout, "success: start -> first -> second -> exit\n");
    assert!(run.stderr.contains("warning[session_"), "{}", run.stderr);
}

#[test]
fn runs_are_found_although_the_index_cannot_be_used() {
    let scratch = asks();
    scratch.call(&["run", "g.dot"]).exits(5);
    let id = scratch.runs().remove(0);
    std::fs::remove_file(scratch.path(".orchestra/runs/.sessions.sqlite")).unwrap();
    std::fs::create_dir_all(scratch.path(".orchestra/runs/.sessions.sqlite/full")).unwrap();
    for name in ["last", &id[..id.len() - 2]] {
        scratch.call(&["checkpoints", name]).exits(0);
    }
    let listed = scratch.call(&["status"]).exits(1);
    assert!(listed.stderr.contains("error[session_"), "{}", listed.stderr);
    scratch
        .call(&["resume", "last", "--answer", "approve=Y"])
        .exits(0);
}

#[test]
fn damage_is_reported_with_its_position_and_runs_nothing() {
    let scratch = asks();
    scratch.call(&["run", "g.dot"]).exits(5);
    let folder = format!(".orchestra/runs/{}", scratch.runs().remove(0));
    let journal = scratch.read(&format!("{folder}/journal.jsonl"));
    scratch.write(
        &format!("{folder}/journal.jsonl"),
        journal.replacen("built", "bult.", 1),
    );
    std::fs::remove_file(scratch.path(&format!("{folder}/checkpoint.json"))).unwrap();
    let damaged = scratch
        .call(&["resume", "last", "--answer", "approve=Y"])
        .exits(1);
    assert!(
        damaged.stderr.contains("journal.jsonl` is damaged at line"),
        "{}",
        damaged.stderr
    );
    assert_eq!(scratch.lines("shipped"), 0);
}
