//! Runs the pipeline with a scripted writer. Planner, verifier and the failing end are those of the program.
//!
//! The first four tests are those of the specification of the retry loop (T-100, tests 1 to 4).

use orchestra::testkit::{Simulation, SimulationRun};

use super::retry_loop::{self, Node, nodes};
use super::*;

/// Returns a draft that mentions these changes.
fn draft(features: &[String], fixes: &[String]) -> String {
    section("Features", features) + &section("Fixes", fixes)
}

fn changes(kind: &str) -> Vec<String> {
    let lines = Notes::default().changes.lines();
    let changes = lines.filter_map(|line| line.strip_prefix(kind));
    changes.map(|change| change.trim().to_owned()).collect()
}

/// No change is missing, and no line is too long.
fn good() -> Outcome {
    let draft = draft(&changes("feat:"), &changes("fix:"));
    Outcome::success().set("draft", wrapped(&draft, nodes::Verifier::MAX_WIDTH))
}

/// The tests fail, the lint passes.
fn incomplete() -> Outcome {
    Outcome::success().set("draft", draft(&changes("feat:")[..1], &[]))
}

/// The tests pass, the lint fails.
fn too_wide() -> Outcome {
    Outcome::success().set("draft", draft(&changes("feat:"), &changes("fix:")))
}

fn written(drafts: impl IntoIterator<Item = Outcome>) -> SimulationRun<Node> {
    let simulation: Simulation<Node> = retry_loop::simulate().handlers(Notes::default());
    simulation.outcome(Node::Executor, drafts).run()
}

fn tries(run: &SimulationRun<Node>) -> usize {
    run.path()
        .iter()
        .filter(|node| *node == Node::Verifier.id())
        .count()
}

#[test]
fn t100_test_1_success_on_first_try() {
    let run = written([good()]);
    run.assert_success().assert_path([
        Node::Start,
        Node::Planner,
        Node::Executor,
        Node::Verifier,
        Node::Exit,
    ]);
    assert_eq!(tries(&run), 1);
    assert!(run.error_history().is_empty());
    assert!(run.result().failed_at.is_none());
}

#[test]
fn t100_test_2_retry_once_then_succeed() {
    let run = written([incomplete(), good()]);
    run.assert_success();
    assert_eq!(run.taken(Node::Verifier, Node::Executor), 1);
    assert_eq!(tries(&run), 2);
    assert_eq!(run.error_history().len(), 1);
    assert_eq!(list(run.context(), "error_history").len(), 1);
}

#[test]
fn t100_test_3_exhaust_retries() {
    let run = written([incomplete()]);
    run.assert_failure("failure_end").assert_path([
        Node::Start,
        Node::Planner,
        Node::Executor,
        Node::Verifier,
        Node::Executor,
        Node::Verifier,
        Node::Executor,
        Node::Verifier,
        Node::Failed,
    ]);
    assert_eq!(tries(&run), 3);
    assert_eq!(run.context().text("phase"), "failed");
    assert_eq!(run.error_history().len(), 3);
    assert_eq!(list(run.context(), "error_history").len(), 3);
    let failed_at = run.result().failed_at.map(|time| time.to_string());
    assert_eq!(failed_at, Some(run.context().text("failed_at")));
}

#[test]
fn t100_test_4_partial_failure_still_retries() {
    let run = written([incomplete(), good()]);
    let first = &run.error_history()[0].reason;
    assert!(first.starts_with("tests: ") && !first.contains("lint"), "{first}");
    assert_eq!(run.taken(Node::Verifier, Node::Executor), 1);

    let run = written([too_wide(), good()]);
    let first = &run.error_history()[0].reason;
    assert!(first.starts_with("lint: ") && !first.contains("tests"), "{first}");
    assert_eq!(run.taken(Node::Verifier, Node::Executor), 1);
}

#[test]
fn the_verifier_keeps_what_passed_for_those_who_come_after_it() {
    let passed = |run: SimulationRun<Node>| {
        let context = run.context();
        [context.text("tests_passed"), context.text("lint_passed")]
    };
    assert_eq!(passed(written([good()])), ["true", "true"]);
    assert_eq!(passed(written([incomplete()])), ["false", "true"]);
    assert_eq!(passed(written([too_wide()])), ["true", "false"]);
}

#[tokio::test]
async fn an_author_who_listens_is_done_at_the_third_try_and_one_who_does_not_never() {
    for (listens, last) in [(true, "exit"), (false, "failed")] {
        let engine = Engine::builder().backend(Author { listens }).build().unwrap();
        let run = engine
            .start(&retry_loop::PIPELINE, Notes::default())
            .await
            .unwrap();
        let result = run.wait().await.unwrap();
        assert_eq!(result.path.last(), Some(last), "{:?}", result.error_history);
        assert_eq!(result.path.iter().filter(|node| *node == "verifier").count(), 3);
    }
}
