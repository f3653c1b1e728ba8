//! Attractor 11.7: state and context.

use std::path::Path;
use std::sync::{Arc, Mutex};

use orchestra::engine::{CallbackInterviewer, EventKind, InterviewError, QueueInterviewer, RunFolder};
use orchestra::prelude::*;
use orchestra_attractor_tests::{Model, listening, pipeline, run};
use serde_json::{Value, json};

/// What handlers saw of one key, in turn.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

#[handlers]
impl Seen {
    #[handler("test.see")]
    async fn see(&self, stage: StageContext) -> Outcome {
        let mut seen = self.0.lock().unwrap();
        seen.push(stage.context().text("color"));
        Outcome::success().set("color", format!("color {}", seen.len()))
    }
}

fn checkpoint(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("checkpoint.json")).unwrap()).unwrap()
}

#[tokio::test]
async fn the_context_is_a_store_that_every_handler_reads() {
    let seen = Seen::default();
    let text = r#"digraph { start -> model -> own -> tool -> check -> exit
        model [prompt=Model]; own [type="test.see", label=Own]
        tool [shape=parallelogram, tool_command="echo ran"]; check [type="test.see", label=Check] }"#;
    let model = Model::new().gives(
        "model",
        [Outcome::success()
            .set("color", "red")
            .set("deep.key", json!([1, 2]))],
    );
    let (engine, heard) = listening(Engine::builder().backend(model));
    let ran = heard.end(engine.start(pipeline(text), seen.clone())).await;
    ran.succeeds_by("start model own tool check exit");
    assert_eq!(*seen.0.lock().unwrap(), ["red", "color 1"]);
    assert_eq!(ran.result.context.get("deep.key"), Some(&json!([1, 2])));
}

#[tokio::test]
async fn a_handler_reads_the_context_and_gives_updates_in_its_outcome() {
    let seen = Seen::default();
    let text =
        "digraph { node [type=\"test.see\"]; start [type=start]; exit [type=exit]; start -> a -> b -> exit
        a [label=A]; b [label=B] }";
    let (engine, heard) = listening(Engine::builder());
    let ran = heard.end(engine.start(pipeline(text), seen.clone())).await;
    assert_eq!(*seen.0.lock().unwrap(), ["", "color 1"]);
    assert_eq!(ran.result.context.text("color"), "color 2");
}

#[tokio::test]
async fn updates_are_merged_after_each_stage_also_of_one_that_failed() {
    let failed = Outcome::fail("no").set("a", "from the failure");
    let model = Model::new()
        .gives("first", [Outcome::success().set("a", 1).set("b", 1)])
        .gives("second", [failed]);
    let ran = run(
        "digraph { start -> first -> second; second -> third [condition=\"outcome=fail\"]; second -> exit
            third -> exit }",
        &model,
    )
    .await;
    ran.succeeds_by("start first second third exit");
    let third = &model.calls()[2].context;
    assert_eq!(
        (third.text("a").as_str(), third.text("b").as_str()),
        ("from the failure", "1")
    );
}

#[tokio::test]
async fn a_checkpoint_is_saved_after_each_stage() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    type Saved = (String, String, u64);
    let saved: Arc<Mutex<Vec<Saved>>> = Arc::default();
    let (list, read) = (saved.clone(), folder.clone());
    let model = Model::new().gives(
        "a",
        [Outcome::fail("not yet"), Outcome::success().set("color", "red")],
    );
    // The run waits for whoever listens, so the journal is that of the event.
    let builder = Engine::builder().backend(model).on_event(move |event| {
        if let EventKind::CheckpointSaved { node, checkpoint } = &event.kind {
            let records = RunFolder::open(&read).unwrap().records().unwrap();
            let last = records.last().map_or(0, |(number, _)| *number);
            list.lock()
                .unwrap()
                .push((node.to_string(), checkpoint.clone(), last));
        }
    });
    let (engine, heard) = listening(builder);
    let text = "digraph { start -> a -> b -> exit; a [prompt=A, max_retries=1, retry_initial_delay=1ms] }";
    let ran = heard.end(engine.start(pipeline(text), ()).run_dir(&folder)).await;
    ran.succeeds_by("start a b exit");
    // One for the attempt that failed, too; the exit takes no time, so it shares that of the stage before it. Between
    // the attempts of `a` the end of a wait is recorded.
    let expected = [("start", 0), ("a", 1), ("a", 3), ("exit", 4)];
    let expected = expected.map(|(node, number)| (node.to_owned(), format!("cp_{number:06}"), number));
    assert_eq!(*saved.lock().unwrap(), expected);
    let last = checkpoint(&folder);
    assert_eq!(
        (&last["status"], &last["current_node"]),
        (&json!("success"), &json!("exit"))
    );
    assert_eq!(last["completed_nodes"], json!(["start", "a", "b", "exit"]));
    assert_eq!(last["node_retries"], json!({"a": 1}));
    assert_eq!(last["context"]["color"], "red");
    assert_eq!(last["node_outcomes"]["a"]["status"], "success");
}

#[tokio::test]
async fn a_run_is_resumed_from_its_checkpoint_with_its_state_at_its_node() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let text = "digraph { start -> a -> ask; ask [shape=hexagon]; ask -> b [label=Yes]; ask -> a [label=No]; b -> exit
        a [prompt=A, max_retries=1, retry_initial_delay=1ms] }";
    let model = Model::new().gives(
        "a",
        [Outcome::fail("not yet"), Outcome::success().set("color", "red")],
    );
    let nobody = CallbackInterviewer::new(|_| async { Err(InterviewError::unavailable("nobody is there")) });
    let (engine, heard) = listening(Engine::builder().backend(model.clone()).interviewer(nobody));
    let paused = heard.end(engine.start(pipeline(text), ()).run_dir(&folder)).await;
    assert_eq!(paused.result.status, RunStatus::Paused);
    let saved = checkpoint(&folder);
    assert_eq!(saved["completed_nodes"], json!(["start", "a"]));
    assert_eq!(saved["node_retries"], json!({"a": 1}));

    let answers = QueueInterviewer::new().answers(["Yes"]);
    let engine = Engine::builder()
        .backend(model.clone())
        .interviewer(answers)
        .build()
        .unwrap();
    let resumed = engine.resume(&folder, pipeline(text), ());
    let result = resumed.await.unwrap().wait().await.unwrap();
    assert_eq!(result.path.join(" "), "start a ask b exit");
    assert_eq!(model.called(), ["a", "a", "b"], "what was done is not done again");
    assert_eq!(model.calls()[2].context.text("color"), "red");
    assert_eq!(checkpoint(&folder)["current_node"], "exit");
}

#[tokio::test]
async fn files_are_written_to_the_folder_of_each_stage() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let model = Model::new().gives("plan", ["Three steps."]);
    let (engine, heard) = listening(Engine::builder().backend(model));
    let text = "digraph { start -> plan -> exit; plan [prompt=\"Plan it\"] }";
    let ran = heard.end(engine.start(pipeline(text), ()).run_dir(&folder)).await;
    ran.succeeds_by("start plan exit");
    let read = |file: &str| std::fs::read_to_string(folder.join("plan").join(file)).unwrap();
    assert_eq!(
        (read("prompt.md").as_str(), read("response.md").as_str()),
        ("Plan it", "Three steps.")
    );
    let status: Value = serde_json::from_str(&read("status.json")).unwrap();
    assert_eq!(status["outcome"], "success");
}
