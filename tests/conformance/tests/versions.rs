//! Runs that go on while another version of the program is deployed.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use orchestra_conformance::fleet::Fleet;
use orchestra_engine::{
    Answer, Engine, Entry, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Outcome, Registry, RunId,
    SharedPipeline, StageContext, Words,
};
use orchestra_oracle_tests::load_pipeline;
use orchestra_restate::{Client, Phase, RemoteStart, RemoteStatus};
use tokio::task::JoinHandle;

const fn spec(kind: &'static str) -> KindSpec {
    KindSpec {
        kind,
        fields: &[],
        words: Words::Open,
    }
}

/// The handler of a version.
#[derive(Clone)]
struct Of(&'static str);

impl Handler for Of {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        let by = format!("{} by {}", stage.node().id(), self.0);
        Box::pin(async move { Outcome::success().set("done", by).into() })
    }
}

/// The handlers of a version: the kind `ship`, and perhaps others.
#[derive(Clone)]
struct Handlers(&'static str, &'static [&'static str]);

impl HandlerSet for Handlers {
    const KINDS: Kinds = Kinds::List(&[]);

    fn register(self, registry: &mut Registry) {
        for kind in self.1 {
            registry.add(spec(kind), Arc::new(Of(self.0)));
        }
    }
}

const FIRST: &str = r#"digraph flow { start -> ask; ask [shape=hexagon, label="Ship it?"]
    ask -> ship [label="[Y] Yes"]; ask -> exit [label="[N] No"]; ship [type=ship]; ship -> exit }"#;
const SECOND: &str = r#"digraph flow { start -> ask; ask [shape=hexagon, label="Ship it now?"]
    ask -> test [label="[Y] Yes"]; ask -> exit [label="[N] No"]; test [type=test]; test -> ship
    ship [type=ship]; ship -> exit }"#;

/// Deploys a program: a worker with one pipeline.
async fn deploy(fleet: &Fleet, name: &str, dot: &str, handlers: Handlers) -> JoinHandle<()> {
    let pipeline = SharedPipeline::from(load_pipeline(dot).unwrap());
    let entry = Entry::new(name, pipeline, move || handlers.clone());
    let worker = fleet.worker().pipeline(entry, Engine::builder().build().unwrap());
    fleet.serve(&worker.build().unwrap()).await
}

async fn begin(client: &Client, id: &str) -> RunId {
    let run = RunId::new(id).unwrap();
    client.start(&run, RemoteStart::of("flow")).await.unwrap();
    run
}

async fn finish(client: &Client, run: &RunId) -> (Vec<String>, String) {
    client.answer(run, "ask", Answer::choice("Y")).await.unwrap();
    let result = client.wait(run).await.unwrap();
    assert_eq!(result.failure, None);
    (result.path.clone(), result.context.text("done"))
}

async fn until(client: &Client, run: &RunId, holds: impl Fn(&RemoteStatus) -> bool) -> RemoteStatus {
    for _ in 0..1000 {
        let status = client.status(run).await.unwrap();
        if holds(&status) {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?}", client.status(run).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_follows_the_graph_that_it_began_with() {
    let Some(fleet) = Fleet::start("a_run_follows_the_graph_that_it_began_with").await else {
        return;
    };
    let client = fleet.client();
    let first = deploy(&fleet, "flow", FIRST, Handlers("one", &["ship"])).await;
    let old = begin(&client, "old").await;
    let _second = deploy(&fleet, "flow", SECOND, Handlers("two", &["ship", "test"])).await;
    first.abort();
    let new = begin(&client, "new").await;
    let newer = begin(&client, "newer").await;
    assert_ne!(
        client.status(&old).await.unwrap().hash,
        client.status(&new).await.unwrap().hash
    );
    let (path, done) = finish(&client, &old).await;
    assert_eq!(
        (path.join(" "), &*done),
        ("start ask ship exit".to_owned(), "ship by two")
    );
    let (path, done) = finish(&client, &new).await;
    assert_eq!(
        (path.join(" "), &*done),
        ("start ask test ship exit".to_owned(), "ship by two")
    );
    // The first version is deployed again, and has what the second one's graph needs.
    let _third = deploy(&fleet, "flow", FIRST, Handlers("three", &["ship", "test"])).await;
    let (path, done) = finish(&client, &newer).await;
    assert_eq!(
        (path.join(" "), &*done),
        ("start ask test ship exit".to_owned(), "ship by three")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_handler_is_missing_waits_for_a_deployment_that_has_it() {
    let Some(fleet) = Fleet::start("a_run_whose_handler_is_missing_waits_for_a_deployment_that_has_it").await
    else {
        return;
    };
    let client = fleet.client();
    let _first = deploy(&fleet, "flow", SECOND, Handlers("one", &["ship", "test"])).await;
    let run = begin(&client, "run").await;
    let _second = deploy(&fleet, "flow", FIRST, Handlers("two", &["ship"])).await;
    client.answer(&run, "ask", Answer::choice("Y")).await.unwrap();
    let paused = until(&client, &run, |status| status.phase != Phase::Running).await;
    let Phase::Paused(failure) = paused.phase else {
        panic!("{paused:?}");
    };
    let reason = failure.to_string();
    assert!(
        reason.contains("node `test` is of kind `test`, which has no handler"),
        "{reason}"
    );
    let _third = deploy(&fleet, "flow", SECOND, Handlers("three", &["ship", "test"])).await;
    client.resume(&run, None).await.unwrap();
    let result = client.wait(&run).await.unwrap();
    assert_eq!(
        (result.failure, result.path.join(" ")),
        (None, "start ask test ship exit".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_pipeline_is_missing_keeps_what_arrives() {
    let Some(fleet) = Fleet::start("a_run_whose_pipeline_is_missing_keeps_what_arrives").await else {
        return;
    };
    let client = fleet.client();
    let timed = FIRST.replace(
        "label=\"Ship it?\"",
        "label=\"Ship it?\", timeout=1s, \"human.default_choice\"=Y",
    );
    let _first = deploy(&fleet, "flow", &timed, Handlers("one", &["ship"])).await;
    let run = begin(&client, "run").await;
    // A worker that lacks the pipelines of the one before it is refused, unless it is registered by force.
    let engine = Engine::builder().build().unwrap();
    let pipeline = SharedPipeline::from(load_pipeline(FIRST).unwrap());
    let lacks = Entry::new("flown", pipeline, || Handlers("two", &["ship"]));
    let worker = fleet.worker().pipeline(lacks, engine).build().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(worker.serve(listener, std::future::pending()));
    let refused = fleet.admin().register(&url).await.unwrap_err().to_string();
    assert!(
        refused.contains("lacks pipelines of the one that the server uses now: flow;"),
        "{refused}"
    );
    assert!(client.status(&run).await.is_ok(), "nothing was deployed");
    let _second = deploy(&fleet, "flown", FIRST, Handlers("two", &["ship"])).await;
    // The time of the gate passes while no worker knows the pipeline.
    let reason = loop {
        let error = client.status(&run).await;
        match error {
            Err(error) => break error.to_string(),
            Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(
        reason.contains("no pipeline `flow` is known; did you mean `flown`?"),
        "{reason}"
    );
    while !fleet.query("SELECT key FROM state WHERE key = 'held'").await["rows"][0].is_object() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let _third = deploy(&fleet, "flow", FIRST, Handlers("three", &["ship"])).await;
    client.resume(&run, None).await.unwrap();
    let result = client.wait(&run).await.unwrap();
    assert_eq!(
        (result.failure, result.path.join(" ")),
        (None, "start ask ship exit".to_owned())
    );
    assert_eq!(result.context.text("done"), "ship by three");
}
