//! Attractor 11.13: the integration smoke test, with its pipeline as it stands there.

use std::path::Path;

use orchestra::prelude::*;
use orchestra_attractor_tests::{Model, Ran, listening, loaded, pipeline, problems};
use serde_json::{Value, json};

const DOT: &str = r#"
digraph test_pipeline {
    graph [goal="Create a hello world Python script"]

    start       [shape=Mdiamond]
    plan        [shape=box, prompt="Plan how to create a hello world script for: $goal"]
    implement   [shape=box, prompt="Write the code based on the plan", goal_gate=true]
    review      [shape=box, prompt="Review the code for correctness"]
    done        [shape=Msquare]

    start -> plan
    plan -> implement
    implement -> review [condition="outcome=success"]
    implement -> plan   [condition="outcome=fail", label="Retry"]
    review -> done      [condition="outcome=success"]
    review -> implement [condition="outcome=fail", label="Fix"]
}
"#;

/// Runs the pipeline with a model.
async fn execute(model: &Model, folder: &Path) -> Ran {
    let (engine, heard) = listening(Engine::builder().backend(model.clone()));
    heard.end(engine.start(pipeline(DOT), ()).run_dir(folder)).await
}

/// A model that writes the script.
fn writer() -> Model {
    Model::new()
        .gives("plan", ["1. Create hello.py with one call of print."])
        .gives("implement", ["print('hello world')"])
        .gives("review", ["It is correct."])
}

#[test]
fn the_pipeline_is_parsed() {
    let graph = loaded(DOT).graph;
    assert_eq!(graph.goal(), "Create a hello world Python script");
    assert_eq!((graph.nodes.len(), graph.edges.len()), (5, 6));
}

#[test]
fn the_pipeline_has_no_errors() {
    assert_eq!(problems(&loaded(DOT)), [""; 0]);
}

#[tokio::test]
async fn the_pipeline_is_executed_with_a_model() {
    let dir = tempfile::tempdir().unwrap();
    let model = writer();
    execute(&model, &dir.path().join("run"))
        .await
        .succeeds_by("start plan implement review done");
    let prompts: Vec<String> = model.calls().into_iter().map(|call| call.prompt).collect();
    let expected = [
        "Plan how to create a hello world script for: Create a hello world Python script",
        "Write the code based on the plan",
        "Review the code for correctness",
    ];
    assert_eq!(prompts, expected);
    // What fails goes back, and what succeeds in part goes on (rule R12).
    let model = writer()
        .gives(
            "implement",
            [Outcome::fail("no idea"), Outcome::new(Status::PartialSuccess)],
        )
        .gives(
            "review",
            [
                Outcome::fail("a typing error"),
                Outcome::new(Status::PartialSuccess),
            ],
        );
    execute(&model, &dir.path().join("again"))
        .await
        .succeeds_by("start plan implement plan implement review implement review done");
}

#[tokio::test]
async fn outcome_nodes_and_artifacts_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let ran = execute(&writer(), &folder).await;
    assert_eq!(ran.result.status, RunStatus::Success);
    assert!(ran.result.path.iter().any(|node| node == "implement"));
    for stage in ["plan", "implement", "review"] {
        for file in ["prompt.md", "response.md", "status.json"] {
            let path = folder.join(stage).join(file);
            assert!(std::fs::metadata(&path).unwrap().len() > 0, "{}", path.display());
        }
    }
}

#[tokio::test]
async fn the_goal_gate_is_satisfied() {
    let dir = tempfile::tempdir().unwrap();
    let ran = execute(&writer(), &dir.path().join("run")).await;
    assert_eq!(ran.outcome("implement"), "success");
    let unsatisfied = ran
        .reported()
        .into_iter()
        .filter(|line| line.starts_with("GoalGateUnsatisfied"));
    assert_eq!(unsatisfied.count(), 0);
}

#[tokio::test]
async fn the_checkpoint_is_that_of_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    execute(&writer(), &folder).await;
    let checkpoint: Value =
        serde_json::from_slice(&std::fs::read(folder.join("checkpoint.json")).unwrap()).unwrap();
    assert_eq!(checkpoint["current_node"], "done");
    assert_eq!(
        checkpoint["completed_nodes"],
        json!(["start", "plan", "implement", "review", "done"])
    );
}
