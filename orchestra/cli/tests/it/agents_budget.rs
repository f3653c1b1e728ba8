//! `--max-tokens` with concurrent model calls, through the program.

#![cfg(unix)]

use crate::agents_support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agents_support::{Done, Project};
use orchestra_model_server_tests::{Answer, Fault};

const BRANCHES: usize = 20;
/// The usage that the server reports for each call.
const USED: (u64, u64) = (100, 50);

/// A block of branches that each call a model.
fn flow() -> String {
    let names: Vec<String> = (0..BRANCHES).map(|at| format!("branch_{at}")).collect();
    let mut text = "digraph wide {\n    node [prompt=\"Say something.\", backend=direct]\n    \
        start [shape=Mdiamond]\n    exit [shape=Msquare]\n    wide [shape=component, max_parallel=20]\n    \
        all [shape=tripleoctagon, prompt=\"\"]\n    start -> wide\n    all -> exit\n"
        .to_owned();
    for name in names {
        text.push_str(&format!("    wide -> {name} -> all\n"));
    }
    text + "}\n"
}

/// Returns the total usage that the server reported.
fn reported(project: &Project) -> u64 {
    project.server.requests().len() as u64 * (USED.0 + USED.1)
}

/// Returns the usage that a run counts.
fn used(done: &Done) -> u64 {
    let usage = &done.result()["usage"];
    let tokens = |name: &str| usage[name].as_u64().unwrap_or_else(|| panic!("{usage}"));
    tokens("input_tokens") + tokens("output_tokens")
}

#[test]
fn branches_side_by_side_never_call_beyond_the_cap_and_go_on_with_a_higher_one() {
    let project = Project::new("");
    project.scratch.write("w.dot", flow());
    // One answer takes a while, so that its call is in flight when the budget does not allow another one.
    let calls = AtomicUsize::new(0);
    project.server.respond_with(move |_| {
        let answer = Answer::text("Something.").tokens(USED.0, USED.1);
        match calls.fetch_add(1, Ordering::Relaxed) {
            5 => answer.breaking(Fault::Drip(Duration::from_micros(100))),
            _ => answer,
        }
    });
    let cap = 1_500;
    let run = project
        .call(&["run", "w.dot", "--max-tokens", &cap.to_string(), "--json"])
        .exits(6);
    let result = run.result();
    assert_eq!(result["status"], "paused");
    assert!(
        run.last_line().starts_with("resume with: orchestra resume "),
        "{}",
        run.stderr
    );
    let calls = project.server.requests().len();
    assert!((1..BRANCHES).contains(&calls), "{calls} calls were made");
    assert!(
        reported(&project) <= cap,
        "{calls} calls use more than {cap} tokens"
    );
    assert_eq!(
        used(&run),
        reported(&project),
        "answers that were under way are waited for"
    );

    // The budget of a run includes earlier usage, so the same limit stops it again.
    let again = project
        .call(&["resume", "last", "--max-tokens", &cap.to_string(), "--json"])
        .exits(6);
    assert_eq!(used(&again), reported(&project));
    assert!(reported(&project) <= cap);

    let resumed = project
        .call(&["resume", "last", "--max-tokens", "100000", "--json"])
        .exits(0);
    assert_eq!(resumed.result()["status"], "success");
    let calls = project.server.requests().len();
    assert_eq!(calls, BRANCHES, "no answer is asked for twice");
    assert_eq!(used(&resumed), reported(&project));
}
