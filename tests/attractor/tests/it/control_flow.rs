//! The test rows of the control-flow plan, by name, in its simulation; `SEEDS.md` lists them.

use std::time::Duration;

use orchestra::engine::{EventKind, Script};
use orchestra::graph::condition::parse_condition;
use orchestra::prelude::*;
use orchestra_attractor_tests::{Ran, Ticks, listening, loaded, pipeline, problems};

/// Simulates a text, on a clock that waits turn on.
async fn simulate(text: &str, script: Script) -> Ran {
    let (engine, heard) = listening(Engine::builder().simulate(script).clock(Ticks::default()));
    heard.end(engine.start(pipeline(text), ())).await
}

/// Whether an edge with this condition is taken after an outcome.
async fn holds(condition: &str, outcome: Outcome) -> bool {
    let text = format!(
        r#"digraph {{ start -> work; work [on_failure=route]
        work -> held [condition="{condition}"]; work -> other; held -> exit; other -> exit }}"#
    );
    let ran = simulate(&text, Script::new().outcomes("work", [outcome])).await;
    assert!(ran.result.is_success(), "{}", ran.failure());
    ran.result.path.contains("held")
}

// Conditions

#[tokio::test]
async fn condition_outcome_equals_success() {
    assert!(holds("outcome=success", Outcome::success()).await);
    assert!(!holds("outcome=success", Outcome::fail("red")).await);
    assert!(!holds("outcome=success", Outcome::new(Status::PartialSuccess)).await);
}

#[tokio::test]
async fn condition_outcome_differs_from_success() {
    assert!(holds("outcome!=success", Outcome::fail("red")).await);
    assert!(holds("outcome!=success", Outcome::new(Status::PartialSuccess)).await);
    assert!(!holds("outcome!=success", Outcome::success()).await);
}

#[tokio::test]
async fn condition_context_key_equals_value() {
    assert!(holds("context.key=value", Outcome::success().set("key", "value")).await);
    assert!(!holds("context.key=value", Outcome::success().set("key", "other")).await);
}

#[tokio::test]
async fn condition_conjunction_needs_both_clauses() {
    let both = "outcome=success && context.flag=true";
    assert!(holds(both, Outcome::success().set("flag", true)).await);
    assert!(!holds(both, Outcome::success().set("flag", false)).await);
    assert!(!holds(both, Outcome::success()).await);
    assert!(!holds(both, Outcome::fail("red").set("flag", true)).await);
}

#[tokio::test]
async fn condition_missing_context_key_is_empty() {
    assert!(!holds("context.missing=value", Outcome::success()).await);
    assert!(holds("context.missing!=value", Outcome::success()).await);
    assert!(holds("context.missing=''", Outcome::success()).await);
}

#[tokio::test]
async fn condition_empty_always_holds() {
    let text = r#"digraph { start -> work; work -> held [condition=" ", weight=1]; work -> other
        held -> exit; other -> exit }"#;
    let ran = simulate(text, Script::new()).await;
    assert_eq!(ran.way_from("work"), ("held".to_owned(), "weight"));
}

#[test]
fn condition_of_invalid_syntax_is_an_error_of_the_validation() {
    for condition in [
        "outcome=",
        "=success",
        "outcome == success",
        "outcome success",
        "(outcome=success",
    ] {
        let text = format!(r#"digraph {{ start -> work; work -> exit [condition="{condition}"] }}"#);
        let loaded = loaded(&text);
        assert!(loaded.pipeline().is_none(), "{condition}");
        assert!(
            problems(&loaded)[0].starts_with("condition_syntax"),
            "{condition}: {:?}",
            problems(&loaded)
        );
        assert!(parse_condition(condition).is_err(), "{condition}");
    }
}

// Edge selection

/// Where `work` leads, and by which rule, in a graph with these edges.
async fn selected(edges: &str, outcome: Outcome) -> (String, &'static str) {
    let text = format!(
        "digraph {{ start -> work; {edges}
        node_a -> exit; node_b -> exit; node_c -> exit }}"
    );
    let ran = simulate(&text, Script::new().outcomes("work", [outcome])).await;
    assert!(ran.result.is_success(), "{}", ran.failure());
    ran.way_from("work")
}

fn way(target: &str, rule: &'static str) -> (String, &'static str) {
    (target.to_owned(), rule)
}

#[tokio::test]
async fn edge_of_a_matching_condition_wins_over_a_heavier_one() {
    let edges = r#"work -> node_b [condition="outcome=success", weight=1]; work -> node_a [weight=100]
        work -> node_c [condition="outcome=fail", weight=200]"#;
    assert_eq!(
        selected(edges, Outcome::success()).await,
        way("node_b", "condition")
    );
}

#[tokio::test]
async fn edge_of_the_preferred_label_is_taken() {
    let edges = "work -> node_a [label=Ship, weight=9]; work -> node_b [label=Fix]; work -> node_c";
    assert_eq!(
        selected(edges, Outcome::success().prefer("Fix")).await,
        way("node_b", "preferred_label")
    );
}

#[tokio::test]
async fn edge_labels_are_normalised() {
    for label in ["[Y] Yes", "Y) Yes", "Y - Yes", "  yes ", "YES"] {
        let edges = format!("work -> node_a [weight=9]; work -> node_b [label=\"{label}\"]; work -> node_c");
        for preferred in ["yes", "[Y] Yes", " Yes"] {
            let chosen = selected(&edges, Outcome::success().prefer(preferred)).await;
            assert_eq!(
                chosen,
                way("node_b", "preferred_label"),
                "`{label}` and `{preferred}`"
            );
        }
        let other = selected(&edges, Outcome::success().prefer("yes, but")).await;
        assert_eq!(other, way("node_a", "weight"), "`{label}`");
    }
}

#[tokio::test]
async fn edge_of_a_suggested_id_is_taken() {
    let edges = "work -> node_a [weight=9]; work -> node_b; work -> node_c";
    assert_eq!(
        selected(edges, Outcome::success().suggest("node_b")).await,
        way("node_b", "suggested_next")
    );
    let several = Outcome::success()
        .suggest("nowhere")
        .suggest("node_c")
        .suggest("node_b");
    assert_eq!(
        selected(edges, several).await,
        way("node_c", "suggested_next"),
        "in the stage's order"
    );
}

#[tokio::test]
async fn edge_of_the_highest_weight_breaks_the_tie() {
    let edges = "work -> node_a [weight=1]; work -> node_b [weight=5]; work -> node_c";
    assert_eq!(selected(edges, Outcome::success()).await, way("node_b", "weight"));
}

#[tokio::test]
async fn edge_of_the_lowest_id_breaks_the_last_tie() {
    let edges = "work -> node_c [weight=5]; work -> node_b [weight=5]; work -> node_a";
    assert_eq!(
        selected(edges, Outcome::success()).await,
        way("node_b", "lowest_target")
    );
}

#[tokio::test]
async fn edges_compete_in_the_full_priority_chain() {
    // Four steps at `work`, the fifth at `then`, where two edges are equally heavy.
    let text = r#"digraph { start -> work
        work -> by_condition  [condition="context.go=yes"]
        work -> by_label      [label="[F] Fix"]
        work -> by_suggestion
        work -> by_weight     [weight=5]
        work -> aaa           [weight=4]
        by_condition -> then; by_label -> then; by_suggestion -> then; by_weight -> then; aaa -> then
        then -> last_2 [weight=1]; then -> last_1 [weight=1]; then -> aaa_light
        last_1 -> exit; last_2 -> exit; aaa_light -> exit }"#;
    let weight = Outcome::success();
    let suggestion = weight.clone().suggest("by_suggestion");
    let label = suggestion.clone().prefer("fix");
    let condition = label.clone().set("go", "yes");
    let cases = [
        (condition, "by_condition", "condition"),
        (label, "by_label", "preferred_label"),
        (suggestion, "by_suggestion", "suggested_next"),
        (weight, "by_weight", "weight"),
    ];
    for (outcome, target, rule) in cases {
        let ran = simulate(text, Script::new().outcomes("work", [outcome])).await;
        assert_eq!(ran.way_from("work"), way(target, rule));
        assert_eq!(ran.way_from("then"), way("last_1", "lowest_target"));
        ran.succeeds_by(&format!("start work {target} then last_1 exit"));
    }
}

// Retries

/// How often a node was begun.
fn begun(ran: &Ran, node: &str) -> usize {
    ran.reported()
        .iter()
        .filter(|line| **line == format!("StageStarted {node}"))
        .count()
}

const RETRIED: &str = r#"digraph { start -> work; work [max_retries=2]
    work -> exit [condition="outcome=success"]
    work -> partial [condition="outcome=partial_success"]; partial -> exit
    work -> failed [condition="outcome=fail"]; failed -> exit }"#;

#[tokio::test]
async fn retry_on_fail() {
    let ran = simulate(
        RETRIED,
        Script::new().outcomes("work", ["fail", "fail", "success"]),
    )
    .await;
    ran.succeeds_by("start work exit");
    assert_eq!((begun(&ran, "work"), ran.retries().len()), (3, 2));
}

#[tokio::test]
async fn retry_on_the_status_retry() {
    let ran = simulate(RETRIED, Script::new().outcomes("work", ["retry", "success"])).await;
    ran.succeeds_by("start work exit");
    assert_eq!((begun(&ran, "work"), ran.retries().len()), (2, 1));
}

#[tokio::test]
async fn retry_exhaustion_routes_by_the_final_outcome() {
    for last in ["fail", "retry"] {
        let ran = simulate(
            RETRIED,
            Script::new().outcomes("work", ["fail", "retry", last, "success"]),
        )
        .await;
        ran.succeeds_by("start work failed exit");
        assert_eq!((begun(&ran, "work"), ran.outcome("work")), (3, "fail"));
    }
}

#[tokio::test]
async fn retry_delays_of_the_standard_policy() {
    let text = "digraph { start -> work -> exit; work [max_retries=3, retry_policy=standard] }";
    let script = || Script::new().outcomes("work", ["fail", "fail", "fail", "success"]);
    let (engine, heard) = listening(Engine::builder().simulate(script()));
    let real = heard.end(engine.start(pipeline(text), ()).seed(7)).await;
    real.succeeds_by("start work exit");

    // When each wait began and ended, by the time of the events.
    let (mut waits, mut since) = (Vec::new(), None);
    for event in &real.events {
        match &event.kind {
            EventKind::StageRetrying { delay, .. } => since = Some((event.time, *delay)),
            EventKind::StageStarted { stage, .. } if stage.node == "work" => {
                let waited = since.take().map(|(from, reported)| {
                    let took = event.time.as_millis() - from.as_millis();
                    (Duration::from_millis(took), reported)
                });
                waits.extend(waited);
            }
            _ => {}
        }
    }
    assert_eq!(waits.len(), 3);
    for ((waited, reported), exact) in waits.iter().zip([200, 400, 800].map(Duration::from_millis)) {
        assert!(
            (exact / 2..=exact * 3 / 2).contains(reported),
            "{reported:?} of {exact:?}"
        );
        // Both times are cut to the millisecond. A busy machine may be late, but nothing is early.
        assert!(
            *waited + Duration::from_millis(1) >= *reported,
            "{waited:?} of {reported:?}"
        );
        assert!(
            *waited < *reported + Duration::from_secs(2),
            "{waited:?} of {reported:?}"
        );
    }

    // The same seed gives the same delays, and without jitter they are exact.
    let delays = |text: String| async move {
        let clock = Ticks::default();
        let (engine, heard) = listening(Engine::builder().simulate(script()).clock(clock.clone()));
        heard.end(engine.start(pipeline(&text), ()).seed(7)).await;
        clock.waits()
    };
    let reported: Vec<u128> = waits.iter().map(|(_, reported)| reported.as_millis()).collect();
    assert_eq!(delays(text.to_owned()).await, reported);
    let exact = text.replace(
        "retry_policy=standard",
        "retry_policy=standard, retry_jitter=false",
    );
    assert_eq!(delays(exact).await, [200, 400, 800]);
}

#[tokio::test]
async fn retry_with_allow_partial_ends_as_partial_success() {
    let text = RETRIED.replace("max_retries=2", "max_retries=2, allow_partial=true");
    let ran = simulate(
        &text,
        Script::new().outcomes("work", ["retry", "fail", "retry", "success"]),
    )
    .await;
    ran.succeeds_by("start work partial exit");
    assert_eq!((begun(&ran, "work"), ran.outcome("work")), (3, "partial_success"));
}

#[tokio::test]
async fn retry_does_not_follow_a_success() {
    for word in ["success", "partial_success"] {
        let ran = simulate(RETRIED, Script::new().outcomes("work", [word, "fail"])).await;
        assert!(ran.result.is_success(), "{}", ran.failure());
        assert_eq!((begun(&ran, "work"), ran.retries().len()), (1, 0));
    }
}

// Goal gates

/// A gate with attributes, in a graph with attributes, whose failure goes on to the exit.
fn gate(node: &str, graph: &str) -> String {
    format!(
        "digraph {{ graph [{graph}]; start -> plan -> work -> exit
        work [goal_gate=true, on_failure=route, {node}] }}"
    )
}

#[tokio::test]
async fn gate_satisfied_lets_the_run_exit() {
    let ran = simulate(&gate("retry_target=plan", "label=G"), Script::new()).await;
    ran.succeeds_by("start plan work exit");
}

#[tokio::test]
async fn gate_unsatisfied_goes_to_its_retry_target() {
    let script = Script::new().outcomes("work", ["fail", "success"]);
    let ran = simulate(&gate("retry_target=plan", "label=G"), script).await;
    ran.succeeds_by("start plan work plan work exit");
}

#[tokio::test]
async fn gate_unsatisfied_goes_to_the_retry_target_of_the_graph() {
    let script = Script::new().outcomes("work", ["fail", "success"]);
    let ran = simulate(&gate("label=Work", "retry_target=plan"), script).await;
    ran.succeeds_by("start plan work plan work exit");
}

#[tokio::test]
async fn gate_unsatisfied_without_a_target_fails_the_run() {
    let ran = simulate(
        &gate("label=Work", "label=G"),
        Script::new().outcomes("work", ["fail"]),
    )
    .await;
    assert_eq!(
        (ran.result.status, ran.path().as_str()),
        (RunStatus::Fail, "start plan work")
    );
    let reported = ran.failure();
    assert!(
        reported.starts_with("the goal gate `work` is unsatisfied, its outcome is `fail`"),
        "{reported}"
    );
    assert!(reported.contains("name a `retry_target`"), "{reported}");
}

#[tokio::test]
async fn gate_is_satisfied_by_a_partial_success() {
    let script = Script::new().outcomes("work", ["partial_success"]);
    let ran = simulate(&gate("retry_target=plan", "label=G"), script).await;
    ran.succeeds_by("start plan work exit");
    assert_eq!(ran.outcome("work"), "partial_success");
}

// Failure routing

/// A stage that fails, with attributes and further edges; `mend` and `last` can be jumped to.
async fn failed(attributes: &str, edges: &str) -> Ran {
    let text = format!(
        r#"digraph {{ start -> work -> exit; work [{attributes}]; {edges}
        start -> mend [condition="context.never=true"]; mend -> exit
        start -> last [condition="context.never=true"]; last -> exit }}"#
    );
    simulate(
        &text,
        Script::new().outcomes("work", [Outcome::fail("no compiler")]),
    )
    .await
}

#[tokio::test]
async fn failure_follows_a_fail_edge() {
    let edge = r#"work -> mend [condition="outcome=fail"]"#;
    let ran = failed("retry_target=last", edge).await;
    ran.succeeds_by("start work mend exit");
    assert_eq!(ran.way_from("work"), way("mend", "condition"));
}

#[tokio::test]
async fn failure_jumps_to_the_retry_target() {
    let ran = failed("retry_target=mend, fallback_retry_target=last", "").await;
    ran.succeeds_by("start work mend exit");
    assert_eq!(ran.way_from("work"), way("mend", "retry_target"));
}

#[tokio::test]
async fn failure_jumps_to_the_fallback_retry_target() {
    let ran = failed("fallback_retry_target=last", "").await;
    ran.succeeds_by("start work last exit");
    assert_eq!(ran.way_from("work"), way("last", "fallback_retry_target"));
}

#[tokio::test]
async fn failure_without_a_way_ends_the_run() {
    let ran = failed("label=Work", "").await;
    assert_eq!(
        (ran.result.status, ran.path().as_str()),
        (RunStatus::Fail, "start work")
    );
    assert_eq!(ran.failure(), "stage `work` failed: no compiler");
}
