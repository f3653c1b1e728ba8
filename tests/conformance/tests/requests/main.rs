//! Requests that are refused, and runs that need a person.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orchestra_conformance::fleet::{Fleet, get, post};
use orchestra_conformance::workers::free_address;
use orchestra_core::{Context, RunFailure};
use orchestra_engine::{
    Answer, Engine, Entry, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Outcome, Registry, RunId,
    SharedPipeline, StageContext, Words,
};
use orchestra_oracle_tests::load_pipeline;
use orchestra_restate::{Client, ClientError, Phase, RemoteStart, RemoteStatus, Worker, WorkerBuilder};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

mod blobs;

/// The handler of all stages: `does` names what it does.
#[derive(Clone, Default)]
struct Stages {
    /// Whether waiting stages may end.
    open: Arc<AtomicBool>,
    begun: Arc<AtomicUsize>,
    /// The number of waiting stages that have stopped.
    stopped: Arc<AtomicUsize>,
    noted: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<String>>>,
}

const SPEC: KindSpec = KindSpec {
    kind: "test",
    fields: &[],
    words: Words::Open,
};

/// Counts a stage that has stopped, also if it is cancelled.
struct Stopped(Arc<AtomicUsize>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Handler for Stages {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            self.begun.fetch_add(1, Ordering::Relaxed);
            self.seen
                .lock()
                .unwrap()
                .push(format!("{} {}", stage.attempt_key(), stage.is_repeat()));
            let does = stage.node().text("does").unwrap_or_default().to_owned();
            let outcome = Outcome::success();
            match &*does {
                "large" => outcome.set("report", "x".repeat(100_000)).into(),
                "giant" => outcome.set("report", "x".repeat(17 << 20)).into(),
                "count" => {
                    let count = stage.context().get("count").and_then(Value::as_u64);
                    outcome.set("count", count.unwrap_or_default() + 1).into()
                }
                "length" => {
                    let length = stage.context().text("report").len();
                    outcome.set("length", length as u64).into()
                }
                "note" => {
                    let mut number = stage.notes().len();
                    while !self.open.load(Ordering::Relaxed) {
                        stage.note(json!({ "number": number })).await;
                        number += 1;
                        self.noted.fetch_max(number, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    outcome.set("notes", number as u64).into()
                }
                "wait" => {
                    let stopped = Stopped(self.stopped.clone());
                    while !self.open.load(Ordering::Relaxed) {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    drop(stopped);
                    outcome.into()
                }
                _ => outcome.into(),
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

const PIPELINES: &[(&str, &str)] = &[
    (
        "gate",
        r#"digraph gate { start -> ask; ask [shape=hexagon, label="Ship it?"]
            ask -> exit [label="[Y] Yes"]; ask -> stop [label="[N] No"]; stop [type=test, end=fail] }"#,
    ),
    (
        "large",
        r#"digraph large { start -> write -> wait -> measure -> exit
            write [type=test, does=large]; wait [type=test, does=wait]; measure [type=test, does=length] }"#,
    ),
    (
        "giant",
        "digraph giant { start -> write -> exit; write [type=test, does=giant] }",
    ),
    (
        "waits",
        "digraph waits { start -> wait -> exit; wait [type=test, does=wait] }",
    ),
    ("long", LONG),
    (
        "notes",
        "digraph notes { start -> note -> exit; note [type=test, does=note] }",
    ),
];

/// A loop whose events do not fit into one segment.
const LONG: &str = r#"digraph long { max_node_visits=50; start -> work; work [type=test, does=count]
    work -> work [condition="context.count<50"]; work -> exit [condition="context.count>=50"] }"#;

/// A server with a worker in this process.
struct World {
    fleet: Fleet,
    client: Client,
    stages: Stages,
}

impl World {
    async fn start(test: &str) -> Option<World> {
        let fleet = Fleet::start(test).await?;
        let world = World {
            client: fleet.client(),
            fleet,
            stages: Stages::default(),
        };
        world.fleet.serve(&world.worker()).await;
        Some(world)
    }

    fn worker(&self) -> Worker {
        let engine = Engine::builder().build().unwrap();
        let add = |worker: WorkerBuilder, (name, dot): &(&str, &str)| {
            worker.pipeline(entry(name, dot, &self.stages), engine.clone())
        };
        PIPELINES.iter().fold(self.fleet.worker(), add).build().unwrap()
    }

    async fn begin(&self, pipeline: &str) -> RunId {
        let run = RunId::new(format!("{pipeline}-run")).unwrap();
        self.client.start(&run, RemoteStart::of(pipeline)).await.unwrap();
        run
    }

    /// Waits for a status of a run.
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
        while self.stages.begun.load(Ordering::Relaxed) < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn open(&self) {
        self.stages.open.store(true, Ordering::Relaxed);
    }

    /// Returns the secret of a run.
    async fn secret(&self, run: &RunId) -> String {
        let query = format!(
            "SELECT value_utf8 FROM state WHERE service_name = 'OrchestraRun' AND service_key = '{run}' AND key = 'run'"
        );
        let found = self.fleet.query(&query).await;
        let record: Value = serde_json::from_str(found["rows"][0]["value_utf8"].as_str().unwrap()).unwrap();
        record["facts"]["secret"].as_str().unwrap().to_owned()
    }
}

fn entry(name: &str, dot: &str, stages: &Stages) -> Entry {
    let pipeline = SharedPipeline::from(load_pipeline(dot).unwrap());
    let stages = stages.clone();
    Entry::new(name, pipeline, move || stages.clone())
}

fn refused(result: Result<(), ClientError>) -> (u16, String, String) {
    match result {
        Err(ClientError::Refused {
            status,
            code,
            message,
        }) => (status, code, message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_is_refused_with_a_reason() {
    let Some(world) = World::start("a_start_is_refused_with_a_reason").await else {
        return;
    };
    let run = RunId::new("one").unwrap();
    let unknown = refused(world.client.start(&run, RemoteStart::of("gaet")).await);
    assert_eq!((unknown.0, &*unknown.1), (404, "unknown_pipeline"));
    assert_eq!(unknown.2, "no pipeline `gaet` is known; did you mean `gate`?");
    world.client.start(&run, RemoteStart::of("gate")).await.unwrap();
    world.client.start(&run, RemoteStart::of("gate")).await.unwrap();
    let mut params = Context::new();
    params.set("version", 2);
    let other = RemoteStart {
        params: params.clone(),
        ..RemoteStart::of("gate")
    };
    let exists = refused(world.client.start(&run, other).await);
    assert_eq!((exists.0, &*exists.1), (409, "run_exists"));
    params.set("human.gate.label", "Yes");
    let reserved = RemoteStart {
        params,
        ..RemoteStart::of("gate")
    };
    let run = RunId::new("two").unwrap();
    let reserved = refused(world.client.start(&run, reserved).await);
    assert_eq!((reserved.0, &*reserved.1), (422, "cannot_start"));
    assert!(reserved.2.contains("human.gate.label"), "{}", reserved.2);
    let unknown = world.client.status(&run).await.unwrap_err();
    assert!(
        matches!(unknown, ClientError::Refused { status: 404, .. }),
        "{unknown:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_counts_once_and_must_be_one_of_the_choices() {
    let Some(world) = World::start("an_answer_counts_once_and_must_be_one_of_the_choices").await else {
        return;
    };
    let run = world.begin("gate").await;
    let question = world
        .until(&run, |status| !status.questions.is_empty())
        .await
        .questions
        .remove(0);
    let wrong = refused(
        world
            .client
            .answer(&run, &question.id, Answer::choice("Perhaps"))
            .await,
    );
    assert_eq!((wrong.0, &*wrong.1), (422, "answer_refused"));
    assert_eq!(wrong.2, "`Perhaps` is not one of the answers: [Y] Yes, [N] No");
    world
        .client
        .answer(&run, "ask", Answer::choice("Y"))
        .await
        .unwrap();
    let second = refused(world.client.answer(&run, &question.id, Answer::choice("N")).await);
    assert!(
        matches!(&*second.1, "no_question" | "wrong_phase") && second.0 == 409,
        "{second:?}"
    );
    let result = world.client.wait(&run).await.unwrap();
    assert_eq!(
        (result.failure, result.path),
        (None, vec!["start".to_owned(), "ask".into(), "exit".into()])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_needs_the_secret_and_the_newest_token() {
    let Some(world) = World::start("a_report_needs_the_secret_and_the_newest_token").await else {
        return;
    };
    let run = world.begin("notes").await;
    while world.stages.noted.load(Ordering::Relaxed) < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let status = world.client.status(&run).await.unwrap();
    let effect = serde_json::to_value(&status.stages[0].1.effect).unwrap();
    let claim = |secret: &str| {
        let report = json!({ "claimed": { "execution": "another" } });
        let message = json!({ "attempt": { "effect": effect, "token": 1, "report": report } });
        let sent = json!({ "at": "2026-11-28T12:00:00.000Z", "message": message });
        json!({ "secret": secret, "sent": sent }).to_string()
    };
    let path = format!("/OrchestraRun/{run}/report");
    let url = world.fleet.server.ingress_url();
    let foreign = post(url, &path, &claim("0123")).await;
    assert_eq!(foreign.0, 403, "{foreign:?}");
    assert!(
        foreign.1["message"]
            .as_str()
            .unwrap()
            .starts_with("foreign_secret: "),
        "{foreign:?}"
    );
    // Another worker takes over, as after a network that was cut.
    let secret = world.secret(&run).await;
    let claimed = post(url, &path, &claim(&secret)).await;
    assert_eq!(claimed, (200, json!({ "claimed": 2 })));
    let path = format!("/OrchestraAttempt/{run}%2Fnote%231%2F1/open");
    let opened = post(url, &path, &json!({ "token": 2 }).to_string()).await;
    let noted = opened.1["notes"].as_array().unwrap().len();
    assert!(opened.0 == 200 && noted >= 3, "{opened:?}");
    // The first execution cannot note any more, and stops. The other one is dead, as after a claim that came late, so the
    // server lets the attempt begin again.
    world
        .until(&run, |status| {
            status.stages.iter().any(|(_, stage)| stage.token == 3)
        })
        .await;
    world.open();
    let result = world.client.wait(&run).await.unwrap();
    let notes = result.context.get("notes").and_then(Value::as_u64).unwrap();
    assert!(result.failure.is_none() && notes >= noted as u64, "{result:?}");
    let seen = world.stages.seen.lock().unwrap().clone();
    assert_eq!(seen, ["note#1/1 false", "note#1/1 true"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_is_too_large_fails_its_stage() {
    let Some(world) = World::start("a_value_that_is_too_large_fails_its_stage").await else {
        return;
    };
    let run = world.begin("giant").await;
    let failure = world
        .client
        .wait(&run)
        .await
        .unwrap()
        .failure
        .unwrap()
        .to_string();
    assert!(
        failure.contains("the value of `report` has 17 MiB, and at most 16 MiB are stored"),
        "{failure}"
    );
    assert_eq!(
        world.stages.begun.load(Ordering::Relaxed),
        1,
        "another attempt would not help"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_that_an_operator_killed_is_sent_again() {
    let Some(world) = World::start("a_stage_that_an_operator_killed_is_sent_again").await else {
        return;
    };
    let run = world.begin("waits").await;
    world.until_begun(1).await;
    let status = world.client.status(&run).await.unwrap();
    let invocation = status.stages[0].1.invocation.clone().unwrap();
    // A resume of a run that goes on changes nothing.
    world
        .client
        .resume(&run, Some(&world.fleet.admin()))
        .await
        .unwrap();
    let kill = format!("/invocations/{invocation}/kill");
    let address = world.fleet.server.admin_url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request =
        format!("PATCH {kill} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 2"), "{reply}");
    world
        .until(&run, |_| world.stages.begun.load(Ordering::Relaxed) == 1)
        .await;
    loop {
        world
            .client
            .resume(&run, Some(&world.fleet.admin()))
            .await
            .unwrap();
        if world.stages.begun.load(Ordering::Relaxed) == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.open();
    assert_eq!(world.client.wait(&run).await.unwrap().failure, None);
    let seen = world.stages.seen.lock().unwrap().clone();
    assert_eq!(seen, ["wait#1/1 false", "wait#1/1 true"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_paused_resumed_and_cancelled() {
    let Some(world) = World::start("a_run_is_paused_resumed_and_cancelled").await else {
        return;
    };
    let run = world.begin("waits").await;
    world.until_begun(1).await;
    world.client.pause(&run, "lunch").await.unwrap();
    let reason = "lunch".to_owned();
    let paused = world.until(&run, |status| status.stages.is_empty()).await;
    assert_eq!(paused.phase, Phase::Paused(RunFailure::Paused { reason }));
    assert_eq!(world.stages.stopped.load(Ordering::Relaxed), 1);
    world.client.resume(&run, None).await.unwrap();
    world.until_begun(2).await;
    world.client.cancel(&run, "a new version").await.unwrap();
    let result = world.client.wait(&run).await.unwrap();
    let reason = "a new version".to_owned();
    assert_eq!(result.failure, Some(RunFailure::Cancelled { reason }));
    assert_eq!(world.stages.stopped.load(Ordering::Relaxed), 2);
    let late = refused(world.client.resume(&run, None).await);
    assert_eq!((late.0, &*late.1), (409, "wrong_phase"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_stops_finishes_what_it_executes() {
    let Some(fleet) = Fleet::start("a_worker_that_stops_finishes_what_it_executes").await else {
        return;
    };
    let stages = Stages::default();
    let build = || {
        let engine = Engine::builder().build().unwrap();
        let (name, dot) = PIPELINES[3];
        fleet
            .worker()
            .pipeline(entry(name, dot, &stages), engine)
            .build()
            .unwrap()
    };
    let address = free_address();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let first = tokio::spawn(build().serve(Worker::listen(address).unwrap(), shutdown));
    fleet
        .admin()
        .register(&format!("http://{address}"))
        .await
        .unwrap();
    let client = fleet.client();
    let run = RunId::new("run").unwrap();
    client.start(&run, RemoteStart::of("waits")).await.unwrap();
    while stages.begun.load(Ordering::Relaxed) < 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.send(()).unwrap();
    let _second = tokio::spawn(build().serve(Worker::listen(address).unwrap(), std::future::pending()));
    // It waits for longer than connections have to close.
    let mut first = first;
    let ended = tokio::time::timeout(Duration::from_secs(4), &mut first).await;
    assert!(ended.is_err(), "it stops while a stage is in progress");
    stages.open.store(true, Ordering::Relaxed);
    first.await.unwrap();
    assert_eq!(client.wait(&run).await.unwrap().failure, None);
    let seen = stages.seen.lock().unwrap().clone();
    assert_eq!(seen, ["wait#1/1 false"], "nothing ran again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_the_server_does_not_reach_is_reported() {
    let test = "a_worker_that_the_server_does_not_reach_is_reported";
    let (Some(fleet), Some(other)) = (Fleet::start(test).await, Fleet::start(test).await) else {
        return;
    };
    let unreachable = |refused: (u16, String, String)| {
        assert_eq!(refused.1, "worker_unreachable", "{}", refused.2);
        refused.2
    };
    let nowhere = "http://127.0.0.1:1";
    for registered in [
        fleet.admin().register(nowhere).await,
        fleet.admin().register_by_force(nowhere).await,
    ] {
        let message = unreachable(refused(registered));
        let expected = "the server cannot reach a worker at `http://127.0.0.1:1`: error when calling";
        assert!(message.starts_with(expected), "{message}");
    }
    let worker = fleet.worker().build().unwrap();
    let address = free_address();
    let serving = fleet.serve_doomed(&worker, address).await;
    let url = format!("http://{address}");
    worker.check_reachable(&url).await.unwrap();
    serving.kill();
    // The first lost its worker, and the second never had it.
    let elsewhere = other.worker().build().unwrap();
    let (gone, foreign) = tokio::join!(worker.check_reachable(&url), elsewhere.check_reachable(&url));
    let reached = format!("did not reach the worker at `{url}` within 10 s: ");
    let gone = unreachable(refused(gone));
    assert!(gone.contains(&reached), "{gone}");
    let foreign = unreachable(refused(foreign));
    assert!(foreign.contains("the server does not know it"), "{foreign}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_may_be_away_for_any_time() {
    let Some(world) = World::start("workers_may_be_away_for_any_time").await else {
        return;
    };
    // After the last try, the server pauses an invocation until a person resumes it.
    for service in [
        "OrchestraRun",
        "OrchestraAttempt",
        "OrchestraStage",
        "OrchestraWorker",
    ] {
        let path = format!("/services/{service}");
        let (status, found) = get(world.fleet.server.admin_url(), &path).await;
        let policy = &found["retry_policy"];
        let years = policy["max_attempts"].as_u64().unwrap() / (365 * 24 * 3600);
        assert_eq!((status, policy["max_interval"].as_str()), (200, Some("1s")));
        assert!(years > 100, "{service}: {policy}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_events_of_a_long_run_are_kept_in_their_order() {
    let Some(world) = World::start("all_events_of_a_long_run_are_kept_in_their_order").await else {
        return;
    };
    let run = world.begin("long").await;
    assert_eq!(world.client.wait(&run).await.unwrap().failure, None);
    let events = world.client.events(&run, 0).await.unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    let all: Vec<u64> = (1..=world.client.status(&run).await.unwrap().events).collect();
    assert_eq!(numbers, all);
    let size: usize = events
        .iter()
        .map(|event| serde_json::to_vec(event).unwrap().len())
        .sum();
    assert!(size > 2 * 16 * 1024, "{size} bytes are more than one segment");
    let last = world.client.events(&run, all.len() as u64 - 3).await.unwrap();
    assert_eq!(last, events[all.len() - 3..]);
}
