//! Tests of artifacts: named data that is too large for the context, in the run folder (Attractor 5.5, rules D1 and
//! D2).
use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use orchestra_engine::{
    ArtifactError, ArtifactStore, Engine, EventKind, Outcome, RunFolder, RunStatus, StageContext,
};
use serde_json::{Value, json};
use support::{Acts, acts, event_lines, files, run, run_in};

/// Returns a text whose JSON form has this many bytes, including two quotes.
pub(crate) fn bytes(count: u64) -> Value {
    Value::String("x".repeat(count as usize - 2))
}

pub(crate) fn index(run_dir: &Path) -> PathBuf {
    run_dir.join("artifacts/index.jsonl")
}

/// Returns the lines of the index without the preallocated space.
pub(crate) fn lines(run_dir: &Path) -> Vec<u8> {
    let mut bytes = fs::read(index(run_dir)).unwrap();
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    bytes.truncate(end);
    bytes
}

#[tokio::test]
async fn what_a_stage_stores_another_one_retrieves() {
    let dir = tempfile::tempdir().unwrap();
    let handlers = Acts::new()
        .on("a", |stage| async move {
            let artifacts = stage.artifacts().unwrap();
            artifacts
                .store("small", "A note", json!({"lines": [1, 2]}))
                .unwrap();
            artifacts.store("large", "A log", bytes(200_000)).unwrap();
            Outcome::success()
        })
        .on("b", |stage| async move {
            let artifacts = stage.artifacts().unwrap();
            assert_eq!(artifacts.retrieve("small").unwrap(), json!({"lines": [1, 2]}));
            assert_eq!(artifacts.retrieve("large").unwrap(), bytes(200_000));
            Outcome::success().set("found", artifacts.len())
        });
    let result = run_in(dir.path(), acts("start -> a -> b -> exit"), handlers).await;
    assert_eq!(result.context.text("found"), "2");
    let run_dir = result.run_dir.unwrap();
    let found = ArtifactStore::open(&run_dir).unwrap();
    let digest = found.info("large").unwrap().digest;
    assert_eq!(
        files(&run_dir.join("artifacts")),
        [format!("{digest}.json"), "index.jsonl".to_owned()]
    );
    assert!(
        lines(&run_dir) == fs::read(index(&run_dir)).unwrap(),
        "the space that was reserved is cut off"
    );
    let file = fs::read(run_dir.join(format!("artifacts/{digest}.json"))).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&file).unwrap(), bytes(200_000));
    let last = event_lines(&run_dir).pop().unwrap();
    assert_eq!(
        (&last["event"], &last["artifact_count"]),
        (&json!("PipelineCompleted"), &json!(2))
    );
}

#[tokio::test]
async fn without_a_run_folder_everything_stays_in_memory() {
    let reported = Arc::new(Mutex::new(None));
    let heard = reported.clone();
    let handlers = Acts::new().on("a", |stage| async move {
        let artifacts = stage.artifacts().unwrap();
        let info = artifacts.store("large", "A log", bytes(1 << 20)).unwrap();
        assert!(!info.is_file_backed);
        assert_eq!(
            stage.artifacts().unwrap().retrieve("large").unwrap(),
            bytes(1 << 20)
        );
        Outcome::success()
    });
    let engine = Engine::builder()
        .on_event(move |event| {
            if let EventKind::PipelineCompleted { artifact_count, .. } = event.kind {
                *heard.lock().unwrap() = Some(artifact_count);
            }
        })
        .build()
        .unwrap();
    let run = engine.start(acts("start -> a -> exit"), handlers).await.unwrap();
    assert!(run.wait().await.unwrap().is_success());
    assert_eq!(*reported.lock().unwrap(), Some(1));
}

#[tokio::test]
async fn branches_share_the_artifacts_of_their_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut handlers = Acts::new();
    let mut graph = "fan [shape=component, type=parallel, max_parallel=8]
        join [shape=tripleoctagon, type=\"parallel.fan_in\"]
        start -> fan; join -> after -> exit"
        .to_owned();
    for at in 0..8 {
        let node = format!("b{at}");
        graph.push_str(&format!("\nfan -> {node} -> join"));
        handlers = handlers.on(&node, move |stage| async move {
            for turn in 0..20 {
                tokio::task::yield_now().await;
                let artifacts = stage.artifacts().unwrap();
                artifacts.store(format!("own-{at}"), "Own", turn).unwrap();
                artifacts.store("common", "Common", bytes(150_000)).unwrap();
            }
            Outcome::success()
        });
    }
    handlers = handlers.on("after", |stage| async move {
        let artifacts = stage.artifacts().unwrap();
        for at in 0..8 {
            assert_eq!(artifacts.retrieve(&format!("own-{at}")).unwrap(), 19);
        }
        assert_eq!(artifacts.retrieve("common").unwrap(), bytes(150_000));
        Outcome::success().set("found", artifacts.len())
    });
    let result = run_in(dir.path(), acts(&graph), handlers).await;
    assert_eq!(result.context.text("found"), "9", "{:?}", result.failure);
    // Equal contents share one file.
    let found = files(&result.run_dir.unwrap().join("artifacts"));
    assert_eq!(found.len(), 2, "{found:?}");
}

#[tokio::test]
async fn the_threshold_is_a_hundred_kibibytes_unless_the_engine_says_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let store = ArtifactStore::open(dir.path()).unwrap();
    assert_eq!(ArtifactStore::THRESHOLD, 102_400);
    assert!(!store.store("at", "At it", bytes(102_400)).unwrap().is_file_backed);
    assert!(
        store
            .store("over", "Over it", bytes(102_401))
            .unwrap()
            .is_file_backed
    );
    let handlers = Acts::new().on("a", |stage| async move {
        let artifacts = stage.artifacts().unwrap();
        assert!(!artifacts.store("at", "At it", bytes(10)).unwrap().is_file_backed);
        assert!(
            artifacts
                .store("over", "Over it", bytes(11))
                .unwrap()
                .is_file_backed
        );
        Outcome::success()
    });
    let engine = Engine::builder()
        .runs_dir(dir.path().join("runs"))
        .artifact_threshold(10)
        .build()
        .unwrap();
    let run = engine.start(acts("start -> a -> exit"), handlers).await.unwrap();
    assert!(run.wait().await.unwrap().is_success());
}

#[tokio::test]
async fn a_run_that_stores_nothing_has_no_folder_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let looks = Acts::new().on("a", |stage| async move {
        assert!(stage.artifacts().unwrap().is_empty());
        Outcome::success()
    });
    let result = run_in(dir.path(), acts("start -> a -> exit"), looks).await;
    assert!(!result.run_dir.unwrap().join("artifacts").exists());
}

#[tokio::test]
async fn an_unknown_id_fails_the_stage_with_the_nearest_one() {
    let asks = Acts::new().on("a", |stage| async move {
        let artifacts = stage.artifacts().unwrap();
        artifacts.store("coverage", "Coverage", 1).unwrap();
        match artifacts.retrieve("covrage") {
            Ok(_) => Outcome::success(),
            Err(error) => Outcome::fail(error.to_string()),
        }
    });
    let result = run(acts("start -> a -> exit"), asks).await;
    let failure = result.failure.unwrap().to_string();
    assert!(
        failure.contains("no artifact `covrage` is stored; did you mean `coverage`?"),
        "{failure}"
    );
}

#[test]
fn storing_again_replaces_and_removing_forgets() {
    let dir = tempfile::tempdir().unwrap();
    for store in [
        ArtifactStore::in_memory(),
        ArtifactStore::open(dir.path()).unwrap(),
    ] {
        let first = store.store("a", "First", 1).unwrap();
        assert_eq!(store.store("a", "First", 1).unwrap(), first, "nothing changed");
        store.store("a", "Second", bytes(200_000)).unwrap();
        assert_eq!((store.len(), store.retrieve("a").unwrap()), (1, bytes(200_000)));
        store.store("a", "Third", Value::Null).unwrap();
        assert_eq!(store.retrieve("a").unwrap(), Value::Null);
        assert_eq!(store.info("a").unwrap().name, "Third");
        store.store("b", "Other", 2).unwrap();
        assert!(store.remove("a").unwrap() && !store.remove("a").unwrap());
        assert!(!store.has("a") && store.has("b") && store.info("a").is_none());
        assert_eq!(store.retrieve("a").unwrap_err().code(), "artifact_not_found");
        store.clear().unwrap();
        store.clear().unwrap();
        assert!(store.is_empty() && store.list().is_empty());
    }
    assert!(ArtifactStore::open(dir.path()).unwrap().is_empty());
}

#[test]
fn an_id_leads_nowhere_and_twins_do_not_collide() {
    let dir = tempfile::tempdir().unwrap();
    let run_dir = dir.path().join("run");
    fs::create_dir(&run_dir).unwrap();
    let store = ArtifactStore::open(&run_dir).unwrap();
    let refused = [
        "", " ", " a", "a\n", "a\0b", "..", "../a", "a/../b", "a\\..\\b", "./a", ".", "a/.", "\u{7f}",
        "\u{9f}",
    ];
    for id in refused
        .map(str::to_owned)
        .into_iter()
        .chain(["x".repeat(201), "ä".repeat(101)])
    {
        let error = store.store(id.clone(), "Bad", bytes(200_000)).unwrap_err();
        assert!(matches!(error, ArtifactError::BadId { .. }), "{id:?}: {error}");
        assert_eq!(error.code(), "artifact_bad_id");
        assert!(error.to_string().len() < 2_000);
        assert!(!store.has(&id) && !store.remove(&id).unwrap() && store.retrieve(&id).is_err());
    }
    assert!(!run_dir.join("artifacts").exists(), "nothing was written");
    let taken = [
        "Report",
        "report",
        "REPORT",
        "index",
        "index.jsonl",
        "CON",
        "nul.json",
        "a:b",
        "build#2/1",
        "/etc/passwd",
        "%2e%2e",
        "Ä",
        "A\u{308}",
        "\u{202e}x",
        "..a",
        "x'; --",
        &"y".repeat(200),
    ];
    for (at, id) in taken.iter().enumerate() {
        store.store(*id, "Fine", json!([at, bytes(200_000)])).unwrap();
    }
    let again = ArtifactStore::open(&run_dir).unwrap();
    assert_eq!(again.len(), taken.len());
    for (at, id) in taken.iter().enumerate() {
        assert_eq!(again.retrieve(id).unwrap()[0], at, "{id}");
    }
    assert_eq!(files(&run_dir.join("artifacts")).len(), taken.len() + 1);
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        1,
        "nothing outside of the run folder"
    );
    let long = store.store("a", "n".repeat(1_001), 1).unwrap_err();
    assert_eq!(long.code(), "artifact_long_name");
}

#[test]
fn data_that_could_not_be_read_again_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = ArtifactStore::open(dir.path()).unwrap();
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let error = store.store("deep", "Deep", nested(100)).unwrap_err();
    assert_eq!(error.code(), "artifact_too_deep");
    store.store("deep", "Deep", nested(99)).unwrap();
    let again = ArtifactStore::open(dir.path()).unwrap();
    assert_eq!(again.retrieve("deep").unwrap(), nested(99));
}

/// Returns stages that each write a draft based on the previous one. If `b_waits`, `b` then waits forever.
fn drafts(b_waits: bool) -> Acts {
    let write = |node: &str| {
        let node = node.to_owned();
        move |stage: StageContext| {
            let node = node.clone();
            async move {
                let artifacts = stage.artifacts().unwrap();
                let before = artifacts
                    .retrieve("draft")
                    .map_or_else(|_| String::new(), |draft| draft.to_string());
                let text = format!("{}{node}", before.trim_matches('"'));
                artifacts.store("draft", "Draft", text.as_str()).unwrap();
                artifacts
                    .store(format!("log-{node}"), "Log", bytes(120_000))
                    .unwrap();
                if node == "b" {
                    let removed = artifacts.remove("log-a").unwrap();
                    assert!(removed, "a repeated attempt finds what it had removed");
                    if b_waits {
                        std::future::pending::<()>().await;
                    }
                }
                Outcome::success().set("draft", text)
            }
        }
    };
    Acts::new()
        .on("a", write("a"))
        .on("b", write("b"))
        .on("c", write("c"))
}

#[tokio::test]
async fn an_attempt_that_runs_again_finds_the_artifacts_as_it_did_before() {
    let dir = tempfile::tempdir().unwrap();
    let run_dir = dir.path().join("run");
    let graph = || acts("start -> a -> b -> c -> exit");
    let engine = Engine::builder().build().unwrap();
    let run = engine
        .start(graph(), drafts(true))
        .run_dir(&run_dir)
        .await
        .unwrap();
    while !ArtifactStore::open(&run_dir)
        .is_ok_and(|artifacts| artifacts.has("log-b") && !artifacts.has("log-a"))
    {
        tokio::task::yield_now().await;
    }
    run.pause("lunch");
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Paused);
    assert_eq!(
        ArtifactStore::open(&run_dir).unwrap().retrieve("draft").unwrap(),
        "ab"
    );

    let run = engine.resume(&run_dir, graph(), drafts(false)).await.unwrap();
    let mut events = run.events();
    let result = run.wait().await.unwrap();
    assert_eq!(result.context.text("draft"), "abc", "{:?}", result.failure);
    let mut count = None;
    while let Some(event) = events.recv().await {
        if let EventKind::PipelineCompleted { artifact_count, .. } = event.kind {
            count = Some(artifact_count);
        }
    }
    assert_eq!(count, Some(3), "the draft and two logs");
    let found: Vec<String> = ArtifactStore::open(&run_dir)
        .unwrap()
        .list()
        .into_iter()
        .map(|info| info.id)
        .collect();
    assert_eq!(found, ["draft", "log-b", "log-c"]);

    // From each checkpoint, the draft is the same as it was there.
    let records = RunFolder::open(&run_dir).unwrap().records().unwrap().len();
    let mut replayed = 0;
    for number in 0..records {
        let folder = dir.path().join(format!("replay-{number}"));
        let checkpoint = format!("cp_{number:06}");
        let start = engine.replay(&run_dir, checkpoint, graph(), drafts(false));
        let Ok(run) = start.run_dir(&folder).await else {
            continue;
        };
        let result = run.wait().await.unwrap();
        assert_eq!(
            result.context.text("draft"),
            "abc",
            "from record {number}: {:?}",
            result.failure
        );
        let artifacts = ArtifactStore::open(&folder).unwrap();
        assert_eq!(artifacts.retrieve("draft").unwrap(), "abc");
        assert_eq!(artifacts.len(), 3);
        replayed += 1;
    }
    assert_eq!(replayed, records - 1, "behind the last record the run is over");
}

#[tokio::test]
async fn a_run_that_was_taken_over_stores_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let run_dir = dir.path().join("run");
    let graph = || acts("start -> a -> exit");
    let (reported, tell) = tokio::sync::watch::channel(false);
    let (refuse, mut refused) = tokio::sync::mpsc::unbounded_channel();
    let frozen = Acts::new().on("a", move |stage| {
        let (mut thawed, refuse) = (tell.clone(), refuse.clone());
        async move {
            let artifacts = stage.artifacts().unwrap();
            artifacts.store("mine", "Mine", 1).unwrap();
            // The engine may notice the loss first and drop the stage, so use a task of its own.
            let late = tokio::spawn(async move {
                thawed.wait_for(|thawed| *thawed).await.unwrap();
                for data in [Value::from(2), bytes(200_000)] {
                    let error = artifacts.store("late", "Late", data).unwrap_err();
                    refuse.send(error.code().to_owned()).unwrap();
                }
            });
            late.await.unwrap();
            Outcome::success()
        }
    });
    let engine = Engine::builder().build().unwrap();
    let first = engine.start(graph(), frozen).run_dir(&run_dir).await.unwrap();
    while !ArtifactStore::open(&run_dir).is_ok_and(|artifacts| artifacts.has("mine")) {
        tokio::task::yield_now().await;
    }
    let owner = Acts::new().on("a", |stage| async move {
        assert!(stage.is_repeat());
        let artifacts = stage.artifacts().unwrap();
        assert!(artifacts.is_empty());
        artifacts
            .store("owner", "The new owner's", bytes(150_000))
            .unwrap();
        Outcome::success()
    });
    let second = engine.resume(&run_dir, graph(), owner).take_over().await.unwrap();
    assert!(second.wait().await.unwrap().is_success());
    let before = support::files(&run_dir.join("artifacts"));
    reported.send(true).unwrap();
    assert!(first.wait().await.is_err());
    for _ in 0..2 {
        let code = refused.recv().await.unwrap();
        // The second code occurs if the run has ended before.
        assert!(
            ["store_ownership_lost", "store_io"].contains(&code.as_str()),
            "{code}"
        );
    }
    assert_eq!(support::files(&run_dir.join("artifacts")), before);
    let left: Vec<String> = ArtifactStore::open(&run_dir)
        .unwrap()
        .list()
        .into_iter()
        .map(|info| info.id)
        .collect();
    assert_eq!(left, ["owner"]);
}
