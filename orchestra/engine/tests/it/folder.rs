//! Tests of the run folder: its layout, its content, and failures to write it.
use crate::support;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use orchestra_engine::{
    Access, Engine, FileSystem, OpenFile, Outcome, RunFolder, SimulationBackend, StageContext, StartError,
    StoreError, SystemFiles,
};
use serde_json::{Value, json};
use support::{Acts, acts, event_lines, files, json, pipeline, run_in, text};

#[tokio::test]
async fn the_folder_holds_what_the_specification_says() {
    let dir = tempfile::tempdir().unwrap();
    let text_of_graph =
        "digraph poem { graph [goal=\"A poem\"]; start -> write -> exit; write [prompt=\"Write: $goal\"] }";
    let graph = pipeline(text_of_graph);
    let engine = Engine::builder()
        .backend(SimulationBackend)
        .runs_dir(dir.path())
        .build()
        .unwrap();
    let run = engine
        .start(graph, ())
        .run_id("one")
        .seed(7)
        .param("color", "red")
        .await
        .unwrap();
    assert_eq!(run.run_dir(), Some(&*dir.path().join("one")));
    let result = run.wait().await.unwrap();
    let folder = dir.path().join("one");
    assert_eq!(
        files(&folder),
        [
            "checkpoint.json",
            "events.jsonl",
            "journal.jsonl",
            "manifest.json",
            "owner.lock",
            "write/prompt.md",
            "write/response.md",
            "write/status.json"
        ]
    );
    assert_eq!(text(folder.join("write/prompt.md")), "Write: A poem");
    assert_eq!(
        text(folder.join("write/response.md")),
        "[Simulated] Response for stage: write"
    );
    assert_eq!(
        json(folder.join("write/status.json")),
        json!({
            "outcome": "success",
            "context_updates": {"last_response": "[Simulated] Response for stage: write"},
            "notes": "Stage completed: write",
        })
    );
    let mut manifest = json(folder.join("manifest.json"));
    assert!(manifest["started"].take().as_str().unwrap().ends_with('Z'));
    assert!(
        manifest["checksum"]
            .take()
            .as_str()
            .unwrap()
            .starts_with("crc32:")
    );
    assert!(
        manifest["pipeline"]["hash"]
            .take()
            .as_str()
            .unwrap()
            .starts_with("sha256:")
    );
    assert_eq!(
        manifest,
        json!({
            "schema": "orchestra.manifest/1", "run": "one", "name": "poem", "goal": "A poem", "file": "t.dot",
            "started": null, "seed": 7, "simulated": false, "engine": env!("CARGO_PKG_VERSION"), "protocol": 1,
            "durability": "full", "params": {"color": "red"}, "checksum": null,
            "pipeline": {"file": "t.dot", "hash": null, "source": text_of_graph},
        })
    );
    let mut checkpoint = json(folder.join("checkpoint.json"));
    assert!(checkpoint["timestamp"].take().as_str().unwrap().ends_with('Z'));
    assert!(
        checkpoint["checksum"]
            .take()
            .as_str()
            .unwrap()
            .starts_with("crc32:")
    );
    assert!(checkpoint["state"].take().is_object());
    assert_eq!(checkpoint["identity"].take()["run"], "one");
    let records = RunFolder::open(&folder).unwrap().records().unwrap();
    assert_eq!(checkpoint["journal"].take()["records"], records.len());
    assert_eq!(
        checkpoint,
        json!({
            "schema": "orchestra.checkpoint/1", "run": "one", "timestamp": null, "status": "success",
            "current_node": "exit",
            "completed_nodes": ["start", "write", "exit"],
            "node_retries": {},
            "node_visits": {"exit": 1, "start": 1, "write": 1},
            "restarts": 0,
            "node_outcomes": {
                "exit": {"status": "success"},
                "start": {"status": "success"},
                "write": {"status": "success", "notes": "Stage completed: write"},
            },
            "context": {
                "color": "red", "current_node": "exit", "graph.goal": "A poem",
                "last_response": "[Simulated] Response for stage: write",
                "last_stage": "exit", "outcome": "success", "preferred_label": "",
            },
            "seed": 7, "state": null, "journal": null, "identity": null, "checksum": null,
        })
    );
    let mut written = serde_json::to_value(&result).unwrap();
    assert!(written["duration_ms"].take().is_f64());
    assert_eq!(
        written,
        json!({
            "schema": "orchestra.result/1", "run": "one", "status": "success", "path": ["start", "write", "exit"],
            "failure_reason": null, "failure": null, "error_history": [], "restarts": 0,
            "outcomes": {
                "start": {"status": "success"},
                "write": {"status": "success", "notes": "Stage completed: write"},
                "exit": {"status": "success"},
            },
            "duration_ms": null, "run_dir": folder.to_string_lossy(),
        })
    );
}

#[tokio::test]
async fn a_stage_has_a_folder_if_it_asks_for_one_or_fails() {
    let dir = tempfile::tempdir().unwrap();
    let asks = |stage: StageContext| {
        stage.stage_dir().unwrap();
        std::future::ready(Outcome::success())
    };
    let stages = Acts::new().on("b", asks).gives("c", [Outcome::fail("no disk")]);
    let result = run_in(dir.path(), acts("start -> a -> b -> c -> exit"), stages).await;
    let folder = result.run_dir.unwrap();
    assert_eq!(
        files(&folder),
        [
            "b/status.json",
            "c/status.json",
            "checkpoint.json",
            "events.jsonl",
            "journal.jsonl",
            "manifest.json",
            "owner.lock",
        ]
    );
}

#[tokio::test]
async fn a_failed_run_tells_so_in_its_checkpoint_and_its_status() {
    let dir = tempfile::tempdir().unwrap();
    let fails = Acts::new().gives("a", [Outcome::fail("no disk").prefer("Mend").set("x", 1)]);
    let result = run_in(dir.path(), acts("start -> a -> exit"), fails).await;
    let folder = result.run_dir.unwrap();
    let checkpoint = json(folder.join("checkpoint.json"));
    assert_eq!(checkpoint["status"], "fail");
    assert_eq!(
        checkpoint["failure"],
        json!({"code": "stage_failed", "node": "a", "reason": "no disk"})
    );
    assert_eq!(
        checkpoint["node_outcomes"]["a"],
        json!({"status": "fail", "notes": "no disk"})
    );
    assert_eq!(
        json(folder.join("a/status.json")),
        json!({
            "outcome": "fail", "preferred_label": "Mend", "context_updates": {"x": 1}, "failure_reason": "no disk"
        })
    );
}

#[tokio::test]
async fn earlier_visits_are_moved_aside() {
    let dir = tempfile::tempdir().unwrap();
    let writes = Acts::new().on("a", |stage| {
        let folder = stage.stage_dir().unwrap();
        assert!(!folder.join("mine.txt").exists() && !folder.join("status.json").exists());
        std::fs::write(folder.join("mine.txt"), stage.visit().to_string()).unwrap();
        std::future::ready(Outcome::success().set("turn", stage.visit()))
    });
    let graph = "start -> a\n a -> exit [condition=\"context.turn=3\"]\n a -> a";
    let folder = run_in(dir.path(), acts(graph), writes).await.run_dir.unwrap();
    assert_eq!(
        files(&folder.join("a")),
        [
            "mine.txt",
            "status.json",
            "visits/1/mine.txt",
            "visits/1/status.json",
            "visits/2/mine.txt",
            "visits/2/status.json"
        ]
    );
    assert_eq!(text(folder.join("a/mine.txt")), "3");
    assert_eq!(text(folder.join("a/visits/2/mine.txt")), "2");
}

#[tokio::test]
async fn a_status_that_a_stage_wrote_is_its_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let writes = Acts::new().on("a", |stage| {
        let status = r#"{"status": "fail", "preferred_next_label": "Mend", "notes": "red", "context_updates": {"x": 2}}"#;
        std::fs::write(stage.stage_dir().unwrap().join("status.json"), status).unwrap();
        std::future::ready(Outcome::success().set("x", 1).set("y", 1))
    });
    let graph = "start -> a\n a -> exit\n a -> mend [condition=\"outcome=fail && preferred_label=Mend\"]\n mend -> exit";
    let result = run_in(dir.path(), acts(graph), writes.clone()).await;
    assert_eq!(result.path, ["start", "a", "mend", "exit"]);
    assert_eq!(
        (result.context.get("x"), result.context.get("y")),
        (Some(&json!(2)), Some(&json!(1)))
    );
    // The same holds without a run folder.
    assert_eq!(
        support::run(acts(graph), writes).await.path,
        ["start", "a", "mend", "exit"]
    );
}

#[tokio::test]
async fn a_status_file_never_turns_a_failure_into_a_success() {
    let writes = Acts::new().on("a", |stage| {
        std::fs::write(
            stage.stage_dir().unwrap().join("status.json"),
            r#"{"outcome": "success"}"#,
        )
        .unwrap();
        std::future::ready(Outcome::fail("no disk"))
    });
    let result = support::run(acts("start -> a -> exit"), writes).await;
    assert_eq!(result.failure.unwrap().to_string(), "stage `a` failed: no disk");
}

#[tokio::test]
async fn a_status_file_that_says_nothing_usable_fails_the_stage() {
    let writes = Acts::new().on("a", |stage| {
        std::fs::write(stage.stage_dir().unwrap().join("status.json"), "{}").unwrap();
        std::future::ready(Outcome::success())
    });
    let result = support::run(acts("start -> a -> exit"), writes).await;
    assert!(
        result
            .failure
            .unwrap()
            .to_string()
            .contains("it has no `outcome`")
    );
}

#[tokio::test]
async fn names_of_runs_stay_below_their_folder_and_a_taken_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::builder().runs_dir(dir.path()).build().unwrap();
    let start = |id: &str| engine.start(acts("start -> a -> exit"), Acts::new()).run_id(id);
    let error = start("../out").await.unwrap_err();
    assert_eq!(error.code(), "invalid_run_id");
    start("one").await.unwrap().wait().await.unwrap();
    let error = start("one").await.unwrap_err();
    assert!(
        matches!(error, StartError::Store(StoreError::Occupied { .. })),
        "{error}"
    );
    let exact = dir.path().join("exactly/here");
    let run = start("two").run_dir(&exact).await.unwrap();
    assert_eq!(run.wait().await.unwrap().run_dir.unwrap(), exact);
    assert!(exact.join("checkpoint.json").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn planted_links_are_not_followed() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, dir.path().join("run")).unwrap();
    let engine = Engine::builder().build().unwrap();
    let start = engine
        .start(acts("start -> a -> exit"), Acts::new())
        .run_dir(dir.path().join("run"));
    assert!(matches!(
        start.await.unwrap_err(),
        StartError::Store(StoreError::NotPlain { .. })
    ));
    // A stage replaces the folder of the next one by a link, and its own status file too.
    let target = outside.clone();
    let plants = Acts::new().on("a", move |stage| {
        let folder = stage.stage_dir().unwrap();
        std::fs::write(target.join("secret.json"), r#"{"outcome": "success"}"#).unwrap();
        symlink(target.join("secret.json"), folder.join("status.json")).unwrap();
        symlink(&target, folder.parent().unwrap().join("b")).unwrap();
        std::future::ready(Outcome::success())
    });
    let engine = Engine::builder().runs_dir(dir.path()).build().unwrap();
    let graph = acts("start -> a -> b -> exit\n a -> b [condition=\"outcome=fail\"]");
    let run = engine.start(graph, plants).run_id("one").await.unwrap();
    // The engine creates its own folder beside the link.
    let result = run.wait().await.unwrap();
    assert_eq!(result.path, ["start", "a", "b", "exit"]);
    assert!(!outside.join("status.json").exists());
    let status = dir.path().join("one/a/status.json");
    assert!(std::fs::symlink_metadata(&status).unwrap().is_file());
    assert_eq!(json(status)["outcome"], "fail");
    assert_eq!(files(&outside), ["secret.json"]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_that_cannot_be_written_is_a_typed_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let engine = Engine::builder().runs_dir(&file).build().unwrap();
    let error = engine
        .start(acts("start -> a -> exit"), Acts::new())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "store_io");
    assert!(error.to_string().contains(&*file.to_string_lossy()), "{error}");
}

/// A file system whose modifying calls fail from the n-th on.
struct Faulty {
    calls: Arc<AtomicUsize>,
    fails_at: usize,
}

impl Faulty {
    fn call(&self) -> io::Result<()> {
        if self.calls.fetch_add(1, Ordering::SeqCst) + 1 >= self.fails_at {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    }
}

impl FileSystem for Faulty {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.call()?;
        SystemFiles.make_folder(path)
    }
    fn open(&self, path: &Path, access: Access) -> io::Result<OpenFile> {
        if access == Access::New {
            self.call()?;
        }
        SystemFiles.open(path, access)
    }
    fn write_at(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.call()?;
        SystemFiles.write_at(file, bytes, offset)
    }
    fn reserve(&self, file: &OpenFile, offset: u64, length: u64) -> io::Result<()> {
        self.call()?;
        SystemFiles.reserve(file, offset, length)
    }
    fn set_length(&self, file: &OpenFile, length: u64) -> io::Result<()> {
        self.call()?;
        SystemFiles.set_length(file, length)
    }
    fn sync_data(&self, _: &OpenFile) -> io::Result<()> {
        self.call()
    }
    fn sync_all(&self, _: &OpenFile) -> io::Result<()> {
        self.call()
    }
    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        self.call()
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call()?;
        SystemFiles.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call()?;
        SystemFiles.remove(path)
    }
    fn try_lock(&self, file: &OpenFile) -> io::Result<bool> {
        SystemFiles.try_lock(file)
    }
    fn links(&self, file: &OpenFile) -> io::Result<u64> {
        SystemFiles.links(file)
    }
}

#[tokio::test]
async fn a_failure_at_any_write_ends_the_run_visibly_and_leaves_the_last_checkpoint() {
    let graph = pipeline(
        "digraph t { start -> a -> tool -> exit; tool [shape=parallelogram, tool_command=\"true\"]; a [prompt=x] }",
    );
    let graph: orchestra_engine::SharedPipeline = graph.into();
    let dir = tempfile::tempdir().unwrap();
    let (mut failed, mut resumed) = (0, 0);
    for fails_at in 1.. {
        let writes = Arc::new(AtomicUsize::new(0));
        let calls = writes.clone();
        let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
        let list = heard.clone();
        let engine = Engine::builder()
            .backend(SimulationBackend)
            .files(Arc::new(Faulty { calls, fails_at }))
            .on_event(move |event| list.lock().unwrap().push(event.kind.name()))
            .build()
            .unwrap();
        let folder = dir.path().join(fails_at.to_string());
        let run = match engine.start(graph.clone(), ()).run_dir(&folder).await {
            Ok(run) => run,
            Err(error) => {
                assert_eq!(error.code(), "store_io");
                assert!(!RunFolder::is_one(&folder) || fails_at > 10, "call {fails_at}");
                failed += 1;
                continue;
            }
        };
        match run.wait().await {
            Ok(result) if writes.load(Ordering::SeqCst) < fails_at => {
                assert!(result.is_success(), "{:?}", result.failure);
                break;
            }
            // The stage may fail because it could not read something. The run then fails too.
            Ok(result) => assert!(!result.is_success(), "write {fails_at} was lost"),
            Err(error) => assert_eq!(error.code(), "store_io"),
        }
        failed += 1;
        let last = *heard.lock().unwrap().last().unwrap();
        assert!(
            ["PipelineFailed", "PipelineCompleted", "PipelinePaused"].contains(&last),
            "{last}"
        );
        if let Ok(text) = std::fs::read_to_string(folder.join("checkpoint.json")) {
            serde_json::from_str::<Value>(&text).unwrap();
        }
        let seqs: Vec<_> = event_lines(&folder)
            .iter()
            .map(|event| event["seq"].as_u64().unwrap())
            .collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
        // Once the disk works again, the run resumes and reaches the same end.
        let engine = Engine::builder().backend(SimulationBackend).build().unwrap();
        match engine.resume(&folder, graph.clone(), ()).await {
            Ok(run) => {
                let result = run.wait().await.unwrap();
                assert_eq!(result.path, ["start", "a", "tool", "exit"]);
                resumed += 1;
            }
            Err(error) => assert_eq!(error.code(), "already_finished", "{error}"),
        }
    }
    assert!(failed > 30 && resumed > 15, "{failed} {resumed}");
}
