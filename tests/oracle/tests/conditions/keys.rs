//! Tests of the keys of conditions.

use orchestra_graph::condition::PLAIN_KEYS;
use serde_json::json;

use crate::support::{table, with};

#[test]
fn plain_keys_are_facts_of_the_stage() {
    let mut seen = with("fail", &[("last_response", json!("done"))]);
    seen.preferred_label = "Fix it".to_owned();
    seen.failure_reason = "disk full".to_owned();
    seen.current_node = "judge".to_owned();
    seen.last_stage = "build".to_owned();
    let rows = [
        ("outcome=fail", true),
        ("preferred_label=Fix it", true),
        ("preferred_label=\"Fix it\"", true),
        ("preferred_label=fix it", true),
        ("preferred_label!=\"[F] FIX IT \"", false),
        ("preferred_label=fix", false),
        ("failure_reason='disk full'", true),
        ("failure_reason contains full", true),
        ("failure_reason matches '^disk'", true),
        ("current_node=judge", true),
        ("last_stage=build", true),
        ("last_response=done", true),
        ("outcome", true),
        ("preferred_label contains y", false),
    ];
    table(&seen, &rows);
    assert_eq!(PLAIN_KEYS.len(), 6, "a new key wants a row here");
}

#[test]
fn context_keys_are_looked_up_with_their_prefix_first() {
    let both = with(
        "success",
        &[("context.mode", json!("long")), ("mode", json!("short"))],
    );
    table(
        &both,
        &[("context.mode=long", true), ("context.mode=short", false)],
    );
    let short = with("success", &[("mode", json!("short"))]);
    table(&short, &[("context.mode=short", true)]);
    // The prefix is only taken away, never added.
    let long = with("success", &[("context.work.item", json!("a"))]);
    table(&long, &[("work.item=a", false), ("context.work.item=a", true)]);
    let deep = with("success", &[("a.b.c", json!(1)), ("a-b:c", json!(2))]);
    table(
        &deep,
        &[
            ("context.a.b.c=1", true),
            ("context.a-b:c=2", true),
            ("context.a.b=1", false),
        ],
    );
}

#[test]
fn namespaces_of_the_engine_are_keys() {
    let keys = [
        "graph.goal",
        "human.gate.selected",
        "parallel.results",
        "stack.child.outcome",
        "work.item",
        "internal.retry_count.build",
        "tool.exit_code",
        "context.x",
    ];
    for key in keys {
        let seen = with("success", &[(key, json!("v"))]);
        table(
            &seen,
            &[
                (&format!("{key}=v"), true),
                (&format!("{key}=w"), false),
                (key, true),
            ],
        );
    }
}

#[test]
fn the_context_cannot_hide_a_fact_of_the_stage() {
    let seen = with(
        "fail",
        &[("outcome", json!("success")), ("failure_reason", json!("x"))],
    );
    table(
        &seen,
        &[
            ("outcome=fail", true),
            ("failure_reason=x", false),
            ("context.failure_reason=x", true),
        ],
    );
}
