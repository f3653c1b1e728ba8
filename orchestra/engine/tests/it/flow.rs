//! Tests of routing: conditions, failures, routing nodes, ends and limits (rules R1 to R10).
use crate::support;

use orchestra_engine::{Outcome, RunFailure, RunResult, RunStatus, Status};
use support::{Acts, acts, run};

fn path(result: &RunResult) -> String {
    result.path.join(" ")
}

#[tokio::test]
async fn a_line_of_stages_runs_in_order() {
    let result = run(acts("start -> a -> b -> exit"), Acts::new()).await;
    assert_eq!(result.path, ["start", "a", "b", "exit"]);
    assert_eq!((result.status, result.failure), (RunStatus::Success, None));
    let outcomes: Vec<_> = result.outcomes.iter().map(|(node, _)| node).collect();
    assert_eq!(outcomes, ["start", "exit", "a", "b"]);
}

#[tokio::test]
async fn a_condition_that_holds_is_followed_before_anything_else() {
    let graph = r#"start -> a
        a -> good [condition="outcome=success && context.ready=true"]
        a -> bad [weight=9]
        good -> exit
        bad -> exit"#;
    let ready = Acts::new().gives("a", [Outcome::success().set("ready", true)]);
    assert_eq!(path(&run(acts(graph), ready).await), "start a good exit");
    assert_eq!(path(&run(acts(graph), Acts::new()).await), "start a bad exit");
}

#[tokio::test]
async fn a_preferred_label_a_suggestion_and_a_weight_choose_among_plain_edges() {
    let graph = r#"start -> a
        a -> b [label="[F] Fix it"]
        a -> c [weight=5]
        a -> d
        b -> exit
        c -> exit
        d -> exit"#;
    let give = |outcome| Acts::new().gives("a", [outcome]);
    let prefer = run(acts(graph), give(Outcome::success().prefer("fix it"))).await;
    assert_eq!(path(&prefer), "start a b exit");
    let suggest = run(
        acts(graph),
        give(Outcome::success().suggest("nowhere").suggest("d")),
    )
    .await;
    assert_eq!(path(&suggest), "start a d exit");
    let weight = run(acts(graph), give(Outcome::success().prefer("other"))).await;
    assert_eq!(path(&weight), "start a c exit");
}

#[tokio::test]
async fn a_failure_follows_a_matching_condition() {
    let graph = r#"start -> a
        a -> exit
        a -> mend [condition="outcome=fail"]
        mend -> exit"#;
    let result = run(acts(graph), Acts::new().fails("a", "broken")).await;
    assert_eq!(path(&result), "start a mend exit");
    assert_eq!(
        result.outcomes.get("a").map(|outcome| &outcome.status),
        Some(&Status::Fail)
    );
}

#[tokio::test]
async fn a_failure_goes_to_a_routing_node_which_decides() {
    let graph = r#"start -> a -> gate
        gate [shape=diamond, type=conditional]
        gate -> exit [condition="outcome=success"]
        gate -> mend [condition="outcome=fail && failure_reason=broken"]
        mend -> exit"#;
    let result = run(acts(graph), Acts::new().fails("a", "broken")).await;
    assert_eq!(path(&result), "start a gate mend exit");
    assert_eq!(path(&run(acts(graph), Acts::new()).await), "start a gate exit");
}

#[tokio::test]
async fn a_failure_goes_to_the_retry_target_and_else_to_its_fallback() {
    let graph = r#"start -> a -> exit
        a [retry_target=mend]
        mend -> exit
        start -> mend [condition="context.never=set"]"#;
    let result = run(acts(graph), Acts::new().fails("a", "broken")).await;
    assert_eq!(path(&result), "start a mend exit");
    let fallback = graph.replace("retry_target", "fallback_retry_target");
    let result = run(acts(&fallback), Acts::new().fails("a", "broken")).await;
    assert_eq!(path(&result), "start a mend exit");
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
async fn on_failure_route_follows_plain_edges() {
    let result = run(
        acts("start -> a -> exit\n a [on_failure=route]"),
        Acts::new().fails("a", "broken"),
    )
    .await;
    assert_eq!(path(&result), "start a exit");
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

const LOOP: &str = r#"start -> a
        a -> exit [condition="context.done=true"]
        a -> a"#;

#[tokio::test]
async fn visits_are_bounded_by_the_node_and_by_the_graph() {
    let node = run(acts(&format!("{LOOP}\n a [max_visits=3]")), Acts::new()).await;
    let failure = node.failure.unwrap();
    assert!(
        failure.to_string().starts_with("exceeded max_visits: node `a`"),
        "{failure}"
    );
    assert!(
        matches!(failure, RunFailure::MaxVisits { limit: 3, ref attribute, .. } if attribute == "max_visits")
    );
    assert_eq!(node.path, ["start", "a", "a", "a"]);
    let graph = run(acts(&format!("graph [max_node_visits=5]\n{LOOP}")), Acts::new()).await;
    assert!(
        matches!(graph.failure, Some(RunFailure::MaxVisits { limit: 5, ref attribute, .. })
        if attribute == "max_node_visits")
    );
    let default = run(acts(LOOP), Acts::new()).await;
    assert_eq!(default.path.len(), 1_001);
}

#[tokio::test]
async fn the_same_failure_again_and_again_trips_the_breaker() {
    let unasked = "start -> a\n a -> exit\n a -> a [condition=\"outcome=fail\"]";
    let graph = &format!("graph [failure_breaker=3]\n{unasked}");
    let result = run(acts(graph), Acts::new().fails("a", "no disk")).await;
    assert!(matches!(
        &result.failure,
        Some(RunFailure::FailureBreaker { count: 3, .. })
    ));
    let varied = ["one", "two", "one", "two", "one"].map(Outcome::fail).into_iter();
    let varied = varied.chain([Outcome::success()]);
    assert!(
        run(acts(graph), Acts::new().gives("a", varied))
            .await
            .is_success()
    );
    let six = std::iter::repeat_n(Outcome::fail("same"), 6).chain([Outcome::success()]);
    assert!(run(acts(unasked), Acts::new().gives("a", six)).await.is_success());
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

#[tokio::test]
async fn a_wish_for_a_retry_with_none_left_is_a_failure_or_a_partial_success() {
    let graph = "start -> a -> exit";
    let wish = || Acts::new().gives("a", [Outcome::retry("busy")]);
    let result = run(acts(graph), wish()).await;
    assert_eq!(result.failure.unwrap().to_string(), "stage `a` failed: busy");
    let result = run(acts(&format!("{graph}\n a [allow_partial=true]")), wish()).await;
    assert!(result.is_success());
    assert_eq!(result.outcomes.get("a").unwrap().status, Status::PartialSuccess);
}

#[tokio::test]
async fn the_first_match_dialect_goes_by_the_order_of_the_file() {
    let graph = r#"graph [routing=first_match]
        start -> a
        a -> b [condition_type=conditional, condition_value="ready"]
        a -> c
        b -> exit
        c -> exit"#;
    let with = Acts::new().gives("a", [Outcome::success().set("ready", 1)]);
    assert_eq!(path(&run(acts(graph), with).await), "start a b exit");
    assert_eq!(path(&run(acts(graph), Acts::new()).await), "start a c exit");
}
