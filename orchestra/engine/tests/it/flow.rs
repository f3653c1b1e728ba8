//! Tests of what a run reports about its routing: reasons, ends and values (rules R1 to R10). Which way a run takes is compared
//! with the reference interpreter on random graphs (`tests/oracle`, `tests/conformance`).
use crate::support;

use orchestra_engine::{Outcome, RunFailure, RunResult, RunStatus};
use support::{Acts, acts, run};

fn path(result: &RunResult) -> String {
    result.path.join(" ")
}

#[tokio::test]
async fn a_failure_that_nothing_takes_fails_the_run_with_its_reason() {
    let result = run(acts("start -> a -> exit"), Acts::new().fails("a", "no compiler")).await;
    assert_eq!(result.status, RunStatus::Fail);
    let failure = result.failure.unwrap();
    assert_eq!(failure.to_string(), "stage `a` failed: no compiler");
    assert_eq!((failure.code(), failure.node()), ("stage_failed", Some("a")));
    assert_eq!(result.path, ["start", "a"]);
}

#[tokio::test]
async fn a_routing_node_is_transparent() {
    let graph = r#"start -> a -> gate
        gate [shape=diamond, type=conditional]
        gate -> b [label="Left"]
        gate -> c [label="Right"]
        b -> exit
        c -> exit"#;
    let acts_of = Acts::new()
        .gives("a", [Outcome::success().prefer("right")])
        .on("c", |stage| async move {
            let context = stage.context();
            assert_eq!(
                (context.text("last_stage"), context.text("current_node")),
                ("a".into(), "c".into())
            );
            assert_eq!(context.text("preferred_label"), "right");
            Outcome::success()
        });
    let result = run(acts(graph), acts_of).await;
    assert_eq!(path(&result), "start a gate c exit");
    assert!(result.outcomes.get("gate").is_none());
}

#[tokio::test]
async fn a_routing_node_with_no_match_after_a_failure_fails_with_the_stages_reason() {
    let graph = r#"start -> a -> gate
        gate [shape=diamond, type=conditional]
        gate -> exit [condition="outcome=success"]
        gate -> a [condition="context.again=yes"]"#;
    let result = run(acts(graph), Acts::new().fails("a", "no disk")).await;
    assert_eq!(result.failure.unwrap().to_string(), "stage `a` failed: no disk");
}

#[tokio::test]
async fn no_edge_to_take_after_a_success_tells_every_edge_and_what_it_saw() {
    let graph = r#"start -> a
        a -> exit [condition="context.color=green"]
        a -> b [condition="outcome=fail"]
        b -> exit"#;
    let result = run(
        acts(graph),
        Acts::new().gives("a", [Outcome::success().set("color", "red")]),
    )
    .await;
    let failure = result.failure.unwrap();
    assert_eq!(failure.code(), "no_matching_edge");
    assert_eq!(
        failure.to_string(),
        "no edge of `a` may be taken\n  -> exit: `context.color=green` is false, context.color is `red`\n  \
         -> b: `outcome=fail` is false, outcome is `success`"
    );
}

#[tokio::test]
async fn an_end_that_is_not_the_exit_fails_unless_it_says_otherwise() {
    let graph = r#"b [label=B]
        start -> a
        a -> exit [condition="outcome=fail"]
        a -> b"#;
    let dead = run(acts(graph), Acts::new()).await;
    assert!(matches!(&dead.failure, Some(RunFailure::DeadEnd { node }) if node == "b"));
    let meant = run(acts(&format!("{graph}\n b [end=success]")), Acts::new()).await;
    assert_eq!(
        (meant.status, path(&meant)),
        (RunStatus::Success, "start a b".to_owned())
    );
    let failed = run(acts(&format!("{graph}\n b [end=fail]")), Acts::new()).await;
    assert!(matches!(&failed.failure, Some(RunFailure::FailureEnd { node, .. }) if node == "b"));
}

#[tokio::test]
async fn a_failure_end_tells_which_stage_failed() {
    let graph = r#"start -> a
        a -> exit
        a -> report [condition="outcome=fail"]
        report [end=fail]"#;
    let result = run(acts(graph), Acts::new().fails("a", "no disk")).await;
    let reported = result.failure.unwrap().to_string();
    assert!(
        reported.contains("report") && reported.contains("`a` failed: no disk"),
        "{reported}"
    );
}

#[tokio::test]
async fn what_a_stage_sets_is_seen_by_those_after_it_and_not_by_those_before() {
    let seen = Acts::new()
        .on("a", |stage| async move {
            assert_eq!(stage.context().get("color"), None);
            Outcome::success().set("color", "red").set("n", 1)
        })
        .on("b", |stage| async move {
            assert_eq!(stage.context().text("color"), "red");
            Outcome::success().set(
                "n",
                stage.context().get("n").and_then(|n| n.as_u64()).unwrap() + 1,
            )
        });
    let result = run(
        acts("graph [goal=\"Ship\", owner=me]\nstart -> a -> b -> exit"),
        seen,
    )
    .await;
    assert!(result.is_success(), "{:?}", result.failure);
    let context = &result.context;
    assert_eq!(
        (context.get("n"), context.text("color")),
        (Some(&2.into()), "red".to_owned())
    );
    assert_eq!(context.text("graph.goal"), "Ship");
    assert_eq!(context.text("graph.owner"), "me");
    assert_eq!(context.text("outcome"), "success");
    assert_eq!(context.text("last_stage"), "exit");
}

#[tokio::test]
async fn a_word_of_its_own_counts_as_a_success_and_can_be_waited_for() {
    let graph = r#"start -> a
        a [outcomes="approved,rejected"]
        a -> exit [condition="outcome=approved"]
        a -> b [condition="outcome=rejected"]
        b -> exit"#;
    let result = run(acts(graph), Acts::new().gives("a", [Outcome::custom("rejected")])).await;
    assert_eq!(path(&result), "start a b exit");
}
