//! `orchestra replay`, through the program: runs that have ended and begin again from a checkpoint.

#![cfg(unix)]

use crate::support;

use support::{Scratch, tools};

#[test]
fn a_run_that_is_over_is_not_resumed_but_replayed() {
    let scratch = Scratch::new();
    scratch.write("a.dot", tools(false).replace("echo first", "echo first >> first"));
    scratch.call(&["run", "a.dot"]).exits(0);
    let id = scratch.runs().remove(0);
    let over = scratch.call(&["resume", "last"]).exits(2);
    let help = format!("`orchestra checkpoints {id}` lists");
    assert!(
        over.stderr.contains("has ended in success") && over.stderr.contains(&help),
        "{}",
        over.stderr
    );
    let points = scratch
        .call(&["checkpoints", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    assert_eq!(points["schema"], "orchestra.checkpoint_list/1");
    let of_first = points["checkpoints"].as_array().unwrap().iter();
    let of_first: Vec<&str> = of_first
        .filter(|point| point["node"] == "first")
        .map(|point| point["checkpoint"].as_str().unwrap())
        .collect();
    let [of_first] = of_first[..] else {
        panic!("{points}");
    };
    let replayed = scratch.call(&["replay", &id, "--checkpoint", of_first]).exits(0);
    assert_eq!(replayed.stdout, "success: start -> first -> second -> exit\n");
    assert_eq!(scratch.lines("first"), 1, "it begins behind the first stage");
    scratch
        .call(&["replay", &id, "--checkpoint", "cp_000000", "--run-dir", "again"])
        .exits(0);
    assert_eq!(scratch.lines("first"), 2);
    assert!(scratch.path("again/second/status.json").is_file());
    assert_eq!(scratch.runs().len(), 3);
    let unknown = scratch
        .call(&["replay", &id, "--checkpoint", "cp_000099"])
        .exits(2);
    assert!(unknown.stderr.contains("cp_000099"), "{}", unknown.stderr);
    scratch.call(&["replay", &id]).exits(2);
}

#[test]
fn a_failed_run_names_the_replay_from_before_the_stage_that_failed() {
    let scratch = Scratch::new();
    let text = tools(true).replace("echo on the wall >&2; exit 3", "test -f mended");
    scratch.write("a.dot", text.replace("echo first", "echo first >> first"));
    let failed = scratch.call(&["run", "a.dot"]).exits(1);
    let command = failed
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("begin again from before it with: orchestra "))
        .unwrap();
    scratch.write("mended", "");
    let words: Vec<&str> = command.split(' ').collect();
    let replayed = scratch.call(&words).exits(0);
    assert_eq!(replayed.stdout, "success: start -> first -> second -> exit\n");
    assert_eq!(scratch.lines("first"), 1);
    let json = scratch.call(&["run", "a.dot", "--json"]);
    assert_eq!(json.result().get("resume"), None);
    std::fs::remove_file(scratch.path("mended")).unwrap();
    let json = scratch.call(&["run", "a.dot", "--json"]).exits(1);
    assert!(
        json.result()["replay"]
            .as_str()
            .unwrap()
            .contains("--checkpoint cp_")
    );
    assert_eq!(json.stderr, "");
}
