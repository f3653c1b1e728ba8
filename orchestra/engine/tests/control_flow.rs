//! The tables of the control-flow plan: a test for each row of retries, goal gates and failure routing, through the
//! engine. The rows on conditions and on edge selection are tests of `tests/oracle` (`conditions.rs`, `route.rs`).
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use orchestra_engine::{EventKind, Outcome, RunFailure, RunResult, RunStatus, Status};
use support::{Acts, acts, listening, run};

fn path(result: &RunResult) -> String {
    result.path.join(" ")
}

/// The stage `work` gives these outcomes, attempt by attempt; the last again and again.
fn attempts<const N: usize>(outcomes: [Outcome; N]) -> Acts {
    Acts::new().on("work", move |stage| {
        let at = (stage.attempt() as usize - 1).min(N - 1);
        std::future::ready(outcomes[at].clone())
    })
}

/// Runs a graph with `work`; gives the result, and how often `work` was tried.
async fn tried(graph: &str, acts_of: Acts) -> (RunResult, usize) {
    let (engine, heard) = listening();
    let run = engine.start_loaded(acts(graph), acts_of).await.unwrap();
    let result = run.wait().await.unwrap();
    let heard = heard.lock().unwrap();
    let begins = heard
        .iter()
        .filter(|event| matches!(&event.kind, EventKind::StageStarted { node, .. } if *node == *"work"));
    (result, begins.count())
}

/// Delays of a millisecond and less.
const QUICK: &str = "retry_initial_delay=1ms, retry_max_delay=1ms";

fn busy() -> Outcome {
    Outcome::fail("busy")
}

// Retry tests.

/// Row "Retry on FAIL": a node with `max_retries=2` is retried twice after the initial failure.
#[tokio::test]
async fn retry_on_fail() {
    let graph = format!("start -> work -> exit; work [max_retries=2, {QUICK}]");
    let (result, begun) = tried(&graph, attempts([busy(), busy(), Outcome::success()])).await;
    assert_eq!((result.status, begun), (RunStatus::Success, 3));
}

/// Row "Retry on RETRY status": a node returning RETRY triggers a retry.
#[tokio::test]
async fn retry_on_retry_status() {
    let graph = format!("start -> work -> exit; work [max_retries=1, {QUICK}]");
    let (result, begun) = tried(&graph, attempts([Outcome::retry("not yet"), Outcome::success()])).await;
    assert_eq!((result.status, begun), (RunStatus::Success, 2));
}

/// Row "Retry exhaustion": after all retries the final outcome is used for routing.
#[tokio::test]
async fn retry_exhaustion() {
    let graph = format!(
        r#"start -> work; work [max_retries=1, {QUICK}]; work -> mend [condition="outcome=fail"]; work -> exit
           mend -> exit"#
    );
    for outcome in [busy(), Outcome::retry("busy")] {
        let (result, begun) = tried(&graph, attempts([outcome])).await;
        assert_eq!((path(&result).as_str(), begun), ("start work mend exit", 2));
        let reasons: Vec<&str> = result
            .error_history
            .iter()
            .map(|error| error.reason.as_str())
            .collect();
        assert_eq!(reasons, ["busy", "busy"]);
    }
}

/// Row "Backoff delays": the standard policy waits 200, 400, 800 ms, each within its jitter; the delays are announced, and
/// the timestamps of the events of a real run show that they were waited.
#[tokio::test]
async fn backoff_delays() {
    let (engine, heard) = listening();
    let graph = acts("start -> work -> exit; work [retry_policy=standard]");
    let outcomes = [busy(), busy(), busy(), Outcome::success()];
    let began = Instant::now();
    let run = engine
        .start_loaded(graph, attempts(outcomes))
        .seed(11)
        .await
        .unwrap();
    let result = run.wait().await.unwrap();
    assert_eq!(result.status, RunStatus::Success);
    let heard = heard.lock().unwrap();
    let (mut announced, mut waited) = (Vec::new(), Vec::new());
    for event in heard.iter() {
        match &event.kind {
            EventKind::StageRetrying { delay, attempt, .. } => announced.push((*attempt, *delay, event.time)),
            EventKind::StageStarted { node, .. } if *node == *"work" => {
                if let Some((_, _, since)) = announced.last() {
                    waited.push(event.time.as_millis() - since.as_millis());
                }
            }
            _ => {}
        }
    }
    assert_eq!(
        announced.iter().map(|(attempt, ..)| *attempt).collect::<Vec<_>>(),
        [2, 3, 4]
    );
    for (nth, base) in [200u64, 400, 800].into_iter().enumerate() {
        let delay = announced[nth].1.as_millis() as u64;
        assert!(
            (base / 2..=base * 3 / 2).contains(&delay),
            "{delay} ms for {base} ms"
        );
        // A timer may ring late, above all on a busy machine; it never rings early.
        let late = waited[nth] as i64 - delay as i64;
        assert!(
            (-2..2_000).contains(&late),
            "{} ms instead of {delay} ms",
            waited[nth]
        );
    }
    let all: Duration = announced.iter().map(|(_, delay, _)| *delay).sum();
    assert!(began.elapsed() >= all);
}

/// Row "allow_partial": a node with `allow_partial=true` returns PARTIAL_SUCCESS when its retries are exhausted.
#[tokio::test]
async fn allow_partial() {
    let graph = format!("start -> work -> exit; work [max_retries=1, allow_partial=true, {QUICK}]");
    let (result, begun) = tried(&graph, attempts([Outcome::retry("half of it")])).await;
    assert_eq!((result.status, begun), (RunStatus::Success, 2));
    let word = result.outcomes.iter().find(|(node, _)| *node == "work").unwrap();
    assert_eq!(word.1.status, Status::PartialSuccess);
}

/// Row "No retry on SUCCESS": a successful node is not retried.
#[tokio::test]
async fn no_retry_on_success() {
    let graph = format!("start -> work -> exit; work [max_retries=5, {QUICK}]");
    let (result, begun) = tried(&graph, attempts([Outcome::success(), busy()])).await;
    assert_eq!(
        (result.status, begun, result.error_history.len()),
        (RunStatus::Success, 1, 0)
    );
}

// Goal gate tests.

/// A gate whose failure an edge takes, so that the run comes to the exit.
fn gated(graph: &str, gate: &str) -> orchestra_graph::Pipeline {
    acts(&format!(
        r#"{graph}; start -> plan -> work; work [goal_gate=true, {gate}]; work -> exit
           work -> note [condition="outcome=fail"]; note -> exit"#
    ))
}

/// Row "Gate satisfied": all goal gates succeeded, and the pipeline exits normally.
#[tokio::test]
async fn gate_satisfied() {
    let result = run(gated("", "retry_target=plan"), Acts::new()).await;
    assert_eq!(
        (result.status, path(&result).as_str()),
        (RunStatus::Success, "start plan work exit")
    );
}

/// Row "Gate unsatisfied with retry_target": the engine reroutes to it instead of exiting.
#[tokio::test]
async fn gate_unsatisfied_with_retry_target() {
    let acts = Acts::new().gives("work", [busy(), Outcome::success()]);
    let result = run(gated("retry_target=note", "retry_target=plan"), acts).await;
    assert_eq!(
        (result.status, path(&result).as_str()),
        (RunStatus::Success, "start plan work note plan work exit")
    );
}

/// Row "Gate unsatisfied with graph retry_target": without one of the node's own the graph's is used.
#[tokio::test]
async fn gate_unsatisfied_with_graph_retry_target() {
    let acts = Acts::new().gives("work", [busy(), Outcome::success()]);
    let result = run(gated("retry_target=plan", ""), acts).await;
    assert_eq!(
        (result.status, path(&result).as_str()),
        (RunStatus::Success, "start plan work note plan work exit")
    );
}

/// Row "Gate unsatisfied no target": the pipeline fails with a clear error.
#[tokio::test]
async fn gate_unsatisfied_no_target() {
    let result = run(gated("", ""), Acts::new().fails("work", "untested")).await;
    assert_eq!(
        (result.status, path(&result).as_str()),
        (RunStatus::Fail, "start plan work note")
    );
    let failure = result.failure.unwrap();
    assert!(
        matches!(&failure, RunFailure::GoalGate { node, .. } if node == "work"),
        "{failure:?}"
    );
    let told = failure.to_string();
    assert!(
        told.contains("goal gate `work`") && told.contains("untested"),
        "{told}"
    );
}

/// Row "Partial success satisfies gate".
#[tokio::test]
async fn partial_success_satisfies_gate() {
    let acts = Acts::new().gives("work", [Outcome::new(Status::PartialSuccess)]);
    let result = run(gated("", "retry_target=plan"), acts).await;
    assert_eq!(
        (result.status, path(&result).as_str()),
        (RunStatus::Success, "start plan work exit")
    );
}

// Failure routing tests.

/// Row "Fail edge": a node that fails follows the `condition="outcome=fail"` edge, before any target.
#[tokio::test]
async fn fail_edge() {
    let graph = r#"start -> work; work [retry_target=other]; work -> exit; work -> mend [condition="outcome=fail"]
        mend -> exit; other -> exit"#;
    let result = run(acts(graph), Acts::new().fails("work", "broken")).await;
    assert_eq!(path(&result), "start work mend exit");
}

/// Row "Retry target": without a fail edge the run jumps to the node's `retry_target`.
#[tokio::test]
async fn retry_target() {
    let graph = "start -> work -> exit; work [retry_target=mend, fallback_retry_target=other]; mend -> exit; other -> exit";
    let result = run(acts(graph), Acts::new().fails("work", "broken")).await;
    assert_eq!(path(&result), "start work mend exit");
}

/// Row "Fallback retry target": without a `retry_target` the run jumps to the fallback.
#[tokio::test]
async fn fallback_retry_target() {
    let graph = "start -> work -> exit; work [fallback_retry_target=other]; other -> exit";
    let result = run(acts(graph), Acts::new().fails("work", "broken")).await;
    assert_eq!(path(&result), "start work other exit");
}

/// Row "Pipeline termination": without a failure route the pipeline ends with an error.
#[tokio::test]
async fn pipeline_termination() {
    let result = run(acts("start -> work -> exit"), Acts::new().fails("work", "broken")).await;
    assert_eq!(
        (result.status, path(&result).as_str()),
        (RunStatus::Fail, "start work")
    );
    let expected = RunFailure::StageFailed {
        node: "work".to_owned(),
        reason: "broken".to_owned(),
    };
    assert_eq!(result.failure, Some(expected));
    assert!(result.failed_at.is_some());
}
