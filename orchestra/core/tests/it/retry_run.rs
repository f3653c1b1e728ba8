//! The point at which a failed run is retried (rule D9).
use crate::support;

use orchestra_core::{Event, Outcome, RetryPoint, retry_point};
use support::Run;

/// Returns the retry point as text, for the same or a changed pipeline.
fn point(run: &Run, changed: bool) -> String {
    let machine = &run.machine;
    let pipeline = machine.pipeline();
    match retry_point(pipeline, machine.state(), &run.end().unwrap(), changed) {
        Some(RetryPoint::Stage(node)) => pipeline.stage(node).id().to_owned(),
        Some(RetryPoint::Edges(node)) => format!("edges of {}", pipeline.stage(node).id()),
        None => "nowhere".to_owned(),
    }
}

/// Retries the run at its retry point.
fn retry(run: &mut Run) {
    let machine = &run.machine;
    let point = retry_point(machine.pipeline(), machine.state(), &run.end().unwrap(), false);
    let (node, from_edges) = match point.unwrap() {
        RetryPoint::Stage(node) => (node, false),
        RetryPoint::Edges(node) => (node, true),
    };
    run.on(Event::Retried { node, from_edges });
}

#[test]
fn a_loop_in_which_nothing_works_is_retried_where_it_stopped_once_it_was_changed() {
    let run = Run::from_statements(
        "max_node_visits=2000000000; start -> a -> b; b -> a; b -> exit [weight=-1]; a [shape=diamond]; b [shape=diamond]",
    );
    let failure = run.end().unwrap();
    assert_eq!(point(&run, true), failure.node().unwrap());
    assert_eq!(point(&run, false), "nowhere");
}

#[test]
fn a_stage_is_visited_again_with_all_its_attempts_and_its_history() {
    let mut run = Run::from_statements(
        "start -> a -> exit; a [max_retries=1, max_visits=1, retry_policy=none, failure_breaker=2]",
    );
    run.fails("a#1/1").rings("a#1/2").fails("a#1/2");
    assert_eq!((run.code(), point(&run, false).as_str()), ("stage_failed", "a"));
    retry(&mut run);
    run.fails("a#2/1").rings("a#2/2").succeeds("a#2/2");
    assert_eq!((run.code(), run.path().as_str()), ("success", "start a a exit"));
    assert_eq!(run.main().errors.len(), 3);
}

#[test]
fn what_stands_before_a_routing_node_is_what_failed() {
    let mut run = Run::from_statements(
        r#"start -> a -> route; route [shape=diamond]; route -> exit [condition="outcome=success"]"#,
    );
    run.fails("a#1/1");
    assert_eq!((run.code(), point(&run, false).as_str()), ("stage_failed", "a"));
}

#[test]
fn an_end_that_is_marked_as_a_failure_leads_back_to_the_stage_that_failed() {
    let text = r#"start -> a -> b; b -> exit [condition="outcome=success"]; b -> tell [condition="outcome=fail"]
        tell -> over; over [end=fail]"#;
    let mut run = Run::from_statements(text);
    run.succeeds("a#1/1")
        .fails("b#1/1")
        .succeeds("tell#1/1")
        .succeeds("over#1/1");
    assert_eq!((run.code(), point(&run, false).as_str()), ("failure_end", "b"));
    // If no stage failed, the stage before the end is retried.
    let mut run =
        Run::from_statements("start -> a -> over; over [end=fail]; a -> exit [condition=\"context.never\"]");
    run.succeeds("a#1/1").succeeds("over#1/1");
    assert_eq!(point(&run, false), "a");
}

#[test]
fn edges_that_do_not_match_want_a_changed_pipeline_where_no_stage_can_be_run_again() {
    let stage = "start -> a; a -> exit [condition=\"context.never\"]";
    let mut run = Run::from_statements(stage);
    run.succeeds("a#1/1");
    let points = [false, true].map(|changed| point(&run, changed));
    assert_eq!(points, ["a", "edges of a"]);
    let routing = "start -> a -> b; b [shape=diamond]; b -> exit [condition=\"context.never\"]";
    let mut run = Run::from_statements(routing);
    run.succeeds("a#1/1");
    let points = [false, true].map(|changed| point(&run, changed));
    assert_eq!(points, ["nowhere", "edges of b"]);
}

#[test]
fn whatever_fails_in_a_block_is_retried_with_the_outermost_one() {
    let text = "start -> fan; fan [shape=component]; fan -> inner -> near; fan -> c -> join
        inner [shape=component]; inner -> a -> near; inner -> b -> near; near [shape=tripleoctagon]; near -> join
        join [shape=tripleoctagon]; join -> exit; a [max_visits=1]; a -> a [condition=\"context.again\"]";
    let mut run = Run::from_statements(text);
    run.ends(
        "fan#1:inner/inner#1:a/a#1/1",
        Outcome::success().set("again", true),
    );
    assert_eq!(run.code(), "max_visits");
    let points = [false, true].map(|changed| point(&run, changed));
    assert_eq!(points, ["nowhere", "fan"]);

    let text = text
        .replace("a [max_visits=1]; ", "")
        .replace("[shape=component];", "[shape=component, error_policy=fail_fast];");
    let mut run = Run::from_statements(&text);
    run.fails("fan#1:inner/inner#1:a/a#1/1");
    assert_eq!(point(&run, false), "fan");
    retry(&mut run);
    assert_eq!(
        run.pending(),
        [
            "fan#2:inner/inner#2:a/a#2/1",
            "fan#2:inner/inner#2:b/b#2/1",
            "fan#2:c/c#2/1"
        ]
    );
}

#[test]
fn runs_that_were_ended_or_did_not_fail_are_not_retried() {
    let mut run = Run::from_statements("start -> a -> exit");
    run.on(Event::CancelRequested {
        reason: "enough".to_owned(),
    });
    assert_eq!(point(&run, true), "nowhere");
    let mut run = Run::from_statements("start -> a -> exit");
    let node = run.id("a#1/1").node;
    assert_eq!(
        run.on(Event::Retried {
            node,
            from_edges: false
        }),
        0
    );
    assert_eq!(run.pending(), ["a#1/1"]);
}
