//! The locked versions of a compiled pipeline: a run of an old version goes on beside those of the new one (rule U5).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use orchestra::engine::{Answer, Engine, PinnedSource, RunFolder, StartError};
use orchestra::{handlers, pipeline};

/// The handlers of today, which also know the stages of version 1.
#[derive(Clone, Copy, Default)]
struct Team;

#[handlers]
impl Team {
    #[handler("build")]
    fn build(&self) {}

    #[handler("announce")]
    fn announce(&self) {}

    #[handler("ship")]
    fn ship(&self) {}
}

// Version 1 has the gate `approve` and the stage `announce`, version 2 has neither.
pipeline!("tests/lock/release.dot", lock, handlers = Team);

orchestra::bind! { Bound = release, handlers = Team }

fn engine() -> Engine {
    Engine::builder().build().unwrap()
}

/// Begins a run of version 1 that waits at its gate, as the program before this one did.
async fn waiting(folder: &Path) {
    let version = release::VERSIONS[0];
    let run = engine()
        .start(version.pipeline, Team)
        .run_dir(folder)
        .await
        .unwrap();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    run.pause("a new version is deployed");
    run.wait().await.unwrap();
}

#[tokio::test]
async fn an_old_run_goes_on_beside_a_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let old = directory.path().join("old");
    waiting(&old).await;

    let run = engine().resume(&old, &release::PIPELINE, Team).await.unwrap();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    run.answer("approve", Answer::choice("Ship")).unwrap();
    let result = run.wait().await.unwrap();
    assert_eq!(
        result.path,
        ["start", "build", "approve", "announce", "ship", "exit"]
    );

    let new = engine().start(&release::PIPELINE, Team).await.unwrap();
    assert_eq!(new.wait().await.unwrap().path, ["start", "build", "ship", "exit"]);
}

#[tokio::test]
async fn a_bound_pipeline_has_the_versions_too() {
    let directory = tempfile::tempdir().unwrap();
    let old = directory.path().join("old");
    waiting(&old).await;
    let run = engine().resume(&old, Bound, Team).await.unwrap();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    run.answer("approve", Answer::choice("Stop")).unwrap();
    assert_eq!(
        run.wait().await.unwrap().path,
        ["start", "build", "approve", "exit"]
    );

    // A replay from before the gate is one of the old version too.
    let again = engine()
        .replay(&old, "build#1/1", Bound, Team)
        .run_dir(directory.path().join("again"))
        .await
        .unwrap();
    while again.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    again.answer("approve", Answer::choice("Stop")).unwrap();
    assert_eq!(
        again.wait().await.unwrap().path,
        ["start", "build", "approve", "exit"]
    );
}

#[tokio::test]
async fn accepted_changes_lead_to_the_version_of_today() {
    let directory = tempfile::tempdir().unwrap();
    let old = directory.path().join("old");
    waiting(&old).await;
    let resumed = engine().resume(&old, &release::PIPELINE, Team).accept_changes();
    let Err(StartError::IncompatibleState { reason, .. }) = resumed.await else {
        panic!("the gate is gone");
    };
    assert_eq!(reason, "the run stands at `approve`, which is gone");
}

#[tokio::test]
async fn the_versions_are_those_of_the_lock_file() {
    let [version] = release::VERSIONS else {
        panic!("version 2 is the pipeline itself");
    };
    assert_eq!(version.number, 1);
    assert_eq!(PinnedSource::from_pipeline(version.pipeline).hash, version.hash);
    let directory = tempfile::tempdir().unwrap();
    let old = directory.path().join("old");
    waiting(&old).await;
    let manifest = RunFolder::open(&old).unwrap().manifest().clone();
    assert_eq!(manifest.pipeline.hash, version.hash);
}
