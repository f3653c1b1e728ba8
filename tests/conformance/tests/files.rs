//! Runs whose stages work on the files of a repository, in a pool of one machine.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orchestra_conformance::fleet::Fleet;
use orchestra_conformance::workers::free_address;
use orchestra_engine::{
    Begin, Engine, Entry, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, OpenedWorkspace, Outcome,
    Registry, RunId, SharedPipeline, Snapshot, StageContext, StageEnd, Words, Workplace, Workspace,
    WorkspaceEnd, WorkspaceError, WorkspaceFuture, WorkspaceRun, WorkspaceSession, WorkspaceStage,
};
use orchestra_graph::{LoadOptions, Source, load};
use orchestra_oracle_tests::load_pipeline;
use orchestra_restate::{Blobs, RemoteStart, Worker, WorkerError};
use orchestra_workspace::GitWorkspace;
use serde_json::Value;

/// Stages that read the files of those before them, and branches that are merged.
const BUILD: &str = r#"digraph build { pool=disk; start -> first -> fan; first [shape=parallelogram, tool_command="echo 1 > first.txt"]
    fan [shape=component]; fan -> left -> join; fan -> right -> join; join [shape=tripleoctagon]
    left [shape=parallelogram, tool_command="cat first.txt > left.txt"]
    right [shape=parallelogram, tool_command="cat first.txt > right.txt"]
    join -> last -> exit; last [shape=parallelogram, tool_command="cat left.txt right.txt > last.txt"] }"#;

const CHILD: &str = "digraph child { start -> a -> exit; a [shape=parallelogram, tool_command=ls] }";

/// A stage that leaves a file if it is interrupted, and fails if it finds the file.
fn hold(go: &Path) -> String {
    format!(
        r#"digraph hold {{ pool=disk; start -> first -> hold -> exit
            first [shape=parallelogram, tool_command="echo 1 > first.txt"]
            hold [shape=parallelogram, tool_command="cat first.txt && ! test -f half.txt && touch half.txt && touch {0}.begun && while ! test -f {0}; do sleep 0.02; done; rm half.txt && echo 2 > second.txt"] }}"#,
        go.display()
    )
}

/// Makes a checkpoint, then waits until it is interrupted.
#[derive(Clone)]
struct Notes;

const NOTES: KindSpec = KindSpec {
    kind: "notes",
    fields: &[],
    words: Words::Open,
};

impl Handler for Notes {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            if stage.notes().is_empty() {
                stage.note_checkpoint("written").await;
                std::fs::write(stage.context().text("begun"), "").unwrap();
                std::future::pending::<()>().await;
            }
            Outcome::success().into()
        })
    }
}

impl HandlerSet for Notes {
    const KINDS: Kinds = Kinds::List(&[NOTES]);

    fn register(self, registry: &mut Registry) {
        registry.add(NOTES, Arc::new(self));
    }
}

/// A workspace without files, which records its calls.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn record(&self, call: &str, snapshot: Option<&Snapshot>) {
        let snapshot = snapshot.map(|snapshot| snapshot.value.to_string());
        let call = format!("{call} {}", snapshot.unwrap_or_default());
        self.0.lock().unwrap().push(call);
    }
}

impl Workspace for Recorder {
    fn open<'w>(
        &'w self,
        run: WorkspaceRun<'w>,
    ) -> WorkspaceFuture<'w, Result<OpenedWorkspace, WorkspaceError>> {
        self.record(&format!("open {:?}", run.kept.and_then(Value::as_str)), None);
        let session: Arc<dyn WorkspaceSession> = Arc::new(self.clone());
        Box::pin(async { Ok(OpenedWorkspace::new("first", session)) })
    }
}

impl WorkspaceSession for Recorder {
    fn enter<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
    ) -> WorkspaceFuture<'s, Result<Workplace, WorkspaceError>> {
        self.record("enter", stage.snapshot());
        Box::pin(async { Ok(Workplace::new(std::env::temp_dir(), Default::default())) })
    }

    fn leave<'s>(
        &'s self,
        _: &'s WorkspaceStage,
        outcome: Outcome,
    ) -> WorkspaceFuture<'s, (StageEnd, Option<Snapshot>)> {
        Box::pin(async { (outcome.into(), Some(Snapshot::new("left"))) })
    }

    fn save<'s>(
        &'s self,
        _: &'s WorkspaceStage,
    ) -> WorkspaceFuture<'s, Result<Option<Snapshot>, WorkspaceError>> {
        Box::pin(async { Ok(Some(Snapshot::new("saved"))) })
    }

    fn end(&self, end: WorkspaceEnd) -> WorkspaceFuture<'_, Result<(), WorkspaceError>> {
        self.record("end", end.snapshot.as_ref());
        Box::pin(async { Ok(()) })
    }
}

/// A repository with one commit.
struct Repository(PathBuf);

impl Repository {
    fn create(folder: &Path) -> Repository {
        let path = folder.join("repository");
        std::fs::create_dir(&path).unwrap();
        let repository = Repository(path);
        repository.git(&["init", "-q"]);
        repository.git(&[
            "-c",
            "user.name=me",
            "-c",
            "user.email=me@localhost",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "start",
        ]);
        repository
    }

    fn git(&self, words: &[&str]) -> String {
        let output = Command::new("git")
            .args(words)
            .current_dir(&self.0)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn engine(&self) -> Engine {
        engine(&self.0, &self.worktrees())
    }

    fn worktrees(&self) -> PathBuf {
        self.0.with_file_name("worktrees")
    }

    /// Returns the files on the branch of a run with their contents.
    fn files(&self, branch: &str) -> Vec<(String, String)> {
        let names = self.git(&["ls-tree", "-r", "--name-only", branch]);
        let content = |name: &str| (name.to_owned(), self.git(&["show", &format!("{branch}:{name}")]));
        names.lines().map(content).collect()
    }

    /// Waits until the worktrees of a run and the git branches of its parallel branches are removed.
    async fn until_tidy(&self, run: &RunId) {
        let folder = self.worktrees().join(&**run);
        let mut branches = String::new();
        for _ in 0..500 {
            branches = self.git(&["branch", "--list", &format!("orchestra/*/{}.*", &**run)]);
            if !folder.exists() && branches.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{} or these branches are there: {branches}", folder.display());
    }
}

fn engine(repository: &Path, worktrees: &Path) -> Engine {
    let workspace = GitWorkspace::builder(worktrees)
        .repository("code", repository)
        .build()
        .unwrap();
    Engine::builder().workspace(workspace).build().unwrap()
}

fn entry(name: &str, dot: &str) -> Entry {
    let read = |_: &str, _: u64| Ok(CHILD.as_bytes().to_vec());
    let options = LoadOptions {
        children: Some(&read),
        ..LoadOptions::default()
    };
    let pipeline = load(Source::new("flow.dot", dot), &options).pipeline().unwrap();
    Entry::new(name, SharedPipeline::from(pipeline), || ())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_works_on_the_files_of_a_repository_as_in_one_process() {
    let test = "a_run_works_on_the_files_of_a_repository_as_in_one_process";
    let Some(fleet) = Fleet::start(test).await else {
        return;
    };
    let repository = Repository::create(fleet.folder.path());
    let begun = entry("build", BUILD).begin(&repository.engine(), Begin::Start(Default::default()));
    let embedded = begun.await.unwrap().wait().await.unwrap();
    assert!(embedded.is_success(), "{embedded:?}");
    let disk = fleet
        .worker()
        .pipeline(entry("build", BUILD), repository.engine())
        .pool("disk");
    fleet.serve(&disk.build().unwrap()).await;
    // Takes the turns, and does not have the repository.
    let nowhere = fleet.folder.path().join("nowhere");
    let turns = fleet
        .worker()
        .pipeline(entry("build", BUILD), engine(&nowhere, &nowhere));
    fleet.serve(&turns.build().unwrap()).await;
    let client = fleet.client();
    let run = RunId::new("hosted").unwrap();
    client.start(&run, RemoteStart::of("build")).await.unwrap();
    let result = client.wait(&run).await.unwrap();
    assert_eq!(
        (result.failure, result.path.join(" ")),
        (None, embedded.path.iter().collect::<Vec<_>>().join(" "))
    );
    repository.until_tidy(&run).await;
    let files = repository.files("orchestra/build/hosted");
    let expected = [
        ("first.txt", "1\n"),
        ("last.txt", "1\n1\n"),
        ("left.txt", "1\n"),
        ("right.txt", "1\n"),
    ];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(files, expected);
    let branches = repository.git(&[
        "branch",
        "--list",
        "--format=%(refname:short)",
        "orchestra/build/*",
    ]);
    let other = branches
        .lines()
        .find(|branch| !branch.ends_with("/hosted"))
        .unwrap();
    assert_eq!(files, repository.files(other));
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_killed_leaves_the_files_as_they_were_before_the_stage() {
    let test = "a_worker_that_is_killed_leaves_the_files_as_they_were_before_the_stage";
    let Some(fleet) = Fleet::start(test).await else {
        return;
    };
    let repository = Repository::create(fleet.folder.path());
    let go = fleet.folder.path().join("go");
    let worker = || {
        let disk = fleet
            .worker()
            .pipeline(entry("hold", &hold(&go)), repository.engine());
        disk.pool("disk").build().unwrap()
    };
    let address = free_address();
    let first = fleet.serve_doomed(&worker(), address).await;
    let client = fleet.client();
    let run = RunId::new("killed").unwrap();
    client.start(&run, RemoteStart::of("hold")).await.unwrap();
    let begun = go.with_file_name("go.begun");
    while !begun.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The next run begins at another commit, and this one does not move there.
    repository.git(&[
        "-c",
        "user.name=me",
        "-c",
        "user.email=me@localhost",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "next",
    ]);
    first.kill();
    let _second = fleet.serve_doomed(&worker(), address).await;
    std::fs::write(&go, "").unwrap();
    let result = client.wait(&run).await.unwrap();
    assert_eq!(result.failure, None);
    repository.until_tidy(&run).await;
    let branch = "orchestra/hold/killed";
    let expected = [("first.txt", "1\n"), ("second.txt", "2\n")];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(repository.files(branch), expected);
    let commits = repository.git(&["log", "--format=%s", branch]);
    assert_eq!(
        (commits.lines().count(), commits.lines().last()),
        (3, Some("start")),
        "{commits}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_goes_on_has_the_snapshot_of_its_last_note() {
    let test = "an_attempt_that_goes_on_has_the_snapshot_of_its_last_note";
    let Some(fleet) = Fleet::start(test).await else {
        return;
    };
    let dot = "digraph noted { pool=disk; start -> note -> exit; note [type=notes] }";
    let recorder = Recorder::default();
    let worker = || {
        let pipeline = SharedPipeline::from(load_pipeline(dot).unwrap());
        let engine = Engine::builder().workspace(recorder.clone()).build().unwrap();
        let disk = fleet
            .worker()
            .pipeline(Entry::new("noted", pipeline, || Notes), engine);
        disk.pool("disk").build().unwrap()
    };
    let address = free_address();
    let first = fleet.serve_doomed(&worker(), address).await;
    let begun = fleet.folder.path().join("begun");
    let client = fleet.client();
    let run = RunId::new("noted").unwrap();
    let mut start = RemoteStart::of("noted");
    start.params.set("begun", begun.display().to_string());
    client.start(&run, start).await.unwrap();
    while !begun.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    first.kill();
    let _second = fleet.serve_doomed(&worker(), address).await;
    assert_eq!(client.wait(&run).await.unwrap().failure, None);
    let recorded = || recorder.0.lock().unwrap().clone();
    let ends = async {
        while recorded().last().is_none_or(|call| !call.starts_with("end")) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ends).await.unwrap();
    // The data of the first time is used again, also for the end.
    let again = r#"open Some("first") "#;
    let expected = [
        "open None ",
        "enter ",
        again,
        r#"enter "saved""#,
        again,
        r#"end "left""#,
    ];
    assert_eq!(recorded(), expected);
}

#[test]
fn files_need_one_pool_for_all_stages() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::create(folder.path());
    let refused = |dot: &str| {
        let blobs = Blobs::in_folder(&folder.path().join("blobs")).unwrap();
        let worker = Worker::builder("http://127.0.0.1:1", blobs);
        match worker.pipeline(entry("p", dot), repository.engine()).build() {
            Err(WorkerError::Pipeline(refusals)) => {
                assert_eq!(refusals.list[0].code, "hosted_workspace");
                refusals.list[0].message.clone()
            }
            other => panic!("{other:?}"),
        }
    };
    let two = |a: &str, b: &str| {
        format!(
            "digraph p {{ start -> a -> b -> exit; a [shape=parallelogram, tool_command=ls {a}]
                b [shape=parallelogram, tool_command=ls {b}] }}"
        )
    };
    assert_eq!(
        refused(&two(", pool=disk", "")),
        "node `b` works on the files of a workspace, which one machine has, but it is in no pool; write `pool=NAME` on the \
         graph, and run the only worker of that pool on the machine with the repositories"
    );
    assert_eq!(
        refused(&two(", pool=disk", ", pool=gpu")),
        "node `b` is in the pool `gpu` and others are in `disk`, but all work on the files of a workspace, which one \
         machine has; write the same pool on all, or only on the graph"
    );
    let refusal = refused(
        r#"digraph p { pool=disk; start -> a -> exit; a [shape=folder, "subpipeline.file"="child.dot"] }"#,
    );
    assert!(
        refusal.starts_with("node `a` is a sub-pipeline node, whose run cannot"),
        "{refusal}"
    );
}
