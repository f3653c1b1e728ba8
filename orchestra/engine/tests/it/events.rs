//! Tests of events: callbacks, streams and the file get the same events in the same order.
use crate::support;

use orchestra_engine::{Engine, EventKind, Outcome, RunEvent};
use serde_json::json;
use std::sync::{Arc, Mutex};
use support::{Acts, acts, event_lines, listening, short};

fn branching() -> (orchestra_graph::Pipeline, Acts) {
    let graph = r#"start -> a -> gate
        gate [shape=diamond, type=conditional]
        gate -> exit [condition="outcome=success"]
        gate -> mend [condition="outcome=fail"]
        mend -> exit"#;
    let handlers = Acts::new().on("a", |stage| async move {
        stage.log("about to fail");
        Outcome::fail("broken")
    });
    (acts(graph), handlers)
}

#[tokio::test]
async fn events_come_in_order_with_the_names_of_the_specification() {
    let (engine, heard) = listening();
    let (graph, handlers) = branching();
    let run = engine.start(graph, handlers).await.unwrap();
    assert!(run.wait().await.unwrap().is_success());
    let lines: Vec<String> = heard.lock().unwrap().iter().map(short).collect();
    assert_eq!(
        lines,
        [
            "PipelineStarted",
            "StageStarted start",
            "StageCompleted start",
            "EdgeSelected start -> a",
            "StageStarted a",
            "StageLog a: about to fail",
            "StageFailed a",
            "EdgeSelected a -> gate",
            "StageStarted gate",
            "StageCompleted gate",
            "EdgeSelected gate -> mend",
            "StageStarted mend",
            "StageCompleted mend",
            "EdgeSelected mend -> exit",
            "StageStarted exit",
            "StageCompleted exit",
            "PipelineCompleted",
        ]
    );
}

#[tokio::test]
async fn a_decision_tells_its_rule_and_what_it_saw() {
    let (engine, heard) = listening();
    let (graph, handlers) = branching();
    engine.start(graph, handlers).await.unwrap().wait().await.unwrap();
    let heard = heard.lock().unwrap();
    let decision = heard
        .iter()
        .find(|event| short(event) == "EdgeSelected gate -> mend")
        .unwrap();
    let mut written = serde_json::to_value(decision).unwrap();
    let fields = written.as_object_mut().unwrap();
    assert!(fields.remove("time").unwrap().as_str().unwrap().ends_with('Z'));
    assert_eq!(fields.remove("run").unwrap(), json!(decision.run.to_string()));
    assert_eq!(
        written,
        json!({
            "schema": "orchestra.event/1",
            "seq": 11,
            "event": "EdgeSelected",
            "from": "gate",
            "to": "mend",
            "edge": 1,
            "rule": "condition",
            "tested": [
                {"to": "exit", "edge": 0, "condition": "outcome=success", "held": false, "values": {"outcome": "fail"}},
                {"to": "mend", "edge": 1, "condition": "outcome=fail", "held": true, "values": {"outcome": "fail"}},
            ],
        })
    );
}

#[tokio::test]
async fn callback_stream_and_file_get_the_same_in_the_same_order() {
    let folder = tempfile::tempdir().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let list = heard.clone();
    let engine = Engine::builder()
        .runs_dir(folder.path())
        .on_event(move |event: &RunEvent| list.lock().unwrap().push(event.clone()))
        .build()
        .unwrap();
    let (graph, handlers) = branching();
    let run = engine.start(graph, handlers).await.unwrap();
    let mut early = run.events();
    early.recv().await.unwrap();
    let mut late = run.events();
    let result = run.wait().await.unwrap();
    let mut streamed = Vec::new();
    while let Some(event) = late.recv().await {
        streamed.push((*event).clone());
    }
    let heard = heard.lock().unwrap();
    assert_eq!(streamed, *heard);
    let seqs: Vec<u64> = streamed.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=streamed.len() as u64).collect::<Vec<_>>());
    let written: Vec<_> = heard
        .iter()
        .map(|event| serde_json::to_value(event).unwrap())
        .collect();
    assert_eq!(event_lines(&result.run_dir.unwrap()), written);
    assert!(heard.iter().any(|event| short(event) == "CheckpointSaved gate"));
}

#[tokio::test]
async fn a_subscriber_that_reads_nothing_loses_nothing_and_holds_nothing_up() {
    let graph =
        "graph [max_node_visits=9000]\nstart -> a\n a -> exit [condition=\"context.turn=3000\"]\n a -> a";
    let count = Acts::new().on("a", |stage| async move {
        Outcome::success().set("turn", stage.visit())
    });
    let run = support::start(acts(graph), count).await;
    let mut events = run.events();
    assert!(run.wait().await.unwrap().is_success());
    let mut seen = 0;
    while let Some(event) = events.recv().await {
        seen += 1;
        assert_eq!(event.seq, seen);
    }
    assert_eq!(seen, 2 + 3 * 3_002 - 1);
}

#[tokio::test]
async fn a_callback_that_panics_or_cancels_does_no_harm() {
    let canceller: Arc<Mutex<Option<orchestra_engine::Canceller>>> = Arc::default();
    let (held, seen) = (canceller.clone(), Arc::new(Mutex::new(Vec::new())));
    let list = seen.clone();
    let engine = Engine::builder()
        .on_event(|_| panic!("a callback of its own"))
        .on_event(move |event| {
            list.lock().unwrap().push(event.seq);
            if matches!(&event.kind, EventKind::StageStarted { stage, .. } if stage.node == "a") {
                held.lock().unwrap().as_ref().unwrap().cancel("seen enough");
            }
        })
        .build()
        .unwrap();
    let endless = Acts::new().on("a", |_| std::future::pending());
    let run = engine.start(acts("start -> a -> exit"), endless).await.unwrap();
    *canceller.lock().unwrap() = Some(run.canceller());
    let result = run.wait().await.unwrap();
    assert_eq!(
        result.failure.unwrap().to_string(),
        "the run was cancelled: seen enough"
    );
    // The last two events report that the stage and the run were cancelled.
    assert_eq!(*seen.lock().unwrap(), [1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test]
async fn a_callback_may_cause_events_without_end_and_without_locks() {
    let stage: Arc<Mutex<Option<orchestra_engine::StageContext>>> = Arc::default();
    let (held, list) = (stage.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = list.clone();
    let engine = Engine::builder()
        .on_event(move |event| {
            seen.lock().unwrap().push(short(event));
            if matches!(event.kind, EventKind::StageCompleted { ref stage, .. } if stage.node == "a") {
                held.lock().unwrap().as_ref().unwrap().log("from the callback");
            }
        })
        .build()
        .unwrap();
    let keep = Acts::new().on("a", move |context| {
        *stage.lock().unwrap() = Some(context);
        std::future::ready(Outcome::success())
    });
    let run = engine.start(acts("start -> a -> exit"), keep).await.unwrap();
    assert!(run.wait().await.unwrap().is_success());
    let list = list.lock().unwrap();
    let at = list.iter().position(|line| line == "StageCompleted a").unwrap();
    assert_eq!(list[at + 1], "StageLog a: from the callback");
}

#[tokio::test]
async fn the_end_tells_why() {
    let (engine, heard) = listening();
    let fails = Acts::new().fails("a", "no disk");
    engine
        .start(acts("start -> a -> exit"), fails)
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    let heard = heard.lock().unwrap();
    let written = serde_json::to_value(heard.last().unwrap()).unwrap();
    assert_eq!(written["event"], "PipelineFailed");
    assert_eq!(written["error"], "stage `a` failed: no disk");
    assert_eq!(
        written["failure"],
        json!({"code": "stage_failed", "node": "a", "reason": "no disk"})
    );
    let nowhere = serde_json::to_value(&heard[heard.len() - 2]).unwrap();
    assert_eq!(
        (&nowhere["event"], &nowhere["to"], &nowhere["rule"]),
        (&json!("EdgeSelected"), &json!(null), &json!("nothing"))
    );
}
