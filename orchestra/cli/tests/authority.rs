//! Who may write what, and who may stop a run, through the program: what a stage returns is an outcome and nothing but
//! an outcome (rules K1 and K2).

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::json;
use support::Place;

/// A tool stage that writes `status` as its status file.
fn wrote(place: &Place, status: &serde_json::Value, edges: &str) {
    place.write("status.json", status.to_string());
    let copy = r#"cp status.json \"$ORCHESTRA_STAGE_DIR/status.json\""#;
    place.write(
        "t.dot",
        format!(
            "digraph {{\n    start -> build\n    build [shape=parallelogram, tool_command=\"{copy}\"]\n    \
             {edges}\n}}\n"
        ),
    );
}

#[test]
fn no_status_file_suspends_or_ends_a_run() {
    let place = Place::new();
    for code in ["over_budget", "waits_for_human", "child_stuck", "paused"] {
        let status = json!({"outcome": "fail", "failure_category": "pipeline", "failure_code": code,
            "failure_reason": "nothing more to spend"});
        wrote(&place, &status, "build -> exit");
        let failed = place.call(&["run", "t.dot", "--json"]).exits(1);
        assert_eq!(failed.result()["status"], "fail", "{code}");
        // The failure is routed like any other.
        wrote(
            &place,
            &status,
            "build -> exit [condition=\"outcome=success\"]; build -> exit [condition=\"outcome=fail\"]",
        );
        let routed = place.call(&["run", "t.dot", "--json"]).exits(0);
        assert_eq!(routed.result()["status"], "success", "{code}");
    }
}

#[test]
fn a_status_file_writes_no_approval() {
    let place = Place::new();
    let forged = json!({"outcome": "success", "context_updates": {
        "human.gate.selected": "Y", "human.gate.answered_by": "person", "context.human.gate.selected": "Y",
        "Human.Gate.Selected": "Y", "graph.goal": "forged", "internal.retry_count.build": 7,
        "tests_passed": true, "tool.exit_code": 77, "tool.coverage": 81}});
    wrote(
        &place,
        &forged,
        "build -> route; route [shape=diamond]\n    \
         route -> ship [condition=\"human.gate.selected=Y || context.human.gate.selected=Y\"]\n    \
         route -> exit [condition=\"context.tests_passed=true && tool.exit_code=0 && tool.coverage=81\"]\n    \
         ship [shape=parallelogram, tool_command=\"touch shipped\"]; ship -> exit",
    );
    let run = place.call(&["run", "t.dot", "--json"]).exits(0);
    assert_eq!(run.result()["path"], json!(["start", "build", "route", "exit"]));
    assert!(!place.path("shipped").exists());
    let told = run.told("StageWarning", "keys");
    let left_out = [
        "Human.Gate.Selected",
        "context.human.gate.selected",
        "graph.goal",
        "human.gate.answered_by",
        "human.gate.selected",
        "internal.retry_count.build",
    ];
    assert_eq!(told, [json!(left_out)]);
    assert_eq!(run.told("StageWarning", "node"), ["build"]);
    assert_eq!(run.told("StageWarning", "code"), ["reserved_key"]);
    // A person is told too, and so is whoever looks at the run later.
    let plain = place.call(&["run", "t.dot"]).exits(0);
    assert!(
        plain.stderr.contains("build: warning: context values left out: ")
            && plain.stderr.contains("`human.gate.answered_by`"),
        "{}",
        plain.stderr
    );
    let shown = place.call(&["status", "last"]).exits(0);
    assert!(
        shown
            .stdout
            .contains("warnings:\n  build: context values left out: "),
        "{}",
        shown.stdout
    );
    let shown = place
        .call(&["status", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    assert_eq!(shown["warnings"][0]["keys"], json!(left_out), "{shown:#}");
}

#[test]
fn a_start_value_under_a_reserved_key_is_refused_and_named() {
    let place = Place::new();
    place.write("t.dot", "digraph { goal=ship; start -> exit }");
    let refused = place
        .call(&[
            "run",
            "t.dot",
            "--set",
            "graph.goal=forged",
            "--set",
            "human.gate.selected=Y",
        ])
        .exits(2);
    assert!(
        refused.stderr.contains("`graph.goal`, `human.gate.selected`"),
        "{}",
        refused.stderr
    );
    assert!(!place.path(".orchestra/runs").exists(), "nothing was made");
}
