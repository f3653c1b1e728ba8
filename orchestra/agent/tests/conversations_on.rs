//! Conversations on workers of a Restate server, which are killed at each turn.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orchestra_agent::{Agents, Message, ModelReply};
use orchestra_conformance::fleet::{Doomed, Fleet};
use orchestra_conformance::workers::free_address;
use orchestra_engine::{Answer, Entry, RunId};
use orchestra_restate::{Client, RemoteStart, Worker};
use serde_json::json;
use support::{Scripted, agents, calls, engine, pipeline, report};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const WORK: &str = "digraph { start -> work -> exit; work [prompt=\"Write five files.\"] }";
const CHAT: &str =
    "digraph { start -> talk -> exit; talk [prompt=\"Draft a note.\", agent.mode=interactive] }";
/// The number of tool calls of the agent.
const FILES: usize = 5;

fn worker(fleet: &Fleet, dot: &str, agents: &Agents, folder: &std::path::Path) -> Worker {
    let entry = Entry::loaded("flow", pipeline(dot).into(), Vec::new());
    let engine = engine(agents, folder).build().unwrap();
    fleet.worker().pipeline(entry, engine).build().unwrap()
}

async fn begin(client: &Client, id: impl Into<String>) -> RunId {
    let run = RunId::new(id).unwrap();
    client.start(&run, RemoteStart::of("flow")).await.unwrap();
    run
}

/// Returns a model that writes five files, and a channel of the numbers of its requests.
fn writer() -> (Scripted, UnboundedReceiver<usize>) {
    let (arrives, arrived) = unbounded_channel();
    let mut requests = 0;
    let model = Scripted::new(move |request| {
        requests += 1;
        let _ = arrives.send(requests);
        let written = request.messages.len() / 2;
        Ok(match written < FILES {
            true => calls(&[(
                "write_file",
                json!({ "path": format!("{written}.txt"), "content": format!("file {written}") }),
            )]),
            false => report(json!({ "status": "success", "notes": "All five are there." })),
        })
    });
    (model, arrived)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_killed_at_any_turn_repeats_no_noted_call() {
    let Some(fleet) = Fleet::start("a_worker_that_is_killed_at_any_turn_repeats_no_noted_call").await else {
        return;
    };
    let client = fleet.client();
    for turn in 1..=FILES + 1 {
        let folder = tempfile::tempdir().unwrap();
        let (model, mut arrived) = writer();
        let agents = agents("", &[], model.clone());
        let address = free_address();
        let first = fleet
            .serve_doomed(&worker(&fleet, WORK, &agents, folder.path()), address)
            .await;
        let run = begin(&client, format!("killed-{turn}")).await;
        while arrived.recv().await.unwrap() < turn {}
        first.kill();
        let _second = fleet
            .serve_doomed(&worker(&fleet, WORK, &agents, folder.path()), address)
            .await;
        let result = client.wait(&run).await.unwrap();
        assert_eq!(result.failure, None, "killed at turn {turn}");
        for file in 0..FILES {
            let text = std::fs::read_to_string(folder.path().join(format!("{file}.txt"))).unwrap();
            assert_eq!(text, format!("file {file}"));
        }
        let mut requests: BTreeMap<usize, usize> = BTreeMap::new();
        for request in model.asked() {
            *requests.entry(request.messages.len()).or_default() += 1;
        }
        assert_eq!(
            requests.len(),
            FILES + 1,
            "the conversation is whole: {requests:?}"
        );
        // The call in progress may be made again; those before it were noted, and those after it came later.
        for (at, (length, count)) in requests.iter().enumerate() {
            let most = if at + 1 == turn { 2 } else { 1 };
            assert!(
                *count <= most,
                "killed at turn {turn}: {count} requests with {length} messages"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_talks_with_a_model_across_workers() {
    let Some(fleet) = Fleet::start("a_person_talks_with_a_model_across_workers").await else {
        return;
    };
    let client = fleet.client();
    let folder = tempfile::tempdir().unwrap();
    let model = Scripted::new(|request| Ok(ModelReply::text(format!("Draft {}.", request.messages.len()))));
    let agents = agents("", &[], model.clone());
    let started: Arc<Mutex<Vec<Doomed>>> = Arc::default();
    let address = free_address();
    let deploy = async || {
        started.lock().unwrap().drain(..).for_each(Doomed::kill);
        let doomed = fleet
            .serve_doomed(&worker(&fleet, CHAT, &agents, folder.path()), address)
            .await;
        started.lock().unwrap().push(doomed);
    };
    deploy().await;
    let run = begin(&client, "chat").await;
    for says in ["Shorter.", "Bolder."] {
        open_question(&client, &run).await;
        client.answer(&run, "talk", Answer::choice(says)).await.unwrap();
        open_question(&client, &run).await;
        // Nobody executes the stage while the person thinks.
        deploy().await;
    }
    open_question(&client, &run).await;
    client
        .answer(&run, "talk", Answer::choice("/approve"))
        .await
        .unwrap();
    let result = client.wait(&run).await.unwrap();
    assert_eq!(result.failure, None);
    assert_eq!(result.context.text("last_response"), "Draft 5.");
    let asked = model.asked();
    assert_eq!(asked.len(), 3, "no answer of the model is paid for twice");
    assert_eq!(asked[2].messages.last(), Some(&Message::user("Bolder.")));
}

/// Waits until a question is open.
async fn open_question(client: &Client, run: &RunId) {
    for _ in 0..1000 {
        if !client.status(run).await.unwrap().questions.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", client.status(run).await);
}
