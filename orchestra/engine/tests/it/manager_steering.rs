//! Tests of managers that steer the stages of their child (Attractor 4.11).
use crate::children_support;
use crate::support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::manager::{builds_for, child, run, supervised};
use children_support::{engine, kept_in, lines, with_child};
use orchestra_engine::{EventKind, Outcome};
use support::{Acts, pipeline, short, text};

#[tokio::test(start_paused = true)]
async fn steering_reaches_the_folder_and_the_handler_of_the_stage_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let list = heard.clone();
    let acts = Acts::new().on("build", move |stage| {
        let list = list.clone();
        async move {
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_secs(10)).await;
                list.lock().unwrap().push(stage.instructions());
            }
            Outcome::success()
        }
    });
    let (engine, reported) = engine(kept_in(dir.path()));
    let attributes = "\"manager.actions\"=\"observe,steer,wait\", \"manager.poll_interval\"=10s, \
        \"manager.steer_cooldown\"=20s, prompt=\"Look left.\", \
        \"manager.guard.intervene\"=\"stack.child.elapsed_ms >= 5000\"";
    let start = engine.start(supervised(attributes, child()), acts);
    let result = start.run_id("one").await.unwrap().wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    let steered: Vec<String> = heard.lock().unwrap().concat();
    assert_eq!(steered, ["Look left.", "Look left."], "at 10 and 30 seconds");
    let folder = dir.path().join("one/watch/child/build");
    assert_eq!(
        text(folder.join("steer-001.read.md")),
        "# Steering\n\n- cycle: 2\n- reason: manager.guard.intervene holds: stack.child.elapsed_ms >= 5000\n\
         - completed stages: 1, failures: 0, retries: 0\n\nLook left.\n"
    );
    assert!(text(folder.join("steer-002.read.md")).contains("- cycle: 4\n"));
    assert!(!folder.join("steer-001.md").exists() && !folder.join("steer-003.md").exists());
    let read: Vec<(u32, String)> = reported
        .lock()
        .unwrap()
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::SteeringRead {
                node,
                cycle,
                instruction,
                file,
                ..
            } => {
                assert_eq!(*node, "build");
                assert!(file.as_ref().unwrap().ends_with(".read.md"), "{file:?}");
                Some((*cycle, instruction.clone()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(read, [(2, "Look left.".to_owned()), (4, "Look left.".to_owned())]);
    let logs = lines(&reported, "one", short);
    let logged = logs
        .iter()
        .filter(|line| line.starts_with("StageLog watch: steers `build` in cycle"));
    assert_eq!(logged.count(), 2, "{logs:?}");
}

#[tokio::test(start_paused = true)]
async fn steering_that_a_stage_did_not_read_is_read_by_the_next_one_once() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let list = heard.clone();
    let acts = builds_for(35).on("check", move |stage| {
        list.lock().unwrap().push(stage.instructions());
        std::future::ready(Outcome::success())
    });
    let child = support::acts("start -> build -> check -> again -> exit");
    let acts = {
        let list = heard.clone();
        acts.on("again", move |stage| {
            list.lock().unwrap().push(stage.instructions());
            std::future::ready(Outcome::success())
        })
    };
    let attributes =
        "\"manager.actions\"=\"observe,steer,wait\", \"manager.poll_interval\"=10s, prompt=\"Look left.\"";
    let result = run(supervised(attributes, child), acts).await;
    assert!(result.is_success(), "{:?}", result.failure);
    let heard = heard.lock().unwrap();
    assert_eq!(
        *heard,
        [vec!["Look left.".to_owned()], Vec::new()],
        "what was said thrice is read once"
    );
}

#[tokio::test(start_paused = true)]
async fn steering_of_a_stage_that_runs_a_pipeline_is_read_within_that_pipeline() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let list = heard.clone();
    let acts = Acts::new().on("build", move |stage| {
        let list = list.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(15)).await;
            list.lock().unwrap().extend(stage.instructions());
            Outcome::success()
        }
    });
    let middle = pipeline(
        "digraph middle { start -> part -> exit; part [shape=folder, \"subpipeline.file\"=\"child.dot\"] }",
    );
    let middle = with_child(middle, "part", child());
    let attributes =
        "\"manager.actions\"=\"observe,steer,wait\", \"manager.poll_interval\"=10s, prompt=\"Look left.\"";
    let result = run(supervised(attributes, middle), acts).await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(*heard.lock().unwrap(), ["Look left."]);
}

#[tokio::test(start_paused = true)]
async fn steering_never_writes_over_what_stands_there() {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept.txt");
    std::fs::write(&kept, "mine").unwrap();
    let target = kept.clone();
    let acts = Acts::new().on("build", move |stage| {
        let folder = stage.stage_dir().unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&target, folder.join("steer-001.md")).unwrap();
        #[cfg(not(unix))]
        std::fs::copy(&target, folder.join("steer-001.md")).unwrap();
        async move {
            tokio::time::sleep(Duration::from_secs(15)).await;
            assert!(folder.join("steer-002.md").is_file());
            Outcome::success()
        }
    });
    let attributes = "\"manager.actions\"=\"observe,steer,wait\", \"manager.poll_interval\"=10s";
    let result = run(supervised(attributes, child()), acts).await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(text(kept), "mine");
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_nobody_steers_hears_nothing() {
    let acts = Acts::new().on("build", |stage| async move {
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(stage.instructions().is_empty());
        Outcome::success()
    });
    assert!(
        run(supervised("label=Watch", child()), acts.clone())
            .await
            .is_success()
    );
    assert!(run(child(), acts).await.is_success());
}
