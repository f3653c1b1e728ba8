//! Tests of the conditions and values that a decision records (rule R8).

use orchestra_graph::{Decision, Pipeline};
use serde_json::json;

use crate::support::{decide, pipeline, reported, success};

/// A target, whether the condition of its edge held, and the values that it saw.
type TestedRow = (String, bool, Vec<(String, String)>);

fn tested(decision: &Decision, pipeline: &Pipeline) -> Vec<TestedRow> {
    let rows = decision.tested.iter().map(|tested| {
        let target = pipeline.stage(pipeline.edge(tested.edge).to).id().to_owned();
        (target, tested.held, tested.values.clone())
    });
    rows.collect()
}

fn row(target: &str, held: bool, values: &[(&str, &str)]) -> TestedRow {
    let values = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    (target.to_owned(), held, values)
}

#[test]
fn every_condition_is_recorded_with_the_values_that_it_saw() {
    let pipeline = pipeline(
        "start -> t; t -> b [condition=\"outcome=fail || context.n>2\"]; t -> c; \
         t -> a [condition=\"preferred_label=Fix && !(context.gone) && outcome!=retry\"]; t -> exit",
    );
    let known = success().label("Fix").with("n", json!(0.5));
    let decision = decide(&pipeline, "t", &known);
    assert_eq!(reported(&pipeline, &decision), "a by condition");
    assert_eq!(
        tested(&decision, &pipeline),
        [
            row("b", false, &[("outcome", "success"), ("context.n", "0.5")]),
            row(
                "a",
                true,
                &[
                    ("preferred_label", "Fix"),
                    ("context.gone", ""),
                    ("outcome", "success")
                ]
            ),
        ]
    );
    let text = decision.describe(&pipeline, pipeline.find("t").unwrap());
    assert_eq!(text, "t -> a (condition holds)");
}

#[test]
fn first_match_tests_no_further_than_the_match() {
    let pipeline = pipeline(
        "routing=first_match; start -> t; t -> a [condition_type=failure]; t -> b [condition_type=success]; \
         t -> exit [condition_type=conditional, condition_value=done]",
    );
    let decision = decide(&pipeline, "t", &success());
    assert_eq!(
        tested(&decision, &pipeline),
        [
            row("a", false, &[("outcome", "success")]),
            row("b", true, &[("outcome", "success")])
        ]
    );
}

#[test]
fn values_of_the_output_are_those_that_were_compared() {
    let pipeline = pipeline(
        "routing=first_match; start -> t; \
         t -> a [condition_type=conditional, condition_value=\"{\\\"key\\\": \\\"mode\\\", \\\"value\\\": true}\"]; \
         t -> b [condition_type=conditional, condition_value=\"gone\"]; t -> c [condition_type=failure]; \
         t -> exit [condition=\"context.mode=dry\"]",
    );
    // An earlier stage set the same keys; a later one gave an output that is called like a fact.
    let known = success()
        .with("mode", json!("wet"))
        .with("gone", json!("here before"))
        .output("mode", json!("true"))
        .output("outcome", json!("fail"));
    let decision = decide(&pipeline, "t", &known);
    assert_eq!(
        tested(&decision, &pipeline),
        [
            // Quotes tell the text from the boolean that was wanted.
            row("a", false, &[("mode", "\"true\"")]),
            row("b", false, &[("gone", "")]),
            row("c", false, &[("outcome", "success")]),
            row("exit", false, &[("context.mode", "wet")]),
        ]
    );
}
