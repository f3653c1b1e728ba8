//! The reports of a model with `report_outcome`, and the resulting transitions, through the program (rule F10).

#![cfg(unix)]

use crate::agents_support;

use agents_support::Project;
use orchestra_model_server_tests::Answer;
use serde_json::{Value, json};

const FLOW: &str = "digraph {
    start -> work
    work [prompt=x]
    work -> docs
    work -> mend
    work -> ship
    docs [shape=parallelogram, tool_command=\"echo docs\"]
    mend [shape=parallelogram, tool_command=\"echo mend\"]
    ship [shape=parallelogram, tool_command=\"echo ship\"]
    docs -> exit; mend -> exit; ship -> exit
}
";

fn report(fields: Value) -> Answer {
    Answer::call("report_outcome", fields.to_string())
}

/// Returns the schema of the fields of `report_outcome` that the model receives.
fn schema(project: &Project) -> Value {
    let request = project.server.requests().remove(0);
    let tools = request.body["tools"].as_array().unwrap().clone();
    let report = tools.into_iter().find(|tool| tool["name"] == "report_outcome");
    report.unwrap()["input_schema"]["properties"].clone()
}

#[test]
fn a_suggested_successor_is_where_the_run_goes() {
    let project = Project::new("");
    project.scratch.write("a.dot", FLOW);
    project.server.push(report(
        json!({"status": "success", "notes": "Done.", "suggested_next_ids": ["exit"]}),
    ));
    project.server.push(report(json!({
        "status": "success", "notes": "Done.", "suggested_next_ids": ["ship", "mend"],
        "context_updates": {"size": 7},
    })));
    let run = project.call(&["run", "a.dot", "--json"]).exits(0);
    assert_eq!(run.result()["path"], json!(["start", "work", "ship", "exit"]));
    let folder = run.result()["run_dir"].as_str().unwrap().to_owned();
    let status = project.scratch.read(&format!("{folder}/work/status.json"));
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["context_updates"]["size"], 7);
    let rules = run.reported("EdgeSelected", "rule");
    assert!(rules.contains(&"suggested_next".into()), "{rules:?}");
    assert_eq!(
        schema(&project)["suggested_next_ids"]["items"]["enum"],
        json!(["docs", "mend", "ship"])
    );
    let reported = project.asked()[1].last().unwrap().to_string();
    assert!(
        reported.contains("no edge of this stage leads there"),
        "{reported}"
    );
}

#[test]
fn a_partial_success_is_reported_as_such() {
    let project = Project::new("");
    let flow = FLOW.replace(
        "work -> mend\n",
        "work -> mend [condition=\"outcome=partial_success\"]\n",
    );
    project.scratch.write("a.dot", flow);
    project.server.push(report(
        json!({"status": "partial_success", "notes": "Half of it."}),
    ));
    let run = project.call(&["run", "a.dot"]).exits(0);
    assert_eq!(run.stdout, "success: start -> work -> mend -> exit\n");
    let words = schema(&project)["status"]["enum"].clone();
    assert!(
        words.as_array().unwrap().contains(&"partial_success".into()),
        "{words}"
    );
}
