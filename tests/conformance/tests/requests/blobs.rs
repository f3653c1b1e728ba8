//! Blobs that are lost, and a store that does not answer.

use std::path::Path;
use std::sync::atomic::Ordering;

use orchestra_conformance::workers::free_address;
use orchestra_restate::ClientError;
use serde_json::json;

use crate::{World, refused};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_blob_is_lost_waits_until_it_is_restored() {
    let Some(world) = World::start("a_run_whose_blob_is_lost_waits_until_it_is_restored").await else {
        return;
    };
    let run = world.begin("large").await;
    world.until_begun(2).await;
    let values = world.fleet.blobs_folder().join(&*run).join("values");
    let blob = largest(&values);
    let content = std::fs::read(&blob).unwrap();
    for damage in [true, false] {
        match damage {
            true => std::fs::write(&blob, r#""something else""#).unwrap(),
            false => std::fs::remove_file(&blob).unwrap(),
        }
        let name = format!("sha256:{}", blob.file_name().unwrap().to_str().unwrap());
        let parked = world.client.pause(&run, "lunch").await.unwrap_err().to_string();
        assert!(parked.contains(&name), "{parked}");
        std::fs::write(&blob, &content).unwrap();
    }
    // What arrives while it is lost is kept.
    std::fs::remove_file(&blob).unwrap();
    world.open();
    let parked = loop {
        match world.client.pause(&run, "lunch").await {
            Err(ClientError::Refused { code, .. }) if code == "run_parked" => {
                if world
                    .fleet
                    .query("SELECT key FROM state WHERE key = 'held'")
                    .await["rows"][0]
                    .is_object()
                {
                    break code;
                }
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(parked, "run_parked");
    let still = refused(world.client.resume(&run, None).await);
    assert_eq!(still.1, "run_parked");
    std::fs::write(&blob, &content).unwrap();
    world.client.resume(&run, None).await.unwrap();
    let result = world.client.wait(&run).await.unwrap();
    assert_eq!(result.failure, None);
    assert_eq!(result.context.get("length"), Some(&json!(100_000)));
    assert_eq!(world.stages.begun.load(Ordering::Relaxed), 3, "nothing ran twice");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_answer_is_waited_for() {
    let Some(world) = World::start("a_store_that_does_not_answer_is_waited_for").await else {
        return;
    };
    let address = free_address();
    let first = world.fleet.serve_doomed(&world.worker(), address).await;
    let run = world.begin("large").await;
    world.until_begun(2).await;
    first.kill();
    let blob = largest(&world.fleet.blobs_folder().join(&*run).join("values"));
    // A link to itself cannot be opened, which is another error than that of a missing file.
    let content = blob.with_extension("content");
    std::fs::copy(&blob, &content).unwrap();
    let link = blob.with_extension("link");
    std::os::unix::fs::symlink(&blob, &link).unwrap();
    std::fs::rename(&link, &blob).unwrap();
    let _second = world.fleet.serve_doomed(&world.worker(), address).await;
    let running =
        "SELECT id FROM sys_invocation WHERE target_service_name = 'OrchestraStage' AND status = 'running'";
    // Seen several times, so that it has read.
    for _ in 0..20 {
        while !world.fleet.query(running).await["rows"][0].is_object() {}
    }
    std::fs::rename(&content, &blob).unwrap();
    world.open();
    // A run that was paused would have to be resumed.
    let result = world.client.wait(&run).await.unwrap();
    assert_eq!((result.has_ended, result.failure), (true, None));
}

fn largest(folder: &Path) -> std::path::PathBuf {
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    files
        .max_by_key(|file| std::fs::metadata(file).unwrap().len())
        .unwrap()
}
