//! Attractor 11.4: goal gates.

use orchestra::engine::RunFailure;
use orchestra::prelude::*;
use orchestra_attractor_tests::{Model, Ran, run};

/// A gate whose failure is looked at long after, and a way past it.
const LATE: &str = r#"digraph { start -> build
    build  [goal_gate=true]
    build  -> report [condition="outcome=fail"]
    build  -> notes
    report -> notes -> check
    check  -> build [condition="outcome=again"]
    check  -> exit }"#;

#[tokio::test]
async fn gates_are_tracked_throughout_the_run() {
    let failed = run(LATE, &Model::new().fails("build", "no compiler")).await;
    assert_eq!(failed.path(), "start build report notes check");
    assert_eq!(
        failed.failure_code(),
        "goal_gate",
        "stages later, the gate is still known"
    );

    let again = [Outcome::custom("again"), Outcome::success()];
    let model = Model::new().gives("build", [Outcome::fail("no compiler"), Outcome::success()]);
    let mended = run(LATE, &model.gives("check", again.clone())).await;
    mended.succeeds_by("start build report notes check build notes check exit");

    // Rule R7: the latest outcome counts, for better and for worse.
    let model = Model::new().gives("build", [Outcome::success(), Outcome::fail("no compiler")]);
    let broken = run(LATE, &model.gives("check", again)).await;
    assert_eq!(broken.path(), "start build notes check build report notes check");
    assert_eq!(broken.failure_code(), "goal_gate");

    // Rule R7: a gate that was never visited bars nothing.
    let bypass = LATE.replace("start -> build", "start -> notes");
    let bypass = bypass.replace("outcome=again", "outcome=never");
    run(&bypass, &Model::new())
        .await
        .succeeds_by("start notes check exit");
}

#[tokio::test]
async fn the_exit_opens_only_when_every_gate_succeeded() {
    let text = r#"digraph { start -> build -> test -> exit
        build [goal_gate=true, on_failure=route]; test [goal_gate=true, on_failure=route] }"#;
    // Rule R7: SUCCESS, PARTIAL_SUCCESS and words of a handler's own satisfy.
    let outcomes = [
        (Outcome::success(), true),
        (Outcome::new(Status::PartialSuccess), true),
        (Outcome::custom("shipped"), true),
        (Outcome::retry("not yet"), false),
        (Outcome::fail("red"), false),
        (Outcome::fail_terminal("no key"), false),
    ];
    for (build, first) in &outcomes {
        for (test, second) in &outcomes {
            let model = Model::new()
                .gives("build", [build.clone()])
                .gives("test", [test.clone()]);
            let ran = run(text, &model).await;
            let case = format!("{} {}: {}", build.status, test.status, ran.failure());
            assert_eq!(ran.result.is_success(), *first && *second, "{case}");
            let unsatisfied = ran.result.failure.as_ref().and_then(RunFailure::node);
            let expected = [(*first, "build"), (*second, "test")]
                .into_iter()
                .find(|(opens, _)| !opens);
            assert_eq!(unsatisfied, expected.map(|(_, gate)| gate), "{case}");
            assert_eq!(ran.result.path.contains("exit"), *first && *second, "{case}");
        }
    }
}

/// A gate that fails once, with these targets on the node and on the graph.
async fn sent_back(node: &str, graph: &str) -> Ran {
    let text = format!(
        r#"digraph {{ graph [{graph}]
        start -> test -> exit
        test [goal_gate=true, on_failure=route, {node}]
        start -> one   [condition="context.never=true"]; one   -> test
        start -> two   [condition="context.never=true"]; two   -> test
        start -> three [condition="context.never=true"]; three -> test
        start -> four  [condition="context.never=true"]; four  -> test }}"#
    );
    run(
        &text,
        &Model::new().gives("test", [Outcome::fail("red"), Outcome::success()]),
    )
    .await
}

#[tokio::test]
async fn an_unsatisfied_gate_sends_the_run_to_its_retry_target_instead_of_the_exit() {
    // Rule R7: the targets of the node come before those of the graph.
    let node = "retry_target=one, fallback_retry_target=two";
    let graph = "retry_target=three, fallback_retry_target=four";
    let cases = [
        (node, graph, "one"),
        ("fallback_retry_target=two", graph, "two"),
        ("label=Test", graph, "three"),
        ("label=Test", "fallback_retry_target=four", "four"),
    ];
    for (node, graph, target) in cases {
        let ran = sent_back(node, graph).await;
        ran.succeeds_by(&format!("start test {target} test exit"));
        assert_eq!(
            ran.reported()
                .iter()
                .filter(|line| line.starts_with("GoalGate"))
                .count(),
            1
        );
        assert!(
            ran.reported()
                .contains(&format!("GoalGateUnsatisfied test: to {target}"))
        );
    }
}

#[tokio::test]
async fn without_a_retry_target_the_run_fails() {
    let ran = sent_back("label=Test", "label=Graph").await;
    assert_eq!(ran.result.status, RunStatus::Fail);
    assert_eq!(ran.path(), "start test");
    assert_eq!(
        ran.failure(),
        "the goal gate `test` is unsatisfied, its outcome is `fail`: red; name a `retry_target` on it or on the graph, \
         where the run continues to repair the work"
    );
}
