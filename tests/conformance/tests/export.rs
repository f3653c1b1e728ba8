//! Copies of runs as run folders.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orchestra_conformance::fleet::Fleet;
use orchestra_core::Context;
use orchestra_engine::{
    Answer, Engine, Entry, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Outcome, PausedRun, Registry,
    RunEvent, RunFolder, RunId, RunStatus, SharedPipeline, StageContext, Words,
};
use orchestra_oracle_tests::load_pipeline;
use orchestra_restate::{Client, ExportError, Exporter, RemoteStart};
use orchestra_sessions::{SessionIndex, SessionStatus};
use serde_json::Value;

const SPEC: KindSpec = KindSpec {
    kind: "test",
    fields: &[],
    words: Words::Open,
};

/// The handler of stages: `does` names what it does.
#[derive(Clone, Default)]
struct Stages;

impl Handler for Stages {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            match stage.node().text("does").unwrap_or_default() {
                "large" => Outcome::success().set("report", "x".repeat(100_000)).into(),
                // Fails at first.
                _ if stage.attempt() == 1 => Outcome::fail("busy").into(),
                _ => Outcome::success().into(),
            }
        })
    }
}

impl HandlerSet for Stages {
    const KINDS: Kinds = Kinds::List(&[SPEC]);

    fn register(self, registry: &mut Registry) {
        registry.add(SPEC, Arc::new(self));
    }
}

const BUILD: &str = r#"digraph build { goal="Ship $version"
    start -> make -> flaky -> fan; fan -> left -> join; fan -> right -> join; join -> ask
    make [shape=parallelogram, tool_command="echo made $ORCHESTRA_STAGE_KEY"]
    flaky [type=test, max_retries=2, retry_initial_delay="0s"]
    fan [shape=component]; join [shape=tripleoctagon]
    left [shape=parallelogram, tool_command="echo left"]
    right [shape=parallelogram, tool_command="echo right; echo warned >&2"]
    ask [shape=hexagon, label="Ship it?"]
    ask -> make [label="[A] Again"]; ask -> exit [label="[Y] Yes"] }"#;

/// Both branches run `check`, and a person may start the run over.
const RESTART: &str = r#"digraph restart { start -> make -> fan; fan -> left -> check; fan -> right -> check
    make [shape=parallelogram, tool_command="echo $ORCHESTRA_ATTEMPT_KEY"]
    fan [shape=component]; join [shape=tripleoctagon]
    left [type=test]; right [type=test]
    check [shape=parallelogram, tool_command="echo $ORCHESTRA_ATTEMPT_KEY >&2; test $ORCHESTRA_ATTEMPT -gt 1", max_retries=1, retry_initial_delay="0s"]
    left [max_retries=2, retry_initial_delay="0s"]; right [max_retries=2, retry_initial_delay="0s"]
    check -> join -> ask
    ask [shape=hexagon, label="Ship it?"]
    ask -> make [label="[A] Again", loop_restart=true]; ask -> exit [label="[Y] Yes"] }"#;

const LARGE: &str = "digraph large { start -> write -> ask -> exit; write [type=test, does=large]
    ask [shape=hexagon] }";

const QUICK: &str =
    "digraph quick { start -> say -> exit; say [shape=parallelogram, tool_command=\"echo hi\"] }";

const PARENT: &str =
    "digraph parent { start -> sub -> exit; sub [shape=folder, \"subpipeline.name\"=quick] }";

fn pipeline(dot: &str) -> SharedPipeline {
    load_pipeline(dot).unwrap().into()
}

/// A server with a worker in this process, and a folder for copies.
struct World {
    fleet: Fleet,
    client: Client,
    runs: PathBuf,
}

impl World {
    async fn start(test: &str) -> Option<World> {
        let fleet = Fleet::start(test).await?;
        let engine = Engine::builder().subpipeline("quick", pipeline(QUICK), Stages);
        let engine = engine.build().unwrap();
        let mut worker = fleet.worker();
        for (name, dot) in [
            ("build", BUILD),
            ("restart", RESTART),
            ("large", LARGE),
            ("quick", QUICK),
            ("parent", PARENT),
        ] {
            let entry = Entry::new(name, pipeline(dot), || Stages);
            worker = worker.pipeline(entry, engine.clone());
        }
        fleet.serve(&worker.build().unwrap()).await;
        Some(World {
            client: fleet.client(),
            runs: fleet.folder.path().join("runs"),
            fleet,
        })
    }

    async fn begin(&self, pipeline: &str, run: &str) -> RunId {
        let run = RunId::new(run).unwrap();
        let mut params = Context::new();
        params.set("version", "1.4");
        let start = RemoteStart {
            params,
            ..RemoteStart::of(pipeline)
        };
        self.client.start(&run, start).await.unwrap();
        run
    }

    /// Waits for a question of a run.
    async fn until_asked(&self, run: &RunId, question: &str) {
        for _ in 0..1000 {
            let status = self.client.status(run).await.unwrap();
            if status.questions.iter().any(|asked| asked.id == question) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{:?}", self.client.status(run).await);
    }

    /// Answers the question of a run.
    async fn answer(&self, run: &RunId, question: &str, answer: &str) {
        self.until_asked(run, question).await;
        let answer = Answer::choice(answer);
        self.client.answer(run, question, answer).await.unwrap();
    }

    /// Runs a pipeline by the engine, with one more round. Returns its folder.
    async fn run_here(&self, dot: &str, run: &RunId, questions: [&str; 2]) -> PathBuf {
        let engine = Engine::builder().runs_dir(self.fleet.folder.path().join("local"));
        let begun = engine.build().unwrap().start(pipeline(dot), Stages);
        let handle = begun.run_id(&**run).await.unwrap();
        for (question, answer) in std::iter::zip(questions, ["A", "Y"]) {
            while handle.questions().iter().all(|asked| asked.id != question) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            handle.answer("ask", Answer::choice(answer)).unwrap();
        }
        handle.wait().await.unwrap().run_dir.unwrap()
    }

    fn folder(&self, run: &RunId) -> PathBuf {
        self.runs.join(&**run)
    }
}

/// Returns the events of a run folder.
fn events(folder: &Path) -> Vec<RunEvent> {
    let events = RunFolder::open(folder).unwrap().events(1).unwrap();
    let parse = |event: Value| serde_json::from_value(event).unwrap();
    events.into_iter().map(parse).collect()
}

/// Returns all files below a folder with their contents.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    found
}

/// Returns the files of stages. An outcome is not compared, because events do not hold all of it.
fn stage_files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let relative = |(path, bytes): (PathBuf, Vec<u8>)| {
        let path = path.strip_prefix(folder).unwrap().to_owned();
        let is_stage = path.components().count() > 1 && !path.starts_with("artifacts");
        let text = match path.ends_with("status.json") {
            true => String::new(),
            false => String::from_utf8(bytes).unwrap(),
        };
        is_stage.then_some((path, text))
    };
    files(folder).into_iter().filter_map(relative).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_goes_on_is_copied_again() {
    let Some(world) = World::start("a_run_that_goes_on_is_copied_again").await else {
        return;
    };
    let run = world.begin("build", "nightly").await;
    world.until_asked(&run, "ask#1/1").await;
    let folder = world.folder(&run);
    let text = |file: &str| {
        std::fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    };

    let first = world.client.export(&run, &folder).await.unwrap();
    assert!(first.changed && !first.has_ended, "{first:?}");
    let sent = world.client.events(&run, 0).await.unwrap();
    assert_eq!(events(&folder), sent);
    assert_eq!(first.events, sent.len() as u64);
    let copy = RunFolder::open(&folder).unwrap();
    let manifest = copy.manifest();
    assert_eq!(
        (&*manifest.run, &*manifest.name, &*manifest.goal),
        ("nightly", "build", "Ship $version")
    );
    assert_eq!(manifest.params.text("version"), "1.4");
    assert_eq!(manifest.exported_from.as_deref(), Some(world.client.url()));
    assert_eq!(copy.owner().unwrap(), None);
    let checkpoint = copy.checkpoint().unwrap().unwrap();
    assert_eq!(
        (&*checkpoint.status, &*checkpoint.current_node),
        ("running", "join")
    );
    assert_eq!(checkpoint.node_visits["ask"], 1);
    assert_eq!(
        copy.state_at("cp_000001", &[]).unwrap().completed_nodes,
        checkpoint.completed_nodes
    );
    assert_eq!(text("make/tool_output.txt").trim_end(), "made nightly/make#1");
    assert_eq!(text("right/tool_stderr.txt").trim_end(), "warned");
    assert_eq!(text("ask/prompt.md"), "Ship it?");
    assert!(!folder.join("ask/response.md").exists());
    let status: Value = serde_json::from_str(&text("left/status.json")).unwrap();
    assert_eq!(status["outcome"], "success");

    let before = files(&folder);
    let again = world.client.export(&run, &folder).await.unwrap();
    assert_eq!((again.changed, again.events), (false, first.events));
    assert_eq!(files(&folder), before);

    let index = SessionIndex::open(&world.runs).unwrap();
    let session = index.with_present_status(index.run("nightly").unwrap());
    assert_eq!(session.status, SessionStatus::Running);
    assert_eq!(session.questions().len(), 1);

    // Nobody goes on with a copy.
    let engine = Engine::builder().build().unwrap();
    let refused = engine.resume(&folder, pipeline(BUILD), Stages).await;
    assert_eq!(refused.unwrap_err().code(), "run_exported");
    let answered = PausedRun::open(&folder)
        .unwrap()
        .answer("ask", Answer::choice("Y"));
    let refused = answered.await.unwrap_err();
    assert_eq!(refused.code(), "run_exported");
    assert!(refused.to_string().contains(world.client.url()), "{refused}");
    assert_eq!(files(&folder), before);

    // A replay begins where the copy was made, as a run of its own.
    let replay = engine.replay(&folder, "cp_000001", pipeline(BUILD), Stages);
    let replay = replay.run_id("replayed").await.unwrap();
    while replay.questions().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    replay.answer("ask", Answer::choice("Y")).unwrap();
    let replayed = replay.wait().await.unwrap();
    assert_eq!(replayed.status, RunStatus::Success);
    let replayed = RunFolder::open(world.runs.join("replayed")).unwrap();
    assert_eq!(replayed.manifest().exported_from, None);
    assert!(replayed.path().join("make/tool_output.txt").exists());

    world.answer(&run, "ask#1/1", "A").await;
    world.answer(&run, "ask#2/1", "Y").await;
    world.client.wait(&run).await.unwrap();
    let last = world.client.export(&run, &folder).await.unwrap();
    assert!(last.changed && last.has_ended, "{last:?}");
    assert_eq!(events(&folder), world.client.events(&run, 0).await.unwrap());
    assert_eq!(
        text("make/visits/1/tool_output.txt").trim_end(),
        "made nightly/make#1"
    );
    assert_eq!(text("make/tool_output.txt").trim_end(), "made nightly/make#2");
    assert_eq!(text("ask/visits/1/response.md"), "[A] Again");
    assert_eq!(text("ask/response.md"), "[Y] Yes");
    let checkpoint = RunFolder::open(&folder).unwrap().checkpoint().unwrap().unwrap();
    assert_eq!(&*checkpoint.status, "success");
    let session = index.run("nightly").unwrap();
    assert_eq!(session.status, SessionStatus::Success);
    let retried = index.stages("nightly").unwrap();
    let retried = retried.iter().filter(|stage| &*stage.node == "flaky");
    assert_eq!(retried.count(), 4);
    assert!(
        !world
            .runs
            .join(".exports")
            .read_dir()
            .unwrap()
            .any(|entry| entry.is_ok())
    );

    // A run of the engine leaves the same files.
    let local = world.run_here(BUILD, &run, ["ask#1/1", "ask#2/1"]).await;
    assert_eq!(stage_files(&folder), stage_files(&local));

    // The run has ended, so only its beginning is left to replay.
    let over = engine.replay(&folder, "cp_000001", pipeline(BUILD), Stages).await;
    assert_eq!(over.unwrap_err().code(), "nothing_to_replay");
    let begun = engine.replay(&folder, "cp_000000", pipeline(BUILD), Stages);
    let begun = begun.run_id("begun").await.unwrap();
    while begun.questions().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    begun.answer("ask", Answer::choice("Y")).unwrap();
    let begun = begun.wait().await.unwrap();
    assert_eq!(begun.context.text("version"), "1.4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_starts_over_leaves_the_files_of_all_its_restarts() {
    let Some(world) = World::start("a_run_that_starts_over_leaves_the_files_of_all_its_restarts").await
    else {
        return;
    };
    let run = world.begin("restart", "over").await;
    world.answer(&run, "ask#1/1", "A").await;
    world.until_asked(&run, "restart-1/ask#1/1").await;
    let folder = world.folder(&run);
    world.client.export(&run, &folder).await.unwrap();
    world.answer(&run, "restart-1/ask#1/1", "Y").await;
    world.client.wait(&run).await.unwrap();
    assert!(world.client.export(&run, &folder).await.unwrap().changed);
    let local = world
        .run_here(RESTART, &run, ["ask#1/1", "restart-1/ask#1/1"])
        .await;
    let left = stage_files(&folder);
    assert_eq!(left, stage_files(&local));
    let in_branches = left
        .keys()
        .filter(|path| path.starts_with("restart-1/check/branches"));
    assert!(in_branches.count() > 0, "{:?}", left.keys());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_folder_is_overwritten() {
    let Some(world) = World::start("no_other_folder_is_overwritten").await else {
        return;
    };
    let run = world.begin("quick", "mine").await;
    world.client.wait(&run).await.unwrap();
    let code = async |folder: &Path| match world.client.export(&run, folder).await {
        Err(ExportError::Folder(error)) => (error.code(), error.to_string()),
        other => panic!("{other:?}"),
    };
    let engine = Engine::builder().runs_dir(&world.runs).build().unwrap();
    let local = engine.start(pipeline(QUICK), Stages).run_id("mine");
    local.await.unwrap().wait().await.unwrap();
    let (refused, message) = code(&world.folder(&run)).await;
    assert_eq!(refused, "store_not_a_copy");
    assert!(
        message.contains("a run that was executed on this machine"),
        "{message}"
    );
    let notes = world.runs.join("notes");
    std::fs::create_dir(&notes).unwrap();
    let other = world.begin("quick", "other").await;
    world.client.wait(&other).await.unwrap();
    world.client.export(&other, &notes).await.unwrap();
    let (_, message) = code(&notes).await;
    assert!(message.contains("a copy of another run `other`"), "{message}");
    std::fs::remove_dir_all(&notes).unwrap();
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("todo.txt"), "").unwrap();
    assert_eq!(code(&notes).await.0, "store_not_a_copy");
    let unknown = world.client.export(&RunId::new("unknown").unwrap(), &notes).await;
    assert!(
        unknown.unwrap_err().to_string().contains("unknown"),
        "the run does not exist"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_exports_what_has_changed() {
    let Some(world) = World::start("a_sync_exports_what_has_changed").await else {
        return;
    };
    let mut runs = Vec::new();
    for number in 0..18 {
        runs.push(world.begin("quick", &format!("quick-{number:02}")).await);
    }
    for run in &runs {
        world.client.wait(run).await.unwrap();
    }
    let [waits, changes] = [
        world.begin("large", "wait").await,
        world.begin("large", "more").await,
    ];
    world.until_asked(&waits, "ask#1/1").await;
    world.until_asked(&changes, "ask#1/1").await;
    let exporter = Exporter::new(world.client.clone());
    let admin = world.fleet.admin();

    // A sync that is interrupted leaves complete copies, or none.
    let interrupted = exporter.sync(&admin, &world.runs);
    drop(tokio::time::timeout(Duration::from_millis(60), interrupted).await);
    let list = || RunFolder::list(&world.runs).unwrap();
    for folder in list() {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let sent = world.client.events(&RunId::new(name).unwrap(), 0).await.unwrap();
        assert_eq!(events(&folder), sent);
    }
    let first = exporter.sync(&admin, &world.runs).await.unwrap();
    assert!(first.failed.is_empty(), "{:?}", first.failed);
    assert_eq!(first.exported.len() as u64 + first.unchanged, 20);
    assert_eq!(list().len(), 20);
    let report = RunFolder::open(world.folder(&waits)).unwrap();
    let report = report.checkpoint().unwrap().unwrap();
    assert_eq!(report.context.text("report").len(), 100_000);

    let second = exporter.sync(&admin, &world.runs).await.unwrap();
    assert_eq!((second.exported.len(), second.unchanged), (0, 20));
    world
        .client
        .answer(&changes, "ask#1/1", Answer::choice("exit"))
        .await
        .unwrap();
    world.client.wait(&changes).await.unwrap();
    let third = exporter.sync(&admin, &world.runs).await.unwrap();
    assert_eq!((third.exported, third.unchanged), (vec![changes.clone()], 19));
    let index = SessionIndex::open(&world.runs).unwrap();
    let listed = index.list(&Default::default()).unwrap();
    let ended = listed
        .iter()
        .filter(|session| session.status == SessionStatus::Success);
    assert_eq!((listed.len(), ended.count()), (20, 19));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_is_copied_by_its_id_only() {
    let Some(world) = World::start("a_child_is_copied_by_its_id_only").await else {
        return;
    };
    let run = world.begin("parent", "up").await;
    world.client.wait(&run).await.unwrap();
    let exporter = Exporter::new(world.client.clone());
    let report = exporter.sync(&world.fleet.admin(), &world.runs).await.unwrap();
    assert_eq!((&report.exported[..], report.failed.len()), (&[run][..], 0));
    let child = RunId::new("up-sub-1").unwrap();
    let folder = world.folder(&child);
    assert!(exporter.export(&child, &folder).await.unwrap().has_ended);
    let copy = RunFolder::open(&folder).unwrap();
    assert_eq!(
        (&*copy.manifest().name, &*copy.manifest().run),
        ("quick", "up-sub-1")
    );
    assert!(folder.join("say/tool_output.txt").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_blob_is_named() {
    let Some(world) = World::start("a_missing_blob_is_named").await else {
        return;
    };
    let run = world.begin("large", "lost").await;
    world.until_asked(&run, "ask#1/1").await;
    let folder = world.folder(&run);
    let stored = |place: &str| std::fs::read_dir(world.fleet.blobs_folder().join(place)).unwrap();
    let mut named = BTreeSet::new();
    for entry in stored("lost/values").chain(stored(".pipelines")) {
        let path = entry.unwrap().path();
        let stored = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        match world.client.export(&run, &folder).await {
            // The blob of an earlier turn.
            Ok(_) => std::fs::remove_dir_all(&folder).unwrap(),
            Err(error) => {
                let name = path.file_name().unwrap().to_str().unwrap();
                let error = error.to_string();
                let place = error.strip_prefix(&format!("blob `sha256:{name}` in `"));
                let place = place.and_then(|place| place.split_once("` is missing"));
                named.insert(place.unwrap_or_else(|| panic!("{error}")).0.to_owned());
                assert!(!folder.exists());
            }
        }
        std::fs::write(&path, stored).unwrap();
    }
    assert_eq!(named.into_iter().collect::<Vec<_>>(), [".pipelines", "lost"]);
    assert!(world.client.export(&run, &folder).await.unwrap().changed);
}
