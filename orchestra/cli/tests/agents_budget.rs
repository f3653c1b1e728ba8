//! `--max-tokens` with models that are asked side by side, through the program.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic)]

mod agents_support;

use agents_support::Project;
use orchestra_model_server_tests::Answer;

const BRANCHES: usize = 20;
/// What the server tells of each call.
const USED: (u64, u64) = (100, 50);

/// A block of branches that ask a model each.
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

/// What the server has told that was used, over all calls.
fn told(project: &Project) -> u64 {
    project.server.requests().len() as u64 * (USED.0 + USED.1)
}

#[test]
fn branches_side_by_side_never_call_beyond_the_cap_and_go_on_with_a_higher_one() {
    let project = Project::new("");
    project.place.write("w.dot", flow());
    project
        .server
        .respond_with(|_| Answer::text("Something.").tokens(USED.0, USED.1));
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
    assert!(calls >= 1 && calls < BRANCHES, "{calls} calls were made");
    assert!(told(&project) <= cap, "{calls} calls use more than {cap} tokens");
    let status = project.place.status();
    let used = status["input_tokens"].as_u64().unwrap() + status["output_tokens"].as_u64().unwrap();
    assert_eq!(used, told(&project), "what was used before the stop counts");

    // The cap of a run counts what was used before, so one that is hardly higher stops again at once.
    let again = project
        .call(&["resume", "last", "--max-tokens", &cap.to_string()])
        .exits(6);
    assert!(again.stderr.contains("resume with: "), "{}", again.stderr);
    assert!(told(&project) <= cap);

    let resumed = project.call(&["resume", "last", "--max-tokens", "100000"]).exits(0);
    assert!(resumed.stdout.starts_with("success: "), "{}", resumed.stdout);
    assert_eq!(project.server.requests().len(), BRANCHES, "no branch is asked twice");
}
