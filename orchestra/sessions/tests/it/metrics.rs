//! Numbers for monitoring.

use std::time::Duration;

use orchestra_engine::{EventKind, ModelCall};
use orchestra_sessions::{SessionIndex, SessionStatus, StageSeries};
use rusqlite::Connection;
use serde_json::json;

use crate::support::{
    WrittenRun, began, completed, database, ended_run, failed, resumed, started_run, usage,
};

/// Returns the event of a model call.
fn model_call(provider: &str, model: &str) -> EventKind {
    let mut call = ModelCall::new(provider, model, Duration::from_secs(2));
    call.usage = usage();
    EventKind::ModelCallCompleted {
        node: "build".into(),
        branch: None,
        call: Box::new(call),
    }
}

#[test]
fn runs_stages_and_model_calls_are_added_up_by_their_series() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    for (run, simulated) in [("one", false), ("two", false), ("scripted", true)] {
        let more = json!({ "name": "release", "simulated": simulated });
        let mut run = WrittenRun::at(&dir.path().join(run), run, &more);
        run.tell(started_run());
        run.tell(began("build", 1, 1));
        run.tell(model_call("anthropic", "smart"));
        run.tell(model_call("openai", ""));
        // The calls before and after this line are added up in two steps.
        index.metrics().unwrap();
        run.tell(model_call("anthropic", "smart"));
        run.tell(failed("build", 1, 1, true));
        run.tell(began("build", 1, 2));
        run.tell(completed("build", 1, 2));
    }
    let mut ended = WrittenRun::at(&dir.path().join("three"), "three", &json!({ "name": "nightly" }));
    ended.tell(started_run());
    ended.tell(ended_run());
    let metrics = index.metrics().unwrap();
    let runs = |pipeline: &str, status| metrics.runs.get(&(pipeline.to_owned(), status)).copied();
    assert_eq!(runs("release", SessionStatus::Running), Some(2));
    assert_eq!(runs("nightly", SessionStatus::Success), Some(1));
    let stages = |outcome| metrics.stages[&StageSeries::new("release", "build", outcome)].clone();
    assert_eq!((stages("success").count(), stages("fail").count()), (2, 2));
    let sum = stages("success").sum;
    assert!(sum > Duration::ZERO);
    // Each duration is in the bucket of its size alone.
    let full: Vec<u64> = stages("success")
        .buckets
        .into_iter()
        .filter(|count| *count > 0)
        .collect();
    assert_eq!(full, [2]);
    let twice = usage() + usage();
    assert_eq!(
        metrics.models[&("anthropic".to_owned(), "smart".to_owned())],
        twice + twice
    );
    assert_eq!(metrics.models[&("openai".to_owned(), String::new())], twice);
    // The index does not grow with the calls: the rows are those of two models in three runs.
    let database = Connection::open(database(dir.path())).unwrap();
    let rows = database.query_row("SELECT count(*) FROM model_usage", [], |row| row.get::<_, i64>(0));
    assert_eq!(rows.unwrap(), 6);
    // The numbers are the same in an index that is built again.
    drop(index);
    database
        .execute("UPDATE origin SET version = version - 1", [])
        .unwrap();
    drop(database);
    let index = SessionIndex::open(dir.path()).unwrap();
    assert_eq!(index.metrics().unwrap(), metrics);
}

#[test]
fn a_replay_counts_the_attempts_that_it_made_itself() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    // Its third event is the last one that it copied.
    let manifest = json!({
        "name": "release",
        "started": "2026-11-21T15:30:03.500Z",
        "replayed_from": { "run": "weekly", "checkpoint": "cp_000001" },
    });
    let mut run = WrittenRun::at(&dir.path().join("again"), "again", &manifest);
    run.tell(started_run());
    run.tell(began("plan", 1, 1));
    let copied = run.tell(completed("plan", 1, 1));
    run.tell(resumed(1));
    run.tell(began("build", 1, 1));
    run.tell(completed("build", 1, 1));
    let started = index.run("again").unwrap().summary.started.unwrap();
    assert!(copied.time < started);
    let metrics = index.metrics().unwrap();
    let nodes: Vec<(&str, u64)> = metrics
        .stages
        .iter()
        .map(|(stages, durations)| (&*stages.node, durations.count()))
        .collect();
    assert_eq!(nodes, [("build", 1)]);
}
