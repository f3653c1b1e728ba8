//! Tests of stages that no edge leaves, and of failing exits (rules R5 and R6).

use orchestra_oracle_tests::{End, Script, ScriptedOutcome, trace_of, unchecked_pipeline};
use serde_json::json;

use crate::support::{decide, failed, failure, pipeline, reported, script, success, table};

#[test]
fn no_matching_edge_lists_every_edge_with_condition_and_values() {
    let pipeline = pipeline(
        "start -> t; t -> a [condition=\"outcome=fail\"]; t -> b [condition=\"context.tries<3 && context.mode=dry\"]; \
         t -> exit [condition=\"context.never\"]",
    );
    let known = success().with("tries", json!(5)).with("mode", json!("wet run"));
    let decision = decide(&pipeline, "t", &known);
    assert_eq!(reported(&pipeline, &decision), "fail no_matching_edge by nothing");
    let text = decision.describe(&pipeline, pipeline.find("t").unwrap());
    for part in [
        "`t`",
        "-> a: `outcome=fail`",
        "outcome is `success`",
        "-> b: `context.tries<3 && context.mode=dry`",
        "context.tries is `5`",
        "context.mode is `wet run`",
        "-> exit: `context.never`",
        "context.never is ``",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn node_without_edges_ends_the_run_as_it_says() {
    for (attributes, expected) in [
        ("", "fail dead_end by nothing"),
        ("t [end=fail]", "end false by end"),
        ("t [end=success]", "end true by end"),
    ] {
        // A second way keeps the exit within reach.
        let statements = format!("{attributes}; start -> u -> exit");
        table(
            &statements,
            &[(success(), expected), (failure(), "fail stage_failed by nothing")],
        );
    }
    table(
        "t [end=success, retry_target=u]; start -> u -> exit",
        &[(failure(), "jump u by retry_target")],
    );
    // The intention is for where no edge is; it does not stand against one.
    table(
        "t [end=success]; t -> exit [condition=\"outcome=fail\"]",
        &[(success(), "fail no_matching_edge by nothing")],
    );
}

#[test]
fn dead_end_is_named() {
    let dot = "digraph { start -> t; start -> u [weight=-1]; u -> exit }";
    // A node that is never declared and leads nowhere is a mistake (rule L8), so this one is declared.
    let dot = dot.replace("start -> t;", "t [label=\"T\"]; start -> t;");
    let trace = trace_of(unchecked_pipeline(&dot).unwrap(), &Script::default());
    assert_eq!(trace.end, End::DeadEnd("t".to_owned()));
    let marked = dot.replace("label=\"T\"", "end=fail");
    let trace = trace_of(unchecked_pipeline(&marked).unwrap(), &Script::default());
    assert_eq!(trace.end.kind(), "FailureEnd");
    let marked = dot.replace("label=\"T\"", "end=success");
    let trace = trace_of(unchecked_pipeline(&marked).unwrap(), &Script::default());
    assert_eq!(trace.end, End::Success);
}

#[test]
fn failing_exit_fails_the_run() {
    // An exit by id may have a handler of its own, and its failure is one like any other (rule R3).
    let dot = "digraph { start -> t; start -> r; t -> exit; r -> exit; exit [type=\"team.publish\"] }";
    let trace = trace_of(unchecked_pipeline(dot).unwrap(), &Script::default());
    assert_eq!(
        (trace.visited(), trace.end.clone()),
        (vec!["start", "r", "exit"], End::Success)
    );
    let trace = trace_of(unchecked_pipeline(dot).unwrap(), &script(&[("exit", failed())]));
    let expected = End::StageFailed {
        node: "exit".to_owned(),
        reason: "disk full".to_owned(),
    };
    assert_eq!(
        (trace.visited(), trace.end.clone()),
        (vec!["start", "r", "exit"], expected)
    );
    let jumping = dot.replace("type=", "retry_target=t, type=");
    let once = Script::new([("exit", vec![failed(), ScriptedOutcome::word("success")])]);
    let trace = trace_of(unchecked_pipeline(&jumping).unwrap(), &once);
    assert_eq!(
        (trace.visited(), trace.end.clone()),
        (vec!["start", "r", "exit", "t", "exit"], End::Success)
    );
}
