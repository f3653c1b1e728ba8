//! Sub-pipelines, by the engine and by workers.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use orchestra_conformance::fleet::Fleet;
use orchestra_core::RunFailure;
use orchestra_engine::{
    Answer, Begin, Engine, Entry, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Outcome, Registry,
    RunId, SharedPipeline, StageContext, Usage, Words,
};
use orchestra_graph::{LoadOptions, ReadError, Source, load};
use orchestra_restate::{Client, Phase, RemoteStart, RemoteStatus};
use serde_json::json;

const SPEC: KindSpec = KindSpec {
    kind: "work",
    fields: &[],
    words: Words::Open,
};

/// Does what `does` says, and counts what has begun and ended.
#[derive(Clone, Default)]
struct Work {
    begun: Arc<AtomicUsize>,
    stopped: Arc<AtomicUsize>,
}

struct Stopped(Arc<AtomicUsize>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Handler for Work {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            self.begun.fetch_add(1, Ordering::Relaxed);
            let _stopped = Stopped(self.stopped.clone());
            stage.record_usage(Usage {
                input_tokens: 10,
                ..Usage::default()
            });
            let number = stage
                .context()
                .get("number")
                .and_then(serde_json::Value::as_u64)
                .unwrap_or(1);
            match stage.node().text("does") {
                Some("hang") => std::future::pending().await,
                Some("fail") => Outcome::fail("it is red").into(),
                _ => Outcome::success().set("number", number * 2).into(),
            }
        })
    }
}

impl HandlerSet for Work {
    const KINDS: Kinds = Kinds::List(&[SPEC]);

    fn register(self, registry: &mut Registry) {
        registry.add(SPEC, Arc::new(self));
    }
}

const FILES: &[(&str, &str)] = &[
    (
        "double.dot",
        "digraph double { start -> a -> exit; a [type=work] }",
    ),
    (
        "nested.dot",
        r#"digraph nested { start -> one -> exit
            one [shape=folder, "subpipeline.file"="double.dot", "subpipeline.inputs"="number", "subpipeline.outputs"="number"] }"#,
    ),
    (
        "asks.dot",
        r#"digraph asks { start -> ask; ask [shape=hexagon, label="Really?"]
            ask -> a [label="[Y] Yes"]; ask -> exit [label="[N] No"]; a [type=work]; a -> exit }"#,
    ),
    (
        "supervises.dot",
        r#"digraph supervises { start -> watch -> exit; watch [shape=house, "stack.child_dotfile"="double.dot"] }"#,
    ),
    (
        "fails.dot",
        "digraph fails { start -> a -> exit; a [type=work, does=fail] }",
    ),
    (
        "hangs.dot",
        "digraph hangs { start -> a -> exit; a [type=work, does=hang] }",
    ),
];

fn parent(file: &str, more: &str) -> String {
    format!(
        r#"digraph parent {{ start -> first -> sub -> last -> exit; first [type=work]; last [type=work]
            sub [shape=folder, "subpipeline.file"="{file}", "subpipeline.inputs"="number",
                "subpipeline.outputs"="result=number"{more}] }}"#
    )
}

fn entry(name: &str, dot: &str, work: &Work) -> Entry {
    let read = |path: &str, _: u64| {
        let found = FILES.iter().find(|(file, _)| *file == path);
        found
            .map(|(_, text)| text.as_bytes().to_vec())
            .ok_or(ReadError::Missing)
    };
    let options = LoadOptions {
        children: Some(&read),
        ..LoadOptions::default()
    };
    let loaded = load(Source::new("parent.dot", dot), &options);
    let report = format!("{:?}", loaded.report.diagnostics);
    let pipeline = SharedPipeline::from(loaded.pipeline().unwrap_or_else(|| panic!("{report}")));
    let work = work.clone();
    Entry::new(name, pipeline, move || work.clone())
}

struct World {
    fleet: Fleet,
    client: Client,
    work: Work,
}

impl World {
    async fn start(test: &str, pipelines: &[(&str, String)]) -> Option<World> {
        let fleet = Fleet::start(test).await?;
        let work = Work::default();
        let mut worker = fleet.worker();
        for (name, dot) in pipelines {
            worker = worker.pipeline(entry(name, dot, &work), Engine::builder().build().unwrap());
        }
        fleet.serve(&worker.build().unwrap()).await;
        let client = fleet.client();
        Some(World { fleet, client, work })
    }

    async fn begin(&self, pipeline: &str) -> RunId {
        let run = RunId::new(format!("{pipeline}-run")).unwrap();
        self.client.start(&run, RemoteStart::of(pipeline)).await.unwrap();
        run
    }

    async fn until(&self, run: &RunId, holds: impl Fn(&RemoteStatus) -> bool) -> RemoteStatus {
        for _ in 0..1000 {
            let status = self.client.status(run).await.unwrap();
            if holds(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{:?}", self.client.status(run).await);
    }

    async fn until_begun(&self, count: usize) {
        while self.work.begun.load(Ordering::Relaxed) < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sub_pipeline_is_a_run_of_its_own_with_the_same_result() {
    let pipelines = [
        ("plain", parent("double.dot", "")),
        ("nested", parent("nested.dot", "")),
        (
            "fails",
            parent("fails.dot", ", max_retries=1, retry_initial_delay=\"1ms\""),
        ),
    ];
    let test = "a_sub_pipeline_is_a_run_of_its_own_with_the_same_result";
    let Some(world) = World::start(test, &pipelines).await else {
        return;
    };
    for (name, dot) in &pipelines {
        let engine = Engine::builder().build().unwrap();
        let begun = entry(name, dot, &Work::default()).begin(&engine, Begin::Start(Default::default()));
        let expected = begun.await.unwrap().wait().await.unwrap();
        let run = world.begin(name).await;
        let result = world.client.wait(&run).await.unwrap();
        assert_eq!(
            result.failure.map(|failure| failure.to_string()),
            expected.failure.map(|failure| failure.to_string())
        );
        assert_eq!(result.path, expected.path.iter().collect::<Vec<_>>());
        assert_eq!(
            result.context.get("result"),
            expected.context.get("result"),
            "{name}"
        );
        assert_eq!(result.usage.tokens(), expected.usage.tokens(), "{name}");
    }
    let child = RunId::new("plain-run-sub-1").unwrap();
    let child = world.client.result(&child).await.unwrap();
    assert_eq!(
        (child.path.join(" "), child.context.get("number")),
        ("start a exit".to_owned(), Some(&json!(4)))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_question_of_a_child_is_one_of_its_parent() {
    let test = "the_question_of_a_child_is_one_of_its_parent";
    let Some(world) = World::start(test, &[("asks", parent("asks.dot", ""))]).await else {
        return;
    };
    let run = world.begin("asks").await;
    let status = world.until(&run, |status| !status.questions.is_empty()).await;
    assert_eq!(status.questions[0].text, "Really?");
    // The child waits as well while its parent is paused.
    world.client.pause(&run, "lunch").await.unwrap();
    world.until(&run, |status| status.stages.is_empty()).await;
    let child = RunId::new("asks-run-sub-1").unwrap();
    assert!(matches!(
        world.client.status(&child).await.unwrap().phase,
        Phase::Paused(_)
    ));
    world.client.resume(&run, None).await.unwrap();
    let status = world.until(&run, |status| !status.questions.is_empty()).await;
    world
        .client
        .answer(&run, &status.questions[0].id, Answer::choice("Y"))
        .await
        .unwrap();
    let result = world.client.wait(&run).await.unwrap();
    assert_eq!(
        (result.failure, result.context.get("result")),
        (None, Some(&json!(4)))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_not_moved_to_a_changed_graph_while_a_child_is_in_progress() {
    let test = "a_run_is_not_moved_to_a_changed_graph_while_a_child_is_in_progress";
    let Some(world) = World::start(test, &[("asks", parent("asks.dot", ""))]).await else {
        return;
    };
    let client = &world.client;
    let run = world.begin("asks").await;
    world.until(&run, |status| !status.questions.is_empty()).await;
    let changed = parent("asks.dot", "").replace("last -> exit", "last -> more -> exit; more [type=work]");
    let worker = world.fleet.worker();
    let worker = worker.pipeline(
        entry("asks", &changed, &world.work),
        Engine::builder().build().unwrap(),
    );
    world.fleet.serve(&worker.build().unwrap()).await;
    client.pause(&run, "the graph is repaired").await.unwrap();
    world.until(&run, |status| status.stages.is_empty()).await;
    let refused = client.accept_changes(&run, None).await.unwrap_err();
    let child = RunId::new("asks-run-sub-1").unwrap();
    assert_eq!(
        refused.to_string(),
        "the child run `asks-run-sub-1` of `sub` is in progress, and follows the pipeline that the run began with"
    );
    let of_child = client.accept_changes(&child, None).await.unwrap_err().to_string();
    assert!(of_child.contains("its parent is `asks-run`"), "{of_child}");
    client.resume(&run, None).await.unwrap();
    let open = world.until(&run, |status| !status.questions.is_empty()).await;
    client
        .answer(&run, &open.questions[0].id, Answer::choice("Y"))
        .await
        .unwrap();
    let result = client.wait(&run).await.unwrap();
    assert_eq!(result.path.join(" "), "start first sub last exit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_ends_with_its_parent_or_when_its_time_is_over() {
    let pipelines = [
        ("hangs", parent("hangs.dot", "")),
        ("timed", parent("hangs.dot", ", timeout=\"300ms\"")),
    ];
    let test = "a_child_ends_with_its_parent_or_when_its_time_is_over";
    let Some(world) = World::start(test, &pipelines).await else {
        return;
    };
    let run = world.begin("hangs").await;
    world.until_begun(2).await;
    world.client.cancel(&run, "a new version").await.unwrap();
    let result = world.client.wait(&run).await.unwrap();
    assert_eq!(
        result.failure,
        Some(RunFailure::Cancelled {
            reason: "a new version".to_owned()
        })
    );
    assert_eq!(
        world.work.stopped.load(Ordering::Relaxed),
        2,
        "nothing of the child runs any more"
    );
    let child = RunId::new("hangs-run-sub-1").unwrap();
    assert!(matches!(
        world.client.status(&child).await.unwrap().phase,
        Phase::Ended(Some(_))
    ));
    let run = world.begin("timed").await;
    let failure = world
        .client
        .wait(&run)
        .await
        .unwrap()
        .failure
        .unwrap()
        .to_string();
    assert!(failure.contains("timed out after 300ms"), "{failure}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_loop_is_refused_at_the_start_wherever_it_is() {
    let test = "a_manager_loop_is_refused_at_the_start_wherever_it_is";
    let Some(world) = World::start(test, &[("above", parent("supervises.dot", ""))]).await else {
        return;
    };
    let run = RunId::new("run").unwrap();
    let refused = world
        .client
        .start(&run, RemoteStart::of("above"))
        .await
        .unwrap_err();
    let expected = "node `watch` of pipeline `supervises` is a manager loop";
    assert!(refused.to_string().contains(expected), "{refused}");
    assert_eq!(world.work.begun.load(Ordering::Relaxed), 0, "nothing has run");
}
