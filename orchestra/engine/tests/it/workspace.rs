//! Tests of the workspace interface: when files are provided and saved, and which snapshots the machine stores.

use crate::support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use orchestra_engine::{
    BackendError, BranchStatus, CodergenBackend, CodergenReply, CodergenRequest, Durability, Engine,
    EngineBuilder, EventKind, OpenedWorkspace, Outcome, RunFailure, RunFolder, RunStatus, Snapshot, StageEnd,
    StartError, Workplace, Workspace, WorkspaceEnd, WorkspaceError, WorkspaceFuture, WorkspaceRun,
    WorkspaceSession, WorkspaceStage,
};
use serde_json::{Value, json};
use support::pipeline;

/// A workspace that counts, for each execution path, how often its files were saved, and logs all calls.
#[derive(Clone, Default)]
struct Counting {
    reported: Arc<Mutex<Vec<String>>>,
    /// The node after which something is left unfinished.
    leaves_open: Option<&'static str>,
}

impl Counting {
    fn tell(&self, what: String) {
        self.reported.lock().unwrap().push(what);
    }

    fn reported(&self) -> Vec<String> {
        self.reported.lock().unwrap().clone()
    }
}

impl Workspace for Counting {
    fn open<'w>(
        &'w self,
        run: WorkspaceRun<'w>,
    ) -> WorkspaceFuture<'w, Result<OpenedWorkspace, WorkspaceError>> {
        self.tell(format!("open {}", run.kept.unwrap_or(&Value::Null)));
        let session: Arc<dyn WorkspaceSession> = Arc::new(self.clone());
        Box::pin(async move { Ok(OpenedWorkspace::new(json!({ "of": &**run.run }), session)) })
    }
}

fn count(stage: &WorkspaceStage) -> u64 {
    let value = stage.snapshot().map(|snapshot| &snapshot.value);
    value.and_then(Value::as_u64).unwrap_or_default()
}

impl WorkspaceSession for Counting {
    fn enter<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
    ) -> WorkspaceFuture<'s, Result<Workplace, WorkspaceError>> {
        let joined: Vec<String> = stage
            .joined()
            .map(|(line, branch)| {
                let value = branch.snapshot.as_ref().map(|snapshot| snapshot.value.clone());
                format!("{line} {} {}", branch.status.word(), value.unwrap_or_default())
            })
            .collect();
        let over = if stage.starts_over() { " over" } else { "" };
        self.tell(format!(
            "enter {} {} {}{over} {joined:?}",
            stage.stage().attempt_key(),
            stage.path_id(),
            count(stage)
        ));
        let fails = stage.stage().node().id() == "lost";
        Box::pin(async move {
            if fails {
                Err(WorkspaceError::new("no_files", "there are no files"))
            } else {
                Ok(Workplace::new("work", BTreeMap::new()))
            }
        })
    }

    fn leave<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
        outcome: Outcome,
    ) -> WorkspaceFuture<'s, (StageEnd, Option<Snapshot>)> {
        let node = stage.stage().node().id().to_owned();
        self.tell(format!(
            "leave {} {}",
            stage.stage().attempt_key(),
            outcome.status.word()
        ));
        let mut snapshot = Snapshot::new(count(stage) + 1);
        snapshot.joined = stage.joined().next().is_some();
        snapshot.unfinished = (self.leaves_open == Some(&*node)).then(|| "something is open".to_owned());
        Box::pin(async move { (outcome.into(), Some(snapshot)) })
    }

    fn save<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
    ) -> WorkspaceFuture<'s, Result<Option<Snapshot>, WorkspaceError>> {
        self.tell(format!("save {}", stage.stage().attempt_key()));
        let snapshot = Snapshot::new(count(stage) + 100);
        Box::pin(async move { Ok(Some(snapshot)) })
    }

    fn end(&self, end: WorkspaceEnd) -> WorkspaceFuture<'_, Result<(), WorkspaceError>> {
        self.tell(format!("end {:?}", end.end));
        Box::pin(async { Ok(()) })
    }
}

/// A backend that answers with its working folder. If the prompt says so, it notes a step and hangs.
struct Here;

impl CodergenBackend for Here {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let stage = request.stage;
        if request.prompt == "hang" && stage.notes().is_empty() {
            stage.note_checkpoint("half").await;
            std::future::pending::<()>().await;
        }
        if request.prompt == "fail" {
            return Err(BackendError::retryable("no"));
        }
        Ok(format!("{:?}", stage.working_dir()).into())
    }
}

fn engine(counting: &Counting, runs: &Path) -> EngineBuilder {
    Engine::builder()
        .backend(Here)
        .workspace(counting.clone())
        // The workspace determines where stages work, also when a run is resumed.
        .working_dir("/elsewhere")
        .durability(Durability::Process)
        .runs_dir(runs)
}

#[tokio::test]
async fn each_attempt_is_given_files_and_its_line_keeps_what_came_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let counting = Counting::default();
    let engine = engine(&counting, dir.path()).build().unwrap();
    let flow = pipeline(
        "digraph { start -> a -> b -> exit; a [prompt=x]
            b [prompt=fail, max_retries=1, retry_initial_delay=1ms, retry_jitter=false]; b -> c [condition=\"outcome=fail\"]
            c [prompt=x]; c -> exit }",
    );
    let run = engine.start(flow, ()).run_id("first").await.unwrap();
    let mut events = run.events();
    let result = run.wait().await.unwrap();
    assert_eq!(result.path, ["start", "a", "b", "c", "exit"]);
    assert_eq!(result.context.text("last_response"), "Some(\"work\")");
    assert_eq!(
        counting.reported(),
        [
            "open null",
            "enter a#1/1 session 0 []",
            "leave a#1/1 success",
            "enter b#1/1 session 1 []",
            "leave b#1/1 fail",
            "enter b#1/2 session 2 []",
            "leave b#1/2 fail",
            "enter c#1/1 session 3 []",
            "leave c#1/1 success",
            "end Over",
        ]
    );
    let folder = RunFolder::open(result.run_dir.unwrap()).unwrap();
    let checkpoint: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("checkpoint.json")).unwrap()).unwrap();
    assert_eq!(checkpoint["workspace_snapshot"], 4);
    let mut saved = Vec::new();
    while let Some(event) = events.recv().await {
        if let EventKind::SnapshotSaved { node, snapshot, .. } = &event.kind {
            saved.push(format!("{node} {snapshot}"));
        }
    }
    assert_eq!(saved, ["a 1", "b 2", "b 3", "c 4"]);
}

#[tokio::test]
async fn branches_begin_with_the_files_of_the_line_around_them_and_are_joined() {
    let dir = tempfile::tempdir().unwrap();
    let counting = Counting::default();
    let engine = engine(&counting, dir.path()).build().unwrap();
    let flow = pipeline(
        "digraph { start -> a -> fan; fan [shape=component, max_parallel=1]; fan -> left -> join; fan -> right -> join
            join [shape=tripleoctagon]; join -> z -> exit
            a [prompt=x]; left [prompt=x]; right [prompt=fail]; z [prompt=x] }",
    );
    let result = engine.start(flow, ()).await.unwrap().wait().await.unwrap();
    assert!(result.is_success());
    assert_eq!(
        counting.reported()[3..],
        [
            "enter fan#1:left/left#1/1 fan-1-left 1 []",
            "leave fan#1:left/left#1/1 success",
            "enter fan#1:right/right#1/1 fan-1-right 1 []",
            "leave fan#1:right/right#1/1 fail",
            "enter join#1/1 session 1 [\"fan-1-left success 2\", \"fan-1-right fail 2\"]",
            "leave join#1/1 success",
            "enter z#1/1 session 2 []",
            "leave z#1/1 success",
            "end Over",
        ]
    );
    let results = result.context.get("parallel.results").unwrap();
    assert_eq!(results[0]["workspace"], 2);
    assert_eq!(BranchStatus::Fail.word(), results[1]["status"]);
}

#[tokio::test]
async fn a_run_that_leaves_something_open_does_not_end_as_a_success() {
    let dir = tempfile::tempdir().unwrap();
    let text = "digraph { start -> a -> b -> exit; a [prompt=x]; b [prompt=x] }";
    for (open, ends) in [("a", true), ("b", false)] {
        let counting = Counting {
            leaves_open: Some(open),
            ..Counting::default()
        };
        let engine = engine(&counting, dir.path()).build().unwrap();
        let result = engine
            .start(pipeline(text), ())
            .await
            .unwrap()
            .wait()
            .await
            .unwrap();
        assert_eq!(result.is_success(), ends, "{open}");
        if let Some(RunFailure::StageFailed { reason, .. }) = &result.failure {
            assert_eq!(reason, "something is open");
        }
    }
    // In a branch, it fails the branch.
    let counting = Counting {
        leaves_open: Some("left"),
        ..Counting::default()
    };
    let engine = engine(&counting, dir.path()).build().unwrap();
    let flow = pipeline(
        "digraph { start -> fan; fan [shape=component]; fan -> left -> join; fan -> right -> join
            join [shape=tripleoctagon]; join -> exit; left [prompt=x]; right [prompt=x] }",
    );
    let result = engine.start(flow, ()).await.unwrap().wait().await.unwrap();
    assert_eq!(result.context.text("parallel.branch.left.status"), "fail");
}

#[tokio::test]
async fn files_that_cannot_be_had_fail_the_stage_and_its_handler_is_not_called() {
    let dir = tempfile::tempdir().unwrap();
    let counting = Counting::default();
    let engine = engine(&counting, dir.path()).build().unwrap();
    let flow = pipeline("digraph { start -> lost -> exit; lost [prompt=x, max_retries=3] }");
    let result = engine.start(flow, ()).await.unwrap().wait().await.unwrap();
    assert_eq!(result.status, RunStatus::Fail);
    assert_eq!(
        counting.reported(),
        ["open null", "enter lost#1/1 session 0 []", "end Over"]
    );
}

#[tokio::test]
async fn a_run_that_goes_on_has_the_files_of_its_last_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let counting = Counting::default();
    let flow = || pipeline("digraph { start -> a -> b -> exit; a [prompt=x]; b [prompt=hang] }");
    let first = engine(&counting, dir.path()).build().unwrap();
    let run = first.start(flow(), ()).run_id("first").await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    while !counting.reported().contains(&"save b#1/1".to_owned()) {
        tokio::task::yield_now().await;
    }
    run.pause("lunch");
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Paused);
    let without = Engine::builder().backend(Here).build().unwrap();
    let refused = without.resume(&folder, flow(), ()).await.unwrap_err();
    assert!(matches!(refused, StartError::Workspace(_)) && refused.code() == "no_workspace");
    let result = first
        .resume(&folder, flow(), ())
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert_eq!(result.context.text("last_response"), "Some(\"work\")");
    assert!(result.is_success());
    assert_eq!(
        counting.reported()[3..],
        [
            "enter b#1/1 session 1 []",
            "save b#1/1",
            "end Paused",
            "open {\"of\":\"first\"}",
            // The stage resumes after its last note.
            "enter b#1/1 session 101 []",
            "leave b#1/1 success",
            "end Over",
        ]
    );
    // From the end of `a`. The workspace of the new run gets the data that the old one saved.
    let replayed = first
        .replay(&folder, "a#1/1", flow(), ())
        .run_id("second")
        .await
        .unwrap();
    let folder = replayed.run_dir().unwrap().to_owned();
    let saves = || {
        counting
            .reported()
            .iter()
            .filter(|reported| *reported == "save b#1/1")
            .count()
    };
    while saves() < 2 {
        tokio::task::yield_now().await;
    }
    replayed.pause("enough");
    replayed.wait().await.unwrap();
    let reported = counting.reported();
    assert_eq!(
        reported[10..12],
        ["open {\"of\":\"first\"}", "enter b#1/1 session 1 []"]
    );
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(folder.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["workspace"], json!({ "of": "second" }));
}

#[tokio::test]
async fn a_run_that_began_without_a_workspace_goes_on_without() {
    let dir = tempfile::tempdir().unwrap();
    let flow = || pipeline("digraph { start -> a -> b -> exit; a [prompt=x]; b [prompt=hang] }");
    let plain = Engine::builder()
        .backend(Here)
        .durability(Durability::Process)
        .runs_dir(dir.path());
    let run = plain.build().unwrap().start(flow(), ()).await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    let mut events = run.events();
    while events
        .recv()
        .await
        .is_some_and(|event| event.kind.name() != "EdgeSelected")
    {}
    run.pause("lunch");
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Paused);
    let counting = Counting::default();
    let engine = engine(&counting, dir.path()).build().unwrap();
    let run = engine.resume(&folder, flow(), ()).await.unwrap();
    run.cancel("enough");
    run.wait().await.unwrap();
    assert_eq!(counting.reported(), Vec::<String>::new());
}
