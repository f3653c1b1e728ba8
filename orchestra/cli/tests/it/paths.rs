//! `explore --paths`, through the program: the scripts that it writes lead simulated runs over every edge.

use crate::support;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use support::Scratch;

const RETRIED: &str = "digraph a {
    build [prompt=Build, max_retries=1, retry_target=mend]; mend [prompt=Mend]
    ask [shape=hexagon, timeout=2d, human.default_choice=Ship]
    start -> build -> ask; mend -> build
    ask -> exit [label=\"[S] Ship\"]; ask -> mend [label=\"[M] Mend\"] }";

/// Returns the object that `explore --paths --json` prints.
fn paths(scratch: &Scratch, file: &str) -> Value {
    let explored = scratch.call(&["explore", file, "--paths", "--json"]).exits(0);
    serde_json::from_str(&explored.stdout).unwrap()
}

/// Runs the scripts of a file, and returns the edges that none of the runs took.
fn untaken(scratch: &Scratch, file: &str) -> BTreeSet<String> {
    scratch
        .call(&["explore", file, "--paths", "-o", "scripts"])
        .exits(0);
    let mut untaken: Option<BTreeSet<String>> = None;
    for script in std::fs::read_dir(scratch.path("scripts")).unwrap() {
        let script = script.unwrap().path().display().to_string();
        let ran = scratch.call(&["run", file, "--simulate", &script, "--json"]);
        let objects = ran
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let coverage = objects
            .into_iter()
            .find(|object| object["schema"] == "orchestra.coverage/1")
            .unwrap_or_else(|| panic!("{file} {script}\n{}\n{}", ran.stdout, ran.stderr));
        let edges = coverage["transitions"].as_array().unwrap().iter();
        let names = edges.filter(|edge| edge["count"] == 0).map(|edge| {
            format!(
                "{}:{} {} -> {}",
                edge["line"], edge["column"], edge["from"], edge["to"]
            )
        });
        let names: BTreeSet<String> = names.collect();
        untaken = Some(match untaken {
            Some(before) => before.intersection(&names).cloned().collect(),
            None => names,
        });
    }
    std::fs::remove_dir_all(scratch.path("scripts")).unwrap();
    untaken.unwrap()
}

#[test]
fn paths_shows_each_target_and_prints_scripts() {
    let scratch = Scratch::new();
    scratch.write("a.dot", RETRIED);
    let explored = scratch.call(&["explore", "a.dot", "--paths"]).exits(0);
    for part in [
        "edge ask -> exit \"[S] Ship\"",
        "retry of build",
        "failure of build -> mend",
        "time-out of ask",
        " targets covered by ",
        "---\n# Script 1, ",
        "orchestra run a.dot --simulate path-1.yaml\n",
        "ask: [Mend, ",
    ] {
        assert!(
            explored.stdout.contains(part),
            "{part} is missing in\n{}",
            explored.stdout
        );
    }
    assert!(!explored.stdout.contains("not found"), "{}", explored.stdout);
    assert!(!scratch.path(".orchestra").exists(), "nothing was run");
}

#[test]
fn a_shadowed_edge_is_infeasible_and_what_is_behind_it_is_not_found() {
    let scratch = Scratch::new();
    let text = "digraph a { start -> build; build [prompt=Build]
        build -> exit [condition=\"outcome!=fail\"]; build -> mend [condition=\"outcome=fail\", weight=1]
        build -> notify [condition=\"outcome=fail\"]; notify -> exit; mend -> build }";
    scratch.write("a.dot", text);
    let object = paths(&scratch, "a.dot");
    assert_eq!(
        (&object["schema"], &object["complete"]),
        (&"orchestra.paths/1".into(), &true.into())
    );
    let targets = object["targets"].as_array().unwrap();
    let verdict = |name: &str| targets.iter().find(|target| target["name"] == name).unwrap();
    let shadowed = verdict("edge_build_to_notify_when_fail");
    assert_eq!(shadowed["verdict"], "infeasible");
    let reason = shadowed["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("shadowed_edge: the edge `build -> notify` can never be taken")
            && reason.contains("`build -> mend` wins"),
        "{reason}"
    );
    let behind = verdict("edge_notify_to_exit");
    assert_eq!(behind["verdict"], "not found");
    assert!(behind["reason"].as_str().unwrap().contains("no run reaches it"));
    let covered = verdict("edge_build_to_mend_when_fail");
    assert_eq!(
        (&covered["verdict"], &covered["steps"]),
        (&"covered".into(), &1.into())
    );
}

#[test]
fn a_search_that_stops_says_so() {
    let scratch = Scratch::new();
    // All values are read at the end, so no two combinations of them are equal before.
    let parts: Vec<String> = (1..12)
        .map(|at| {
            let next = at + 1;
            format!("s{at} [prompt=S]; s{at} -> s{next} [condition=\"context.x{at}=y\"]; s{at} -> s{next}")
        })
        .collect();
    let read: Vec<String> = (1..12).map(|at| format!("context.x{at}=y")).collect();
    let text = format!(
        "digraph a {{ start -> s1; {}; s12 [prompt=S]; s12 -> exit
        s12 -> last [condition=\"stages.s1.outcome=fail && {}\"]; last [prompt=L]; last -> exit }}",
        parts.join("; "),
        read.join(" && ")
    );
    scratch.write("a.dot", text);
    let object = paths(&scratch, "a.dot");
    assert_eq!(object["complete"], false);
    let targets = object["targets"].as_array().unwrap().iter();
    let reasons = targets.filter_map(|target| target["reason"].as_str());
    let reasons: Vec<&str> = reasons.collect();
    assert!(
        !reasons.is_empty()
            && reasons
                .iter()
                .all(|reason| reason.starts_with("the search stopped after ")),
        "{reasons:?}"
    );
}

#[test]
fn the_scripts_of_the_examples_take_every_edge() {
    let scratch = Scratch::new();
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    for name in [
        "branching/branching",
        "human_gate/human_gate",
        "parallel_review/parallel_review",
        "release_check/release_check",
        "retry_loop/retry_loop",
        "serve/serve",
        "stations/stations",
        "supervisor/digits",
    ] {
        let file = examples.join(format!("{name}.dot")).display().to_string();
        let targets = paths(&scratch, &file);
        for target in targets["targets"].as_array().unwrap() {
            assert_eq!(target["verdict"], "covered", "{name}: {target}");
        }
        assert_eq!(untaken(&scratch, &file), BTreeSet::new(), "{name}");
    }
}

#[test]
fn a_file_that_was_changed_is_not_replaced() {
    let scratch = Scratch::new();
    scratch.write("a.dot", RETRIED);
    let write = || scratch.call(&["explore", "a.dot", "--paths", "--output", "scripts"]);
    let first = write().exits(0);
    assert!(
        first.stdout.contains("script 1: scripts/path-1.yaml"),
        "{}",
        first.stdout
    );
    write().exits(0);
    scratch.write("scripts/path-1.yaml", "build: fail\n");
    let refused = write().exits(2);
    assert!(
        refused.stderr.contains("`scripts/path-1.yaml` has other content"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        std::fs::read_to_string(scratch.path("scripts/path-1.yaml")).unwrap(),
        "build: fail\n"
    );
    scratch
        .call(&["explore", "a.dot", "--output", "scripts"])
        .exits(2);
}

#[test]
fn the_command_of_a_script_gives_declared_inputs_as_set_reads_them() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        "digraph a { graph [inputs=\"mode: fast|slow, note: text, count: int\"]
            start -> d; d [shape=diamond]
            d -> quick [condition=\"context.mode = fast && context.note = '@its'\"]
            d -> long  [condition=\"context.mode = slow && context.count = 3\"]
            d -> none
            quick [shape=parallelogram, tool_command=true]; quick -> exit
            long  [shape=parallelogram, tool_command=true]; long -> exit
            none  [shape=parallelogram, tool_command=true]; none -> exit }",
    );
    let printed = scratch
        .call(&["explore", "a.dot", "--paths", "-o", "scripts"])
        .exits(0);
    assert!(printed.stdout.contains("d -> long"), "{}", printed.stdout);
    let mut visited = BTreeSet::new();
    for entry in std::fs::read_dir(scratch.path("scripts")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let (_, command) = text.lines().next().unwrap().split_once("orchestra ").unwrap();
        // A shell splits the command as a user's shell would.
        let words = std::process::Command::new("sh")
            .args(["-c", &format!("printf '%s\\n' {command}")])
            .output()
            .unwrap();
        let words = String::from_utf8(words.stdout).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let words: Vec<String> = words
            .lines()
            .map(|word| {
                if word == name {
                    format!("scripts/{name}")
                } else {
                    word.to_owned()
                }
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = scratch.call(&words).exits(0);
        for node in ["quick", "long", "none"] {
            if ran.stdout.contains(node) {
                visited.insert(node);
            }
        }
    }
    assert_eq!(visited, ["long", "none", "quick"].into());
}

#[test]
fn a_label_that_only_a_condition_names_is_preferred() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        "digraph a { start -> ask; ask [prompt=Ask]; ask -> one [label=One]; ask -> three [condition=\"preferred_label=Three\"]
            one [prompt=One]; one -> exit; three [prompt=Three]; three -> exit }",
    );
    let found = paths(&scratch, "a.dot");
    for target in found["targets"].as_array().unwrap() {
        assert_eq!(target["verdict"], "covered", "{target}");
    }
    assert_eq!(untaken(&scratch, "a.dot"), BTreeSet::new());
}
