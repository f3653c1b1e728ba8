//! The examples, run as the README describes.

#![cfg(unix)]

use crate::support;

use std::collections::BTreeMap;
use std::path::Path;

use orchestra_example_tests::pipelines;
use serde_json::Value;
use support::{Done, Scratch};

fn examples() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"))
}

/// Copies the release check, so that its crate can be broken.
fn release_check(scratch: &Scratch) {
    for file in ["release_check.dot", "widget/Cargo.toml", "widget/src/lib.rs"] {
        let text = std::fs::read(examples().join("release_check").join(file)).unwrap();
        scratch.write(&format!("examples/release_check/{file}"), text);
    }
}

fn run_release_check(scratch: &Scratch) -> Done {
    scratch.call(&["run", "examples/release_check/release_check.dot"])
}

#[test]
fn the_release_check_builds_tests_and_packages_a_real_crate() {
    let scratch = Scratch::new();
    release_check(&scratch);
    let run = run_release_check(&scratch).exits(0);
    assert_eq!(
        run.stdout,
        "success: start -> build -> test -> verdict -> package -> record -> exit\n"
    );
    assert!(
        scratch
            .path("examples/release_check/widget/target/package/widget-0.3.1.crate")
            .is_file()
    );
}

#[test]
fn a_broken_test_takes_the_failure_path_and_says_so() {
    let scratch = Scratch::new();
    release_check(&scratch);
    let source = "examples/release_check/widget/src/lib.rs";
    let text = scratch.read(source);
    scratch.write(
        source,
        text.replace("self.major == other.major", "self.major != other.major"),
    );
    let run = run_release_check(&scratch).exits(1);
    assert_eq!(
        run.stdout,
        "failed: start -> build -> test -> verdict -> report_failure\n"
    );
    assert!(
        run.stderr.contains("-> report_failure (outcome=fail)"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("end=\"fail\""), "{}", run.stderr);
}

#[test]
fn every_example_is_sound_and_canonical() {
    let scratch = Scratch::new();
    let pipelines = pipelines();
    let files: Vec<&str> = pipelines
        .iter()
        .map(|pipeline| pipeline.file.to_str().unwrap())
        .collect();
    assert!(files.len() >= 9, "{files:?}");
    scratch
        .call(&[&["check", "--deny", "warnings"], &files[..]].concat())
        .exits(0);
    scratch.call(&[&["fmt", "--check"], &files[..]].concat()).exits(0);
}

/// Returns the number of times that each edge was taken in a simulation, according to the program's output.
fn taken(simulated: &Done) -> BTreeMap<String, u64> {
    let coverage = simulated.objects().into_iter();
    let mut coverage = coverage.filter(|object| object["schema"] == "orchestra.coverage/1");
    let coverage = coverage.next().unwrap();
    let transitions = coverage["transitions"].as_array().unwrap();
    let edge = |edge: &Value| {
        let name = format!("{} -> {} at {}", edge["from"], edge["to"], edge["line"]);
        (name, edge["count"].as_u64().unwrap())
    };
    transitions.iter().map(edge).collect()
}

#[test]
fn simulations_by_script_drive_every_example_down_each_of_its_edges() {
    let scratch = Scratch::new();
    for pipeline in pipelines() {
        let file = pipeline.file.to_str().unwrap();
        let mut edges: BTreeMap<String, u64> = BTreeMap::new();
        for script in &pipeline.scripts {
            let script = script.to_str().unwrap();
            let run = scratch.call(&["run", file, "--simulate", script, "--json"]);
            assert!(matches!(run.code, 0 | 1), "{script}: {}", run.stderr);
            for (edge, count) in taken(&run) {
                *edges.entry(edge).or_default() += count;
            }
        }
        let untaken: Vec<&String> = edges
            .iter()
            .filter(|edge| *edge.1 == 0)
            .map(|edge| edge.0)
            .collect();
        assert!(!edges.is_empty() && untaken.is_empty(), "{file}: {untaken:?}");
    }
}

#[test]
fn the_edges_that_a_simulation_took_are_printed() {
    let scratch = Scratch::new();
    let pipelines = pipelines();
    let branching = pipelines
        .iter()
        .find(|pipeline| pipeline.name == "branching")
        .unwrap();
    let (file, script) = (
        branching.file.to_str().unwrap(),
        branching.scripts[0].to_str().unwrap(),
    );
    let half = scratch.call(&["run", file, "--simulate", script]).exits(0);
    let line = "edges: 4 of 6 taken (67 %), not taken: readable -> proofread \"Yes\", proofread -> exit\n";
    assert!(half.stderr.contains(line), "{}", half.stderr);
    let hello = pipelines
        .iter()
        .find(|pipeline| pipeline.name == "hello")
        .unwrap();
    let whole = scratch
        .call(&["run", hello.file.to_str().unwrap(), "--simulate"])
        .exits(0);
    assert!(
        whole.stderr.contains("edges: 3 of 3 taken (100 %)\n"),
        "{}",
        whole.stderr
    );
}

#[test]
fn the_branching_example_takes_both_ways() {
    let scratch = Scratch::new();
    let file = examples().join("branching/branching.dot");
    let file = file.to_str().unwrap();
    let yes = scratch.call(&["run", file, "--simulate"]).exits(0);
    assert_eq!(
        yes.stdout,
        "success: start -> translate -> readable -> proofread -> exit\n"
    );
    let no = scratch
        .call(&["run", file, "--simulate", "--outcome", "translate=fail"])
        .exits(0);
    assert_eq!(
        no.stdout,
        "success: start -> translate -> readable -> apologise -> exit\n"
    );
}
