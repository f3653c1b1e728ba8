//! Tests of the steps that choose an edge (rules R1 and R2).

use orchestra_graph::Next;
use serde_json::json;

use crate::support::{decide, failure, known, pipeline, reported, success, table};

#[test]
fn condition_match_wins() {
    let statements =
        "t -> a [condition=\"outcome=success\", weight=-5]; t -> b [weight=100, label=\"B\"]; t -> exit";
    table(
        statements,
        &[
            (success(), "a by condition"),
            (success().label("B"), "a by condition"),
            (success().suggested(&["b"]), "a by condition"),
            (known("skipped"), "b by weight"),
        ],
    );
}

#[test]
fn matching_conditions_are_ordered_by_weight_then_target() {
    let statements = "t -> z [condition=\"outcome=success\"]; t -> m [condition=\"context.x=1\"]; \
                      t -> a [condition=\"context.y=1\", weight=-1]; t -> k [condition=\"context.w=1\", weight=7]; \
                      t -> exit [weight=99]";
    table(
        statements,
        &[
            (success(), "z by condition"),
            (success().with("x", json!(1)), "m by condition"),
            (success().with("y", json!(1)), "z by condition"),
            (
                success().with("x", json!(1)).with("w", json!(1)),
                "k by condition",
            ),
            (failure().with("y", json!(1)), "a by condition"),
        ],
    );
}

#[test]
fn preferred_label_match() {
    let statements = "t -> a [label=\"Ship\", weight=9]; t -> b [label=\"Fix\"]; t -> c [label=\"Fix\", weight=5]; t -> exit";
    table(
        statements,
        &[
            // Of two edges with the label the first one written is taken.
            (success().label("Fix"), "b by preferred_label"),
            (success().label("Ship"), "a by preferred_label"),
            (success().label("Fix").suggested(&["a"]), "b by preferred_label"),
            (success().label("Burn").suggested(&["c"]), "c by suggested_next"),
            (success().label("Burn"), "a by weight"),
            (success().label(""), "a by weight"),
        ],
    );
}

#[test]
fn label_normalization() {
    for (written, preferred) in [
        ("[Y] Yes", "yes"),
        ("[y] YES", "Yes"),
        ("Y) Yes", "yes"),
        ("Y - Yes", "yes"),
        ("  Yes  ", "yes"),
        ("Yes", "[Y] Yes"),
        ("Y) Yes", "[J] yes"),
        ("1) Yes", "yes"),
        ("[7]   Yes", "yes"),
        ("Größe", "GRÖßE"),
        ("Fix - all", "fix - all"),
        ("Do it (now) please", "do it (now) please"),
        ("[Y]", "[y]"),
    ] {
        let pipeline = pipeline(&format!(
            "start -> t; t -> a [weight=9]; t -> b [label=\"{written}\"]; t -> exit"
        ));
        let known = success().label(preferred);
        let found = reported(&pipeline, &decide(&pipeline, "t", &known));
        assert_eq!(found, "b by preferred_label", "`{written}` for `{preferred}`");
    }
    // What only looks like a key is part of the label.
    for (written, preferred) in [
        ("Fix - all", "all"),
        ("Yes", "y"),
        ("Yes", "yes please"),
        ("f(x) done", "done"),
        ("", "x"),
        ("Fix", "F"),
    ] {
        let pipeline = pipeline(&format!(
            "start -> t; t -> a [weight=9]; t -> b [label=\"{written}\"]; t -> exit"
        ));
        let known = success().label(preferred);
        let found = reported(&pipeline, &decide(&pipeline, "t", &known));
        assert_eq!(found, "a by weight", "`{written}` for `{preferred}`");
    }
}

#[test]
fn suggested_next_ids() {
    let statements = "t -> node_a [weight=9]; t -> node_b; t -> node_c; t -> exit";
    table(
        statements,
        &[
            (success().suggested(&["node_b"]), "node_b by suggested_next"),
            // In the order of the stage, not of the file.
            (
                success().suggested(&["node_c", "node_b"]),
                "node_c by suggested_next",
            ),
            (
                success().suggested(&["nowhere", "node_b"]),
                "node_b by suggested_next",
            ),
            // A node that no edge leads to cannot be gone to.
            (success().suggested(&["start"]), "node_a by weight"),
            (success().suggested(&["Node_b"]), "node_a by weight"),
        ],
    );
}

#[test]
fn weight_tiebreak() {
    table(
        "t -> a; t -> b [weight=2]; t -> c [weight=1]; t -> exit",
        &[(success(), "b by weight")],
    );
    table(
        "t -> a [weight=-1]; t -> b; t -> exit [weight=-2]",
        &[(success(), "b by weight")],
    );
    table("t -> exit", &[(success(), "exit by only_edge")]);
}

#[test]
fn lexical_tiebreak() {
    table(
        "t -> c; t -> a; t -> b; t -> exit",
        &[(success(), "a by lowest_target")],
    );
    table(
        "t -> c [weight=3]; t -> b [weight=3]; t -> a; t -> exit",
        &[(success(), "b by lowest_target")],
    );
    // By bytes: upper case before lower, `10` before `9`.
    table(
        "t -> alpha; t -> Zed; t -> exit",
        &[(success(), "Zed by lowest_target")],
    );
    table(
        "t -> n_9; t -> n_10; t -> exit [weight=-1]",
        &[(success(), "n_10 by lowest_target")],
    );
    // Two edges to one target: the first.
    let double = pipeline("start -> t; t -> a [label=\"one\"]; t -> a [label=\"two\"]; t -> exit");
    let Next::Edge(edge) = decide(&double, "t", &success()).next else {
        panic!("an edge leads on")
    };
    assert_eq!(double.text(double.edge(edge).label), "one");
}

#[test]
fn full_priority_chain() {
    // All five steps compete; taking the winner's reason away leaves the next step to decide.
    let statements = "t -> by_target; t -> by_weight2 [weight=5]; t -> by_weight1 [weight=6]; t -> by_suggestion; \
                      t -> by_label [label=\"[T] Take me\"]; t -> by_condition [condition=\"context.go=true\"]; \
                      t -> by_better_condition [condition=\"outcome=success && context.go=true && context.more\", weight=1]; \
                      by_target -> exit";
    let all = success().label("take me").suggested(&["by_suggestion"]);
    table(
        statements,
        &[
            (
                all.clone().with("go", json!(true)).with("more", json!("yes")),
                "by_better_condition by condition",
            ),
            (all.clone().with("go", json!(true)), "by_condition by condition"),
            (all.clone(), "by_label by preferred_label"),
            (all.clone().label("leave me"), "by_suggestion by suggested_next"),
            (all.clone().label(""), "by_suggestion by suggested_next"),
            (success(), "by_weight1 by weight"),
        ],
    );
    let statements = statements
        .replace("weight=5", "weight=0")
        .replace("weight=6", "weight=0");
    table(&statements, &[(success(), "by_label by lowest_target")]);
}

#[test]
fn labels_and_suggestions_choose_among_unconditional_edges_only() {
    let statements = "t -> a [label=\"Fix\", condition=\"context.x=1\"]; t -> b [condition=\"context.y=1\"]; t -> c; t -> exit";
    table(
        statements,
        &[
            (success().label("Fix"), "c by lowest_target"),
            (success().suggested(&["a", "b"]), "c by lowest_target"),
            // Nor does the label choose between conditions that hold.
            (
                success().label("Fix").suggested(&["a"]).with("y", json!(1)),
                "b by condition",
            ),
            (success().label("Fix").with("x", json!(1)), "a by condition"),
        ],
    );
}

#[test]
fn false_condition_is_never_taken() {
    let statements = "t -> a [condition=\"outcome=fail\", weight=99, label=\"Fix\"]; t -> exit";
    table(
        statements,
        &[(success().label("Fix").suggested(&["a"]), "exit by only_edge")],
    );
    let statements =
        "t -> a [condition=\"outcome=fail\", label=\"Fix\"]; t -> exit [condition=\"context.x=1\"]";
    table(
        statements,
        &[
            (
                success().label("Fix").suggested(&["a", "exit"]),
                "fail no_matching_edge by nothing",
            ),
            (success().with("x", json!(1)), "exit by condition"),
        ],
    );
}
