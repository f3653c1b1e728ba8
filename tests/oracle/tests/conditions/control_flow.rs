//! Tests of the seven rows of the control-flow table.

use orchestra_graph::condition::parse_condition;
use orchestra_oracle_tests::load_pipeline;
use serde_json::json;

use crate::support::{table, with};

#[test]
fn outcome_equals_success() {
    table(
        &with("success", &[]),
        &[("outcome=success", true), ("outcome=fail", false)],
    );
    table(
        &with("fail", &[]),
        &[("outcome=success", false), ("outcome=fail", true)],
    );
}

#[test]
fn outcome_differs_from_success() {
    table(&with("success", &[]), &[("outcome!=success", false)]);
    for word in ["fail", "partial_success", "retry", "skipped", "needs_work"] {
        table(&with(word, &[]), &[("outcome!=success", true)]);
    }
}

#[test]
fn context_key_equals_value() {
    let seen = with("success", &[("key", json!("value"))]);
    table(
        &seen,
        &[
            ("context.key=value", true),
            ("context.key=Value", false),
            ("context.key=valu", false),
        ],
    );
}

#[test]
fn conjunction_requires_both_clauses() {
    let condition = "outcome=success && context.flag=true";
    for (outcome, flag, expected) in [
        ("success", "true", true),
        ("success", "false", false),
        ("fail", "true", false),
        ("fail", "false", false),
    ] {
        table(&with(outcome, &[("flag", json!(flag))]), &[(condition, expected)]);
    }
}

#[test]
fn missing_context_key_is_the_empty_string() {
    let seen = with("success", &[]);
    let rows = [
        ("context.missing=value", false),
        ("context.missing!=value", true),
        ("context.missing=\"\"", true),
        ("context.missing=''", true),
        ("context.missing!=''", false),
        ("context.missing", false),
        ("!context.missing", true),
        ("context.missing<1", false),
        ("context.missing>=0", false),
        ("context.missing contains x", false),
        ("context.missing contains ''", true),
        ("context.missing matches '^$'", true),
        ("context.missing matches x", false),
        ("last_response=''", true),
        ("graph.goal=''", true),
        ("human.gate.label=''", true),
    ];
    table(&seen, &rows);
}

#[test]
fn empty_condition_holds_always() {
    for outcome in ["success", "fail", "retry", ""] {
        table(&with(outcome, &[]), &[("", true), ("  \t\n ", true)]);
    }
}

#[test]
fn invalid_condition_syntax_is_refused_when_the_file_is_read() {
    for condition in [
        "outcome == success",
        "outcome=success &&& outcome=fail",
        "outcome=",
        "outcome success",
    ] {
        assert!(parse_condition(condition).is_err(), "`{condition}`");
        let dot = format!("digraph {{ start -> t; t -> exit [condition=\"{condition}\"] }}");
        assert!(load_pipeline(&dot).is_err(), "`{condition}`");
    }
}
