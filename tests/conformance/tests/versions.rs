//! Runs that go on while another version of the program is deployed.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use orchestra_conformance::fleet::Fleet;
use orchestra_engine::{
    Answer, Engine, Entry, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Outcome, Registry, RunId,
    SharedPipeline, StageContext, Words,
};
use orchestra_graph::{Diagnostic, Graph, Transform};
use orchestra_oracle_tests::load_pipeline;
use orchestra_restate::{Client, ClientError, Phase, RemoteStart, RemoteStatus, Worker};
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

/// Returns a worker with one pipeline.
fn worker(fleet: &Fleet, name: &str, dot: &str, handlers: Handlers) -> Worker {
    let pipeline = SharedPipeline::from(load_pipeline(dot).unwrap());
    let entry = Entry::new(name, pipeline, move || handlers.clone());
    let worker = fleet.worker().pipeline(entry, Engine::builder().build().unwrap());
    worker.build().unwrap()
}

/// Deploys a program by force: a worker with one pipeline.
async fn deploy(fleet: &Fleet, name: &str, dot: &str, handlers: Handlers) -> JoinHandle<()> {
    fleet.serve(&worker(fleet, name, dot, handlers)).await
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
    let admin = fleet.admin();
    // What can be loaded is accepted, and what lacks a handler is refused, unless it is deployed by force.
    let able = worker(&fleet, "flow", FIRST, Handlers("two", &["ship", "test"]));
    able.check_versions(&admin).await.unwrap();
    let lacking = worker(&fleet, "flow", FIRST, Handlers("two", &["ship"]));
    let refused = lacking.check_versions(&admin).await.unwrap_err().to_string();
    assert!(
        refused.starts_with("runs could not go on at the worker:\n  run `run` of pipeline `flow`: ")
            && refused.contains("node `test` is of kind `test`, which has no handler"),
        "{refused}"
    );
    let _second = fleet.serve(&lacking).await;
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
    // A run that has ended needs no worker.
    lacking.check_versions(&admin).await.unwrap();
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
    let worker = worker(&fleet, "flown", FIRST, Handlers("two", &["ship"]));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(worker.serve(listener, std::future::pending()));
    let refused = fleet.admin().register(&url).await.unwrap_err().to_string();
    assert!(
        refused.contains("lacks pipelines of the one that the server uses now: flow;"),
        "{refused}"
    );
    let refused = worker
        .check_versions(&fleet.admin())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.ends_with("run `run` of pipeline `flow`: no pipeline `flow` is known; did you mean `flown`?"),
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

/// Another version, in which each node has another number.
const THIRD: &str = r#"digraph flow { start -> lint; lint [shape=diamond]; lint -> ask
    ask [shape=hexagon, label="Ship it at last?"]; test [type=test]
    ask -> exit [label="[N] No"]; ask -> test [label="[Y] Yes"]; test -> ship; ship [type=ship]; ship -> exit }"#;

async fn refusal(client: &Client, run: &RunId) -> (String, String) {
    match client.accept_changes(run, None).await {
        Err(ClientError::Refused { code, message, .. }) => (code, message),
        other => panic!("{other:?}"),
    }
}

async fn event_names(client: &Client, run: &RunId) -> Vec<&'static str> {
    let events = client.events(run, 0).await.unwrap();
    events.iter().map(|event| event.kind.name()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_run_is_moved_to_a_changed_graph() {
    let Some(fleet) = Fleet::start("a_waiting_run_is_moved_to_a_changed_graph").await else {
        return;
    };
    let client = fleet.client();
    let timed = FIRST.replace(
        "label=\"Ship it?\"",
        "label=\"Ship it?\", timeout=3s, \"human.default_choice\"=Y",
    );
    let _first = deploy(&fleet, "flow", FIRST, Handlers("one", &["ship"])).await;
    let run = begin(&client, "run").await;
    let old = client.status(&run).await.unwrap().hash;
    let _timed = deploy(&fleet, "flow", &timed, Handlers("one", &["ship"])).await;
    let in_time = begin(&client, "in-time").await;
    let _third = deploy(&fleet, "flow", THIRD, Handlers("three", &["ship", "test"])).await;
    let (code, message) = refusal(&client, &run).await;
    assert_eq!(
        (&*code, &*message),
        (
            "wrong_phase",
            "the run is being executed; pause it before it is moved to a changed pipeline"
        )
    );
    for run in [&run, &in_time] {
        client.pause(run, "the graph is repaired").await.unwrap();
        client.accept_changes(run, None).await.unwrap();
    }
    let moved = client.status(&run).await.unwrap();
    assert_ne!(moved.hash, old);
    assert_eq!(moved.phase, Phase::Running);
    assert_eq!(moved.questions[0].id, "ask#1/1");
    // A run that is there already is resumed as it is.
    client.accept_changes(&run, None).await.unwrap();
    let (path, done) = finish(&client, &run).await;
    assert_eq!(
        (path.join(" "), &*done),
        ("start ask test ship exit".to_owned(), "ship by three")
    );
    let events = event_names(&client, &run).await;
    let stop = events.iter().position(|name| *name == "PipelinePaused").unwrap();
    assert_eq!(events[stop + 1], "PipelineResumed");
    let resumes = events.iter().filter(|name| **name == "PipelineResumed");
    assert_eq!(resumes.count(), 1);
    let (code, message) = refusal(&client, &run).await;
    assert_eq!((&*code, &*message), ("wrong_phase", "the run has ended"));
    // The delay that began with the old graph ends in the new one, whose gate has no time-out: the person decides.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(client.status(&in_time).await.unwrap().questions.len(), 1);
    let (path, _) = finish(&client, &in_time).await;
    assert_eq!(path.join(" "), "start ask test ship exit");
    // A copy shows the graph that the run follows now.
    let folder = fleet.folder.path().join("copy");
    client.export(&run, &folder).await.unwrap();
    let copy = orchestra_engine::RunFolder::open(&folder).unwrap();
    assert_eq!(copy.manifest().pipeline.hash, moved.hash);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_cannot_go_on_in_the_changed_graph_is_unchanged() {
    let Some(fleet) = Fleet::start("a_run_that_cannot_go_on_in_the_changed_graph_is_unchanged").await else {
        return;
    };
    let client = fleet.client();
    let _first = deploy(&fleet, "flow", FIRST, Handlers("one", &["ship"])).await;
    let run = begin(&client, "run").await;
    client.pause(&run, "the graph is repaired").await.unwrap();
    let before = client.status(&run).await.unwrap();
    let gone = "digraph flow { start -> ship; ship [type=ship]; ship -> exit }";
    let _second = deploy(&fleet, "flow", gone, Handlers("two", &["ship"])).await;
    let (code, message) = refusal(&client, &run).await;
    assert_eq!(
        (&*code, &*message),
        (
            "incompatible_state",
            "run `run` cannot go on under the changed pipeline: the run stands at `ask`, which is gone; replay it from an \
             earlier checkpoint"
        )
    );
    let inputs = FIRST.replace("digraph flow {", "digraph flow { inputs=\"version: text\"");
    let _third = deploy(&fleet, "flow", &inputs, Handlers("three", &["ship"])).await;
    let (code, message) = refusal(&client, &run).await;
    assert_eq!(code, "contract_changed");
    assert!(
        message.starts_with("run `run` cannot go on under the changed pipeline: ")
            && message.contains("version"),
        "{message}"
    );
    assert_eq!(client.status(&run).await.unwrap(), before);
    client.resume(&run, None).await.unwrap();
    let (path, done) = finish(&client, &run).await;
    assert_eq!(
        (path.join(" "), &*done),
        ("start ask ship exit".to_owned(), "ship by three")
    );
}

/// A check of a newer version: no node may have this name.
struct Forbid(&'static str);

impl Transform for Forbid {
    fn name(&self) -> &str {
        "forbid"
    }

    fn apply(&self, graph: Graph, diagnostics: &mut Vec<Diagnostic>) -> Graph {
        if let Some(node) = graph.nodes.iter().find(|node| *node.id == *self.0) {
            diagnostics.push(Diagnostic::error("forbidden", "it is not allowed", node.span));
        }
        graph
    }
}

/// Returns a worker with this file, for which a file with the node `hold` is not valid.
fn strict_worker(fleet: &Fleet, dot: &str) -> Worker {
    let pipeline = SharedPipeline::from(load_pipeline(dot).unwrap());
    let entry = Entry::loaded("flow", pipeline, vec![Arc::new(Forbid("hold"))]);
    let worker = fleet.worker().pipeline(entry, Engine::builder().build().unwrap());
    worker.build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_graph_became_invalid_is_rescued() {
    let Some(fleet) = Fleet::start("a_run_whose_graph_became_invalid_is_rescued").await else {
        return;
    };
    let client = fleet.client();
    let go = fleet.folder.path().join("go");
    let hold = format!("while ! test -f {}; do sleep 0.02; done", go.display());
    // `hold` is cut off from where the runs are, so it may go.
    let old = format!(
        r#"digraph flow {{ start -> pick; pick [shape=diamond]
            pick -> hold [condition="context.never=yes"]; pick -> fan
            hold [shape=parallelogram, tool_command=true]; hold -> exit
            fan [shape=component]; fan -> work; fan -> ask; join [shape=tripleoctagon]
            work [shape=parallelogram, tool_command="{hold}; echo went"]; work -> join
            ask [shape=hexagon, timeout=3s, "human.default_choice"=Y]; ask -> yes [label="[Y] Yes"]
            ask -> no [label="[N] No"]; yes [shape=parallelogram, tool_command=true]; yes -> join
            no [shape=parallelogram, tool_command=true]; no -> join; join -> exit }}"#
    );
    let new = format!(
        r#"digraph flow {{ start -> pick; more [shape=parallelogram, tool_command="echo more"]; pick [shape=diamond]
            pick -> fan; fan [shape=component]; join [shape=tripleoctagon]; fan -> work; fan -> ask
            work [shape=parallelogram, tool_command="{hold}; echo went"]; work -> join
            ask [shape=hexagon, timeout=3s, "human.default_choice"=Y]; ask -> yes [label="[Y] Yes"]
            ask -> no [label="[N] No"]; yes [shape=parallelogram, tool_command=true]; yes -> join
            no [shape=parallelogram, tool_command=true]; no -> join; join -> more; more -> exit }}"#
    );
    let _first = deploy(&fleet, "flow", &old, Handlers("one", &[])).await;
    let early = begin(&client, "early").await;
    let late = begin(&client, "late").await;
    for run in [&early, &late] {
        until(&client, run, |status| {
            status.questions.len() == 1 && status.stages.len() == 1
        })
        .await;
    }
    let strict = strict_worker(&fleet, &new);
    let refused = strict
        .check_versions(&fleet.admin())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("runs `early` and `late` of pipeline `flow`: the source with which the run began"),
        "{refused}"
    );
    let _second = fleet.serve(&strict).await;
    let parked = client.resume(&early, None).await.unwrap_err().to_string();
    assert!(
        parked.contains("the source with which the run began is not valid"),
        "{parked}"
    );
    // One is moved while its attempt is executed and its delay goes on.
    client.accept_changes(&early, None).await.unwrap();
    let moved = client.status(&early).await.unwrap();
    assert_eq!(moved.stages[0].0, "fan#1:work/work#1/1");
    // The other one is moved when the end of its attempt and of its delay have arrived, and were kept.
    let held = "SELECT value_utf8 FROM state WHERE key = 'held' AND service_key = 'late'";
    while !fleet.query(held).await["rows"][0].is_object() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    std::fs::write(&go, "").unwrap();
    let both = |text: &str| text.contains("timer") && text.contains("finished");
    while !both(&fleet.query(held).await["rows"][0]["value_utf8"].to_string()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client.accept_changes(&late, None).await.unwrap();
    for run in [&early, &late] {
        let ended = tokio::time::timeout(Duration::from_secs(60), client.wait(run)).await;
        let result = ended.expect("nothing that the run waits for is lost").unwrap();
        assert_eq!(result.failure, None);
        let path = result.path.join(" ");
        assert!(path.ends_with("fan join more exit"), "{path}");
        let events = client.events(run, 0).await.unwrap();
        let ended = events
            .iter()
            .filter(|event| event.kind.name() == "StageCompleted");
        let ended: Vec<_> = ended
            .map(|event| serde_json::to_value(&event.kind).unwrap())
            .collect();
        let count = |node: &str| ended.iter().filter(|event| event["node"] == node).count();
        assert_eq!(
            (count("work"), count("yes"), count("more")),
            (1, 1, 1),
            "{ended:?}"
        );
    }
}
