//! Tests of runs that no process executes: they are answered and ended without running a stage.

#![cfg(unix)]

use crate::support;

use std::path::Path;

use orchestra_engine::{
    Answer, AnswerError, Engine, OfflineError, PausedRun, RunFailure, RunFolder, RunStatus, StartError,
};
use orchestra_graph::Pipeline;
use support::pipeline;

/// Returns a pipeline with two branches, one that asks a question and one that is busy, and a stage after them.
fn asks() -> Pipeline {
    pipeline(
        r#"digraph {
    start -> fan
    fan [shape=component]
    fan -> work; fan -> ask
    work [shape=parallelogram, tool_command="sleep 600"]
    ask [shape=hexagon]
    ask -> after [label="[Y] Yes"]; ask -> ask [label="[N] No"]
    after [shape=parallelogram, tool_command="sleep 600"]
    work -> join; after -> join
    join [shape=tripleoctagon]
    join -> exit
}"#,
    )
}

fn last_gate() -> Pipeline {
    pipeline(
        r#"digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label="[Y] Yes"]; ask -> ask [label="[N] No"] }"#,
    )
}

fn engine() -> Engine {
    Engine::builder().build().unwrap()
}

/// Runs until the question is open, then pauses the run.
async fn paused(pipeline: Pipeline, folder: &Path) {
    let run = engine().start(pipeline, ()).run_dir(folder).await.unwrap();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    run.pause("lunch");
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Paused);
}

fn began(folder: &Path, node: &str) -> usize {
    let events = RunFolder::open(folder).unwrap().events(1).unwrap();
    let began = |event: &&serde_json::Value| event["event"] == "ToolCallCompleted" && event["node"] == node;
    events.iter().filter(began).count()
}

#[tokio::test]
async fn an_answer_is_taken_and_no_stage_is_run() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    paused(asks(), &folder).await;
    assert_eq!(began(&folder, "work"), 1);
    let answered = PausedRun::open(&folder)
        .unwrap()
        .answer("ask", Answer::choice("Y"))
        .await
        .unwrap();
    assert_eq!(answered.status, RunStatus::Paused);
    assert!(
        answered
            .failure
            .unwrap()
            .to_string()
            .contains("nobody executes it")
    );
    assert_eq!((began(&folder, "work"), began(&folder, "after")), (1, 0));
    let events = RunFolder::open(&folder).unwrap().events(1).unwrap();
    let of_after = events.iter().filter(|event| event["node"] == "after");
    assert_eq!(
        of_after.count(),
        0,
        "the stage is due, but it has neither begun nor been cancelled"
    );

    // The answer takes effect: the run resumes after the gate, with a stage that no process has begun.
    let run = engine().resume(&folder, asks(), ()).await.unwrap();
    let mut events = run.events();
    loop {
        let event = events.recv().await.expect("it goes on");
        if let orchestra_engine::EventKind::StageStarted { stage, repeat, .. } = &event.kind
            && stage.node == "after"
        {
            assert!(!repeat);
            break;
        }
    }
    assert!(run.questions().is_empty());
    run.cancel("enough");
    run.wait().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_leads_to_the_end_ends_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    paused(last_gate(), &folder).await;
    let again = PausedRun::open(&folder)
        .unwrap()
        .answer("ask", Answer::choice("No"))
        .await
        .unwrap();
    assert_eq!(
        (again.status, again.path.join(" ")),
        (RunStatus::Paused, "start ask".to_owned())
    );
    let ended = PausedRun::open(&folder)
        .unwrap()
        .answer("ask", Answer::choice("yes"))
        .await
        .unwrap();
    assert_eq!(
        (ended.status, ended.path.join(" ")),
        (RunStatus::Success, "start ask ask exit".to_owned())
    );
    let over = PausedRun::open(&folder)
        .unwrap()
        .answer("ask", Answer::choice("yes"))
        .await
        .unwrap_err();
    assert!(
        matches!(over, OfflineError::Start(StartError::AlreadyFinished(_))),
        "{over}"
    );
}

#[tokio::test]
async fn what_the_question_does_not_offer_is_refused_and_it_waits_on() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    paused(last_gate(), &folder).await;
    let events = || RunFolder::open(&folder).unwrap().events(1).unwrap().len();
    let before = events();
    let wrong = PausedRun::open(&folder)
        .unwrap()
        .answer("ask", Answer::choice("Perhaps"))
        .await
        .unwrap_err();
    assert!(
        matches!(wrong, OfflineError::Answer(AnswerError::Refused(_))),
        "{wrong}"
    );
    let nowhere = PausedRun::open(&folder)
        .unwrap()
        .answer("start", Answer::yes())
        .await
        .unwrap_err();
    assert_eq!(
        nowhere.to_string(),
        "no question of `start` is open; open are those of ask"
    );
    assert_eq!(events(), before, "nothing has happened to the run");
    PausedRun::open(&folder)
        .unwrap()
        .answer("ask", Answer::choice("Y"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_run_that_is_cancelled_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    paused(asks(), &folder).await;
    let cancelled = PausedRun::open(&folder)
        .unwrap()
        .cancel("not needed")
        .await
        .unwrap();
    let reason = "not needed".to_owned();
    assert_eq!(cancelled.failure, Some(RunFailure::Cancelled { reason }));
    assert_eq!(began(&folder, "work"), 1);
    let over = engine().resume(&folder, asks(), ()).await.unwrap_err();
    assert!(matches!(over, StartError::AlreadyFinished(_)), "{over}");
}

#[tokio::test]
async fn a_run_that_somebody_executes_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let run = engine().start(asks(), ()).run_dir(&folder).await.unwrap();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    let owned = PausedRun::open(&folder)
        .unwrap()
        .cancel("mine")
        .await
        .unwrap_err();
    assert_eq!(owned.code(), "store_owned");
    run.cancel("enough");
    run.wait().await.unwrap();
}
