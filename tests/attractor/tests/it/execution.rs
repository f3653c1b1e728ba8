//! Attractor 11.3: the execution engine.

use std::path::Path;
use std::sync::{Arc, Mutex};

use orchestra::engine::{CallbackInterviewer, EventKind};
use orchestra::graph::{LoadOptions, ReadError, Source, load};
use orchestra::prelude::*;
use orchestra_attractor_tests::{Model, listening, loaded, pipeline, run};
use serde_json::{Value, json};

fn read_json(path: impl AsRef<Path>) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[tokio::test]
async fn begins_at_the_start_node() {
    let starts = [
        (
            "go",
            "work -> done; done [shape=Msquare]; go [shape=Mdiamond]; go -> work",
        ),
        ("start", "work -> done; done [shape=Msquare]; start -> work"),
        ("Start", "work -> done; done [shape=Msquare]; Start -> work"),
    ];
    for (start, statements) in starts {
        let ran = run(&format!("digraph {{ {statements} }}"), &Model::new()).await;
        let first = ran.reported().into_iter().find(|line| line.starts_with("Stage"));
        assert_eq!(first, Some(format!("StageStarted {start}")));
        ran.succeeds_by(&format!("{start} work done"));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn each_shape_is_run_by_its_handler() {
    let text = r#"digraph shapes {
        begin     [shape=Mdiamond]
        draft     [shape=box]
        plain
        check     [shape=diamond]
        build     [shape=parallelogram, tool_command="printf built"]
        ask       [shape=hexagon, label="Go on?"]
        split     [shape=component]
        left; right
        merge     [shape=tripleoctagon]
        supervise [shape=house, "stack.child_dotfile"="child.dot", "manager.poll_interval"=1ms]
        typed     [shape=hexagon, type=tool, tool_command="printf typed"]
        end       [shape=Msquare]
        begin -> draft -> plain -> check -> build -> ask -> split
        split -> left -> merge; split -> right -> merge
        merge -> supervise -> typed -> end
    }"#;
    let child = |_: &str, _: u64| -> Result<Vec<u8>, ReadError> {
        Ok(b"digraph child { start -> inside -> exit }".to_vec())
    };
    let options = LoadOptions {
        children: Some(&child),
        ..LoadOptions::default()
    };
    let asked = Arc::new(Mutex::new(Vec::new()));
    let questions = asked.clone();
    let interviewer = CallbackInterviewer::new(move |question| {
        questions.lock().unwrap().push(question.node);
        async { Ok(Answer::choice("split")) }
    });
    let model = Model::new();
    let (engine, heard) = listening(Engine::builder().backend(model.clone()).interviewer(interviewer));
    let pipeline = load(Source::new("shapes.dot", text), &options)
        .pipeline()
        .unwrap();
    let ran = heard.end(engine.start(pipeline, ())).await;

    ran.succeeds_by("begin draft plain check build ask left right split merge supervise typed end");
    assert_eq!(
        model.called(),
        ["draft", "plain", "left", "right", "inside"],
        "boxes go to the model"
    );
    assert_eq!(*asked.lock().unwrap(), ["ask"], "a hexagon asks a person");
    let context = &ran.result.context;
    assert_eq!(context.text("tool.output"), "typed", "a type beats the shape");
    assert!(ran.result.outcomes.get("build").unwrap().notes.as_deref() == Some("built"));
    assert_eq!(ran.outcome("check"), "", "a diamond only routes");
    assert_eq!(context.get("parallel.success_count"), Some(&2.into()));
    assert_eq!(context.text("parallel.fan_in.best_id"), "left");
    assert_eq!(context.text("stack.child.status"), "completed");
}

#[handler("probe")]
async fn probe(stage: StageContext) -> Outcome {
    let edges = stage.pipeline().edges.len();
    std::fs::write(stage.stage_dir().unwrap().join("found.txt"), "written").unwrap();
    Outcome::new(Status::PartialSuccess)
        .set(
            "saw_node",
            format!("{} {}", stage.node().id(), stage.node().text("depth").unwrap()),
        )
        .set("saw_context", stage.context().text("color"))
        .set("saw_graph", format!("{}, {edges} edges", stage.goal()))
        .set("saw_folder", stage.run_dir().unwrap().to_string_lossy())
}

#[tokio::test]
async fn a_handler_gets_node_context_graph_and_folder_and_gives_an_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"digraph { goal="Look"; start -> look -> exit; look [type=probe, depth="7"] }"#;
    let (engine, heard) = listening(Engine::builder());
    let start = engine.start(pipeline(text), probe {}).param("color", "red");
    let ran = heard.end(start.run_dir(dir.path().join("run"))).await;
    let saw = |key: &str| ran.result.context.text(key);
    assert_eq!(saw("saw_node"), "look 7");
    assert_eq!(saw("saw_context"), "red");
    assert_eq!(saw("saw_graph"), "Look, 2 edges");
    assert_eq!(Path::new(&saw("saw_folder")), dir.path().join("run"));
    assert_eq!(ran.outcome("look"), "partial_success");
    let written = std::fs::read_to_string(dir.path().join("run/look/found.txt")).unwrap();
    assert_eq!(written, "written");
}

#[tokio::test]
async fn each_outcome_is_written_to_the_status_file_of_its_node() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"digraph { start -> draft -> check
        check -> exit [condition="outcome=success"]; check -> mend [condition="outcome=fail"]; mend -> exit }"#;
    let draft = Outcome::new(Status::PartialSuccess)
        .prefer("Check")
        .suggest("check");
    let draft = draft.notes("two of three").set("count", 2);
    let model = Model::new()
        .gives("draft", [draft])
        .fails("check", "a test is red");
    let (engine, heard) = listening(Engine::builder().backend(model));
    let folder = dir.path().join("run");
    let ran = heard.end(engine.start(pipeline(text), ()).run_dir(&folder)).await;
    ran.succeeds_by("start draft check mend exit");
    assert_eq!(
        read_json(folder.join("draft/status.json")),
        json!({
            "outcome": "partial_success", "preferred_label": "Check", "suggested_next_ids": ["check"],
            "context_updates": {"count": 2}, "notes": "two of three",
        })
    );
    assert_eq!(
        read_json(folder.join("check/status.json")),
        json!({"outcome": "fail", "failure_reason": "a test is red"})
    );
    assert_eq!(read_json(folder.join("mend/status.json"))["outcome"], "success");
}

#[tokio::test]
async fn an_edge_is_selected_by_condition_then_label_then_suggestion_then_weight_then_lowest_id() {
    // Rule R1: labels and suggestions choose among edges without a condition.
    let text = r#"digraph { start -> a
        a -> conditional [condition="context.ready=yes"]
        a -> barred      [condition="context.ready=no", label="Fix", weight=9]
        a -> labelled    [label="[F] Fix"]
        a -> suggested
        a -> heavy_2     [weight=5]
        a -> heavy_1     [weight=5]
        a -> aaa_light
        conditional -> exit; barred -> exit; labelled -> exit; suggested -> exit
        heavy_1 -> exit; heavy_2 -> exit; aaa_light -> exit }"#;
    let all = Outcome::success()
        .set("ready", "yes")
        .prefer("fix")
        .suggest("suggested");
    let label = Outcome::success().prefer("fix").suggest("suggested");
    let cases = [
        (all, "conditional", "condition"),
        (label, "labelled", "preferred_label"),
        (
            Outcome::success().prefer("none").suggest("suggested"),
            "suggested",
            "suggested_next",
        ),
        (Outcome::success(), "heavy_1", "lowest_target"),
    ];
    for (outcome, target, rule) in cases {
        let ran = run(text, &Model::new().gives("a", [outcome])).await;
        assert_eq!(ran.way_from("a"), (target.to_owned(), rule));
        ran.succeeds_by(&format!("start a {target} exit"));
    }
    let one_heavy = text.replace("a -> heavy_1     [weight=5]", "a -> heavy_1 [weight=6]");
    let ran = run(&one_heavy, &Model::new()).await;
    assert_eq!(ran.way_from("a"), ("heavy_1".to_owned(), "weight"));
}

#[tokio::test]
async fn the_engine_runs_a_node_selects_an_edge_and_advances_again_and_again() {
    let text = r#"digraph { start -> build -> test
        test -> build [condition="outcome=fail"]; test -> exit [condition="outcome=success"] }"#;
    let model = Model::new().gives("test", [Outcome::fail("red"), Outcome::success()]);
    let ran = run(text, &model).await;
    let reported = ran.reported();
    let steps: Vec<&str> = reported
        .iter()
        .map(String::as_str)
        .filter(|line| !line.starts_with("CheckpointSaved"))
        .collect();
    assert_eq!(
        steps,
        [
            "PipelineStarted",
            "StageStarted start",
            "StageCompleted start",
            "EdgeSelected start -> build",
            "StageStarted build",
            "StageCompleted build",
            "EdgeSelected build -> test",
            "StageStarted test",
            "StageFailed test",
            "EdgeSelected test -> build",
            "StageStarted build",
            "StageCompleted build",
            "EdgeSelected build -> test",
            "StageStarted test",
            "StageCompleted test",
            "EdgeSelected test -> exit",
            "StageStarted exit",
            "StageCompleted exit",
            "PipelineCompleted",
        ]
    );
}

#[tokio::test]
async fn the_terminal_node_stops_the_run() {
    let text = r#"digraph { finish [shape=Msquare]; start -> a
        a -> finish [condition="context.enough=true"]; a -> b -> a }"#;
    let enough = Outcome::success().set("enough", true);
    let model = Model::new().gives("a", [Outcome::success(), enough]);
    let ran = run(text, &model).await;
    ran.succeeds_by("start a b a finish");
    assert_eq!(model.called(), ["a", "b", "a"]);
    assert!(matches!(
        ran.events.last().unwrap().kind,
        EventKind::PipelineCompleted { .. }
    ));
    // A way on from there cannot even be written.
    let beyond = loaded("digraph { finish [shape=Msquare]; start -> finish -> a -> finish }");
    assert!(
        beyond
            .report
            .errors()
            .any(|problem| problem.code == "exit_no_outgoing")
    );
}

#[tokio::test]
async fn the_run_succeeds_when_all_goal_gates_did_and_fails_otherwise() {
    let text = r#"digraph { node [goal_gate=true]; start [goal_gate=false]; exit [goal_gate=false]
        start -> build -> test -> exit
        build -> test [condition="outcome=fail"]; test -> exit [condition="outcome=fail"] }"#;
    let both = run(text, &Model::new()).await;
    assert_eq!(
        (both.result.status, both.path().as_str()),
        (RunStatus::Success, "start build test exit")
    );
    for gate in ["build", "test"] {
        let ran = run(text, &Model::new().fails(gate, "red")).await;
        assert_eq!(
            (ran.result.status, ran.failure_code()),
            (RunStatus::Fail, "goal_gate"),
            "{gate}"
        );
    }
}
