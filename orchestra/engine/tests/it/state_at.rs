//! Tests of the state of a run at its earlier checkpoints (rule D4).
use crate::support;

use orchestra_engine::{Engine, Outcome, ReplayPoints, RunFolder, StartError, StoreError};
use support::{Acts, acts, run_in};

fn counting() -> Acts {
    Acts::new().on("count", |stage| async move {
        let turns = stage.context().get("turns").and_then(|turns| turns.as_u64());
        Outcome::success().set("turns", turns.unwrap_or(0) + 1)
    })
}

const LOOP: &str =
    r#"start -> count; count -> count [condition="context.turns=1"]; count -> last; last -> exit"#;

fn points(folder: &RunFolder) -> ReplayPoints {
    let mut points = ReplayPoints::default();
    folder.each_event(|line| points.apply_line(line)).unwrap();
    points
}

#[tokio::test]
async fn each_checkpoint_has_the_state_of_its_time() {
    let dir = tempfile::tempdir().unwrap();
    run_in(dir.path(), acts(LOOP), counting()).await;
    let folder = RunFolder::open(dir.path().join("one")).unwrap();
    let turns = |checkpoint: &str| {
        let state = folder.state_at(checkpoint, &[]).unwrap();
        (
            state.context.get("turns").and_then(|turns| turns.as_u64()),
            state.completed_nodes.join(" "),
        )
    };
    assert_eq!(turns("cp_000000").0, None);
    assert_eq!(turns("count#1/1"), (Some(1), "start count".to_owned()));
    assert_eq!(turns("count#2/1"), (Some(2), "start count count".to_owned()));
    for point in points(&folder).list() {
        let state = folder.state_at(&point.checkpoint, &[]).unwrap();
        if let Some(node) = &point.node {
            assert!(
                state.completed_nodes.iter().any(|completed| completed == node),
                "{}: {node}",
                point.checkpoint
            );
        }
        assert!(state.timestamp <= point.time, "{}", point.checkpoint);
    }
}

#[tokio::test]
async fn the_state_at_the_last_record_is_that_of_the_checkpoint_file() {
    let dir = tempfile::tempdir().unwrap();
    run_in(dir.path(), acts(LOOP), counting()).await;
    let folder = RunFolder::open(dir.path().join("one")).unwrap();
    let written = folder.checkpoint().unwrap().unwrap();
    let last = folder.records().unwrap().len() - 1;
    let state = folder.state_at(&format!("cp_{last:06}"), &[]).unwrap();
    assert_eq!(state.context, written.context);
    assert_eq!(state.node_outcomes, written.node_outcomes);
    assert_eq!(state.node_visits, written.node_visits);
    assert_eq!(state.completed_nodes, written.completed_nodes);
}

#[tokio::test]
async fn a_look_at_a_checkpoint_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    run_in(dir.path(), acts(LOOP), counting()).await;
    let path = dir.path().join("one");
    let before: Vec<(String, Vec<u8>)> = content(&path);
    RunFolder::open(&path)
        .unwrap()
        .state_at("count#1/1", &[])
        .unwrap();
    assert_eq!(content(&path), before);
}

fn content(folder: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let names = support::files(folder).into_iter();
    names
        .map(|name| {
            let bytes = std::fs::read(folder.join(&name)).unwrap();
            (name, bytes)
        })
        .collect()
}

#[tokio::test]
async fn a_checkpoint_that_does_not_exist_is_a_typed_error() {
    let dir = tempfile::tempdir().unwrap();
    run_in(dir.path(), acts(LOOP), counting()).await;
    let folder = RunFolder::open(dir.path().join("one")).unwrap();
    for name in ["cp_000999", "nowhere#1/1", "", "../one"] {
        let error = folder.state_at(name, &[]).unwrap_err();
        let StartError::Store(StoreError::NoCheckpoint { name: named, .. }) = &error else {
            panic!("{error}");
        };
        assert_eq!(named, name);
    }
}

#[tokio::test]
async fn branches_that_are_under_way_are_part_of_the_state() {
    let dir = tempfile::tempdir().unwrap();
    let text =
        "digraph t { start -> fan; fan [shape=component, max_parallel=1]; fan -> a -> join; fan -> b -> join
        join [shape=tripleoctagon]; join -> exit; a [type=act]; b [type=act] }";
    let engine = Engine::builder().runs_dir(dir.path()).build().unwrap();
    let start = engine.start(support::pipeline(text), Acts::new()).run_id("one");
    start.await.unwrap().wait().await.unwrap();
    let folder = RunFolder::open(dir.path().join("one")).unwrap();
    let inside = folder.state_at("fan#1:a/a#1/1", &[]).unwrap();
    assert_eq!(inside.completed_nodes, ["start"], "the block is still open");
    let behind = folder.state_at("join#1/1", &[]).unwrap();
    assert!(behind.completed_nodes.iter().any(|node| node == "a"));
    assert_eq!(behind.context.get("parallel.success_count"), Some(&2.into()));
}
