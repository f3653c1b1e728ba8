//! Tests of the events about the model usage and the tool calls of stages.
use crate::support;

use std::time::Duration;

use orchestra_engine::{
    BackendError, CodergenBackend, CodergenReply, CodergenRequest, Engine, EventKind, Outcome, RunEvent,
    SimulationBackend, Usage,
};
use orchestra_graph::Pipeline;
use support::{Acts, acts, pipeline};

const CALL: Usage = Usage {
    input_tokens: 900,
    output_tokens: 100,
    cost_micros: 12_500,
};

/// Returns the events of a run.
async fn heard(engine: &Engine, pipeline: Pipeline, acts: Acts) -> Vec<RunEvent> {
    let run = engine.start(pipeline, acts).await.unwrap();
    let mut events = run.events();
    run.wait().await.unwrap();
    let mut heard = Vec::new();
    while let Some(event) = events.recv().await {
        heard.push((*event).clone());
    }
    heard
}

/// Returns the usage of each attempt, as `node/attempt`, in the order of their ends.
fn usages(events: &[RunEvent]) -> Vec<(String, Option<Usage>)> {
    let ended = events.iter().filter_map(|event| match &event.kind {
        EventKind::StageCompleted { stage, usage, .. } | EventKind::StageFailed { stage, usage, .. } => {
            let name = format!("{}/{}", stage.node, stage.attempt);
            Some((name, usage.as_deref().copied()))
        }
        _ => None,
    });
    ended.collect()
}

#[tokio::test]
async fn each_attempt_tells_what_it_used_however_it_ends() {
    let handlers = Acts::new().on("a", |stage| async move {
        stage.record_usage(CALL);
        stage.record_usage(CALL);
        stage.record_usage(Usage::default());
        match stage.attempt() {
            1 => Outcome::fail("not yet"),
            2 => panic!("nor now"),
            3 => std::future::pending().await,
            _ => Outcome::success(),
        }
    });
    let graph = acts("start -> a -> b -> exit; a [max_retries=3, retry_policy=none, timeout=50ms]");
    let events = heard(&support::engine(), graph, handlers).await;
    let twice = Some(CALL + CALL);
    assert_eq!(
        usages(&events),
        [
            ("start/1", None),
            ("a/1", twice),
            ("a/2", twice),
            ("a/3", twice),
            ("a/4", twice),
            ("b/1", None),
            ("exit/1", None)
        ]
        .map(|(attempt, usage)| (attempt.to_owned(), usage))
    );
}

#[tokio::test]
async fn branches_that_run_one_node_keep_their_usage_apart() {
    let graph = acts(
        "start -> fan; fan [shape=component, type=parallel]
         join [shape=tripleoctagon, type=\"parallel.fan_in\"]
         fan -> left -> both -> join; fan -> right -> both; join -> exit",
    );
    let counts = |tokens| Usage {
        input_tokens: tokens,
        ..Usage::default()
    };
    let handlers = Acts::new().on("both", move |stage| async move {
        for _ in 0..10 {
            stage.record_usage(counts(if stage.branch().unwrap().ends_with("left") {
                1
            } else {
                100
            }));
            tokio::task::yield_now().await;
        }
        Outcome::success()
    });
    let events = heard(&support::engine(), graph, handlers).await;
    let mut both: Vec<u64> = usages(&events)
        .into_iter()
        .filter(|(attempt, _)| attempt == "both/1")
        .map(|(_, usage)| usage.unwrap().input_tokens)
        .collect();
    both.sort_unstable();
    assert_eq!(both, [10, 1_000]);
}

/// A backend that reports its usage, and fails if the prompt says so.
struct Meter;

impl CodergenBackend for Meter {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        match request.prompt.split_whitespace().next().unwrap() {
            "text" => Ok(CodergenReply::from("done").used(CALL)),
            "outcome" => Ok(CodergenReply::from(Outcome::fail("cannot")).used(CALL)),
            "error" => {
                request.stage.record_usage(CALL);
                Err(BackendError::retryable("the stream was cut"))
            }
            _ => Ok("done".into()),
        }
    }
}

#[tokio::test]
async fn model_stages_tell_what_their_backend_reports() {
    let graph = |prompt: &str| {
        pipeline(&format!(
            "digraph {{ start -> write -> exit; write [prompt=\"{prompt}\"] }}"
        ))
    };
    let engine = Engine::builder().backend(Meter).build().unwrap();
    for (prompt, expected) in [
        ("text", Some(CALL)),
        ("outcome", Some(CALL)),
        ("error", Some(CALL)),
        ("nothing", None),
    ] {
        let events = heard(&engine, graph(prompt), Acts::new()).await;
        assert_eq!(usages(&events)[1], ("write/1".to_owned(), expected), "{prompt}");
    }
    let simulated = Engine::builder().backend(SimulationBackend).build().unwrap();
    let events = heard(&simulated, graph("text"), Acts::new()).await;
    assert_eq!(usages(&events)[1], ("write/1".to_owned(), None));
}

#[tokio::test]
async fn a_fan_in_that_asks_the_model_tells_what_it_used() {
    let graph = acts(
        "start -> fan; fan [shape=component, type=parallel]
         join [shape=tripleoctagon, type=\"parallel.fan_in\", prompt=text]
         fan -> a -> join; fan -> b -> join; join -> exit",
    );
    let engine = Engine::builder().backend(Meter).build().unwrap();
    let events = heard(&engine, graph, Acts::new()).await;
    let join = usages(&events)
        .into_iter()
        .find(|(attempt, _)| attempt == "join/1");
    assert_eq!(join.unwrap().1, Some(CALL));
}

/// Returns the tool calls of a run: node, tool, and error.
fn calls(events: &[RunEvent]) -> Vec<(String, String, Option<String>)> {
    let calls = events.iter().filter_map(|event| match &event.kind {
        EventKind::ToolCallCompleted {
            node, tool, error, ..
        } => Some((node.to_string(), tool.clone(), error.clone())),
        _ => None,
    });
    calls.collect()
}

#[tokio::test]
async fn handlers_tell_of_the_tools_that_they_call() {
    let handlers = Acts::new().on("a", |stage| async move {
        stage.record_tool_call("search", Some("call_1"), Duration::from_millis(1_500), None);
        stage.record_tool_call("fetch", None, Duration::ZERO, Some("no such page"));
        Outcome::success()
    });
    let events = heard(&support::engine(), acts("start -> a -> exit"), handlers).await;
    let call = |tool: &str, error: Option<&str>| ("a".to_owned(), tool.to_owned(), error.map(str::to_owned));
    assert_eq!(
        calls(&events),
        [call("search", None), call("fetch", Some("no such page"))]
    );
    let reported = events
        .iter()
        .find(|event| event.kind.name() == "ToolCallCompleted")
        .unwrap();
    assert_eq!(serde_json::to_value(reported).unwrap()["duration_ms"], 1_500.0);
}

#[cfg(unix)]
#[tokio::test]
async fn a_tool_stage_tells_of_its_command() {
    let graph = pipeline(
        "digraph { start -> good -> bad -> slow -> exit [on_failure=route]; graph [on_failure=route]
         node [shape=parallelogram]; good [tool_command=\"true\"]; bad [tool_command=\"echo no >&2; exit 3\"]
         slow [tool_command=\"sleep 60\", timeout=50ms] start [shape=Mdiamond]; exit [shape=Msquare] }",
    );
    let events = heard(&support::engine(), graph, Acts::new()).await;
    let call =
        |node: &str, error: Option<&str>| (node.to_owned(), "shell".to_owned(), error.map(str::to_owned));
    assert_eq!(
        calls(&events),
        [
            call("good", None),
            call("bad", Some("exit code 3: no")),
            call("slow", Some("timed out after 50ms"))
        ]
    );
}
