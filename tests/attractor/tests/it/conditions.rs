//! Attractor 11.9: condition expressions. Each pipeline is run twice, compiled and loaded, which must agree (rule C6).

use orchestra::prelude::*;
use orchestra_attractor_tests::{Model, run_both};

mod pipelines {
    orchestra::pipeline! {
        allow(implicit_node);
        pub mod equals = digraph equals { start -> a
            a -> held [condition="context.color=red"]; a -> other; held -> exit; other -> exit };
        pub mod differs = digraph differs { start -> a
            a -> held [condition="context.color!=red"]; a -> other; held -> exit; other -> exit };
        pub mod all = digraph all { start -> a
            a -> held [condition="outcome=success && context.color=red && context.size!=large"]
            a -> other; held -> exit; other -> exit };
        pub mod outcomes = digraph outcomes { start -> a; a [prompt="Act", outcomes="shipped"]
            a -> good    [condition="outcome=success"];         good    -> exit
            a -> partly  [condition="outcome=partial_success"]; partly  -> exit
            a -> failed  [condition="outcome=fail"];            failed  -> exit
            a -> skipped [condition="outcome=skipped"];         skipped -> exit
            a -> shipped [condition="outcome=shipped"];         shipped -> exit };
        pub mod labels = digraph labels { start -> a
            a -> held [condition="preferred_label=Fix"]; a -> other; held -> exit; other -> exit };
        pub mod values = digraph values { start -> a
            a -> red     [condition="context.color=red"];    red     -> exit
            a -> count   [condition="context.count=3"];      count   -> exit
            a -> flag    [condition="context.flag=true"];    flag    -> exit
            a -> dotted  [condition="context.deep.key=low"]; dotted  -> exit
            a -> missing [condition="context.color=\"\" && context.color!=red"]; missing -> exit
            a -> other;  other -> exit };
        pub mod empty = digraph empty { start -> a
            a -> always [condition="", weight=2]; a -> plain [weight=1]
            a -> held   [condition="context.ready=true"]
            always -> exit; plain -> exit; held -> exit }
    }
}

use pipelines::{all, differs, empty, equals, labels, outcomes, values};

/// Where `a` goes with an outcome.
async fn way(compiled: impl orchestra::engine::Binding<()>, outcome: Outcome) -> String {
    let model = Model::new().gives("a", [outcome]);
    let ran = run_both(compiled, &model).await;
    assert!(ran.result.is_success(), "{}", ran.failure());
    ran.way_from("a").0
}

fn colored(color: &str) -> Outcome {
    Outcome::success().set("color", color)
}

#[tokio::test]
async fn equals_compares_texts() {
    assert_eq!(way(&equals::PIPELINE, colored("red")).await, "held");
    for other in ["Red", "reddish", "re", " red", "green", ""] {
        assert_eq!(way(&equals::PIPELINE, colored(other)).await, "other", "`{other}`");
    }
}

#[tokio::test]
async fn not_equals_is_the_opposite() {
    assert_eq!(way(&differs::PIPELINE, colored("red")).await, "other");
    for other in ["Red", "reddish", "re", " red", "green", ""] {
        assert_eq!(way(&differs::PIPELINE, colored(other)).await, "held", "`{other}`");
    }
}

#[tokio::test]
async fn and_holds_when_every_clause_does() {
    for case in 0..8 {
        let [good, red, large] = [1, 2, 4].map(|bit| case & bit != 0);
        let status = if good {
            Status::Success
        } else {
            Status::PartialSuccess
        };
        let outcome = Outcome::new(status)
            .set("color", if red { "red" } else { "green" })
            .set("size", if large { "large" } else { "small" });
        let expected = if good && red && !large { "held" } else { "other" };
        assert_eq!(
            way(&all::PIPELINE, outcome).await,
            expected,
            "{good} {red} {large}"
        );
    }
}

#[tokio::test]
async fn outcome_is_the_status_of_the_current_node() {
    let cases = [
        (Outcome::success(), "good"),
        (Outcome::new(Status::PartialSuccess), "partly"),
        (Outcome::fail("red"), "failed"),
        // Rule Y5: a wish for a retry that is not granted is a failure.
        (Outcome::retry("again"), "failed"),
        (Outcome::new(Status::Skipped), "skipped"),
        // Rule C4: a word of the handler's own.
        (Outcome::custom("shipped"), "shipped"),
    ];
    for (outcome, target) in cases {
        assert_eq!(way(&outcomes::PIPELINE, outcome).await, target);
    }
}

#[tokio::test]
async fn preferred_label_is_that_of_the_outcome() {
    assert_eq!(
        way(&labels::PIPELINE, Outcome::success().prefer("Fix")).await,
        "held"
    );
    assert_eq!(
        way(&labels::PIPELINE, Outcome::success().prefer("Ship")).await,
        "other"
    );
    assert_eq!(way(&labels::PIPELINE, Outcome::success()).await, "other");
}

#[tokio::test]
async fn context_variables_are_the_values_of_the_context_and_missing_ones_are_empty() {
    let cases = [
        (colored("red"), "red"),
        (colored("green").set("count", 3), "count"),
        (colored("green").set("flag", true), "flag"),
        (colored("green").set("deep.key", "low"), "dotted"),
        // Rule C3: the whole key first, then without `context.`.
        (colored("green").set("context.color", "red"), "red"),
        (Outcome::success(), "missing"),
        (colored(""), "missing"),
        (colored("green").set("count", 4), "other"),
    ];
    for (outcome, target) in cases {
        let reported = format!("{:?}", outcome.context_updates);
        assert_eq!(way(&values::PIPELINE, outcome).await, target, "{reported}");
    }
}

#[tokio::test]
async fn an_empty_condition_always_holds() {
    // Attractor 3.3: its edge is one without a condition, so weights choose, behind a condition that holds.
    let model = Model::new();
    let ran = run_both(&empty::PIPELINE, &model).await;
    assert_eq!(ran.way_from("a"), ("always".to_owned(), "weight"));
    let ready = Outcome::success().set("ready", true);
    assert_eq!(way(&empty::PIPELINE, ready).await, "held");
}
