//! Parallel blocks: every join and error policy, nesting, cancellation, and the stored results of branches (rules P1 to
//! P4).
use crate::support;

use std::time::Duration;

use orchestra_core::{Effect, Event, Outcome, Phase, RunFailure, Status};
use serde_json::{Value, json};
use support::Run;

/// Returns a run in a block of three branches.
fn three(attributes: &str) -> Run {
    joined(attributes, "join [shape=tripleoctagon]; join -> exit")
}

/// Returns the same run with the given join.
fn joined(attributes: &str, join: &str) -> Run {
    let statements = format!(
        "start -> fan; fan [shape=component, {attributes}]; fan -> a -> join; fan -> b -> join; fan -> c -> join; {join}"
    );
    Run::from_statements(&statements)
}

const A: &str = "fan#1:a/a#1/1";
const B: &str = "fan#1:b/b#1/1";
const C: &str = "fan#1:c/c#1/1";
const JOIN: &str = "join#1/1";

/// Returns the statuses of the three branches.
fn statuses(run: &Run) -> Vec<Value> {
    let status = |id: &str| run.value(&format!("parallel.branch.{id}.status"));
    ["a", "b", "c"].map(status).to_vec()
}

fn ids_of_results(run: &Run) -> Vec<String> {
    let results = run.value("parallel.results");
    let ids = results.as_array().unwrap().iter();
    ids.map(|result| result["id"].as_str().unwrap().to_owned())
        .collect()
}

// Join policies.

#[test]
fn wait_all_waits_for_all_and_succeeds_if_none_failed() {
    let mut run = three("join_policy=wait_all");
    run.succeeds(B).succeeds(A);
    assert_eq!(run.pending(), [C]);
    run.succeeds(C);
    assert_eq!(
        (run.word("fan").as_str(), run.pending()),
        ("success", vec![JOIN.to_owned()])
    );
    assert_eq!(run.value("parallel.success_count"), json!(3));
    assert_eq!(run.value("parallel.fail_count"), json!(0));
}

#[test]
fn wait_all_is_a_partial_success_where_some_failed() {
    let mut run = three("");
    run.fails(A).succeeds(B).succeeds(C);
    assert_eq!(
        (run.word("fan").as_str(), run.pending()),
        ("partial_success", vec![JOIN.to_owned()])
    );
    assert_eq!(statuses(&run), ["fail", "success", "success"]);
}

#[test]
fn where_all_failed_a_fan_in_fails_by_itself_and_any_other_join_needs_the_block_to_fail() {
    let mut run = three("");
    run.fails(A).fails(B).fails(C);
    assert_eq!(
        (run.word("fan").as_str(), run.pending()),
        ("partial_success", vec![JOIN.to_owned()])
    );
    let mut run = joined("", "join -> exit");
    run.fails(C).fails(A).fails(B);
    // The message names the first branch of the pipeline, whichever failed first.
    assert_eq!(
        run.failure(),
        "stage `fan` failed: all branches failed; branch `a`: stage `a` failed: broken"
    );
}

#[test]
fn k_of_n_succeeds_with_enough_and_fails_where_enough_is_out_of_reach() {
    let mut run = three("join_policy=k_of_n, join_k=2");
    run.succeeds(C).succeeds(A);
    assert_eq!(
        (run.word("fan").as_str(), statuses(&run)),
        (
            "success",
            vec![json!("success"), json!("cancelled"), json!("success")]
        )
    );
    assert!(run.was_reported("cancels fan#1:b/b#1/1") && run.was_reported("fan#1:b ends as cancelled"));
    let mut run = three("join_policy=k_of_n, join_k=2");
    run.fails(C).fails(A);
    assert_eq!(
        run.failure(),
        "stage `fan` failed: 0 of 3 branches succeeded, 2 must; branch `a`: stage `a` failed: broken"
    );
    assert!(run.was_reported("cancels fan#1:b/b#1/1"));
}

#[test]
fn first_success_cancels_the_others() {
    let mut run = three("join_policy=first_success");
    run.fails(A).succeeds(C);
    assert_eq!(
        (run.word("fan").as_str(), statuses(&run)),
        (
            "success",
            vec![json!("fail"), json!("cancelled"), json!("success")]
        )
    );
    let stopped = |effect: &&Effect| matches!(effect, Effect::CancelEffect { .. });
    assert_eq!(run.effects.iter().filter(stopped).count(), 1);
    let mut run = three("join_policy=first_success");
    run.fails(A).fails(B).fails(C);
    assert_eq!(run.code(), "stage_failed");
}

#[test]
fn a_quorum_is_a_fraction_of_the_branches_rounded_up() {
    let mut run = three("join_policy=quorum, join_quorum=0.5");
    run.succeeds(A);
    assert_eq!(run.word("fan"), "");
    run.succeeds(B);
    assert_eq!(run.word("fan"), "success");
    let mut run = three("join_policy=quorum, join_quorum=1");
    run.succeeds(A).succeeds(B).fails(C);
    assert_eq!(run.code(), "stage_failed");
    // 0.28 of 25 is 7, although the floating-point product is slightly more.
    let mut statements = "start -> fan; join [shape=tripleoctagon]; join -> exit
        fan [shape=component, max_parallel=25, join_policy=quorum, join_quorum=0.28]"
        .to_owned();
    (0..25).for_each(|nth| statements.push_str(&format!("; fan -> b{nth} -> join")));
    let mut run = Run::from_statements(&statements);
    (0..7).for_each(|nth| {
        run.succeeds(&format!("fan#1:b{nth}/b{nth}#1/1"));
    });
    assert_eq!(run.word("fan"), "success");
}

// Error policies.

#[test]
fn fail_fast_cancels_the_others_and_fails_with_the_first_reason() {
    let mut run = three("error_policy=fail_fast");
    run.succeeds(A).fails(C);
    assert_eq!(
        run.failure(),
        "stage `fan` failed: branch `c`: stage `c` failed: broken"
    );
    assert!(run.was_reported("cancels fan#1:b/b#1/1"));
    assert_eq!(statuses(&run), ["success", "cancelled", "fail"]);
    assert_eq!(ids_of_results(&run), ["a", "b", "c"]);
}

#[test]
fn continue_counts_failures_and_goes_on() {
    let mut run = three("error_policy=continue");
    run.fails(A);
    assert_eq!(run.pending(), [B, C]);
    run.succeeds(B).succeeds(C);
    assert_eq!(run.word("fan"), "partial_success");
    assert_eq!(ids_of_results(&run), ["a", "b", "c"]);
}

#[test]
fn ignore_leaves_failures_out() {
    let mut run = three("error_policy=ignore");
    run.fails(A).succeeds(B).fails(C);
    assert_eq!(
        (run.word("fan").as_str(), ids_of_results(&run)),
        ("success", vec!["b".to_owned()])
    );
    assert_eq!(run.value("parallel.fail_count"), json!(2));
    let mut run = joined("error_policy=ignore", "join -> exit");
    run.fails(A).fails(B).fails(C);
    assert_eq!(
        (run.word("fan").as_str(), run.value("parallel.results")),
        ("success", json!([]))
    );
}

// Start of branches.

#[test]
fn no_more_branches_run_than_may() {
    let mut run = three("max_parallel=2");
    assert_eq!(run.pending(), [A, B]);
    run.succeeds(B);
    assert_eq!(run.pending(), [A, C]);
    let mut run = three("max_parallel=1, join_policy=first_success");
    run.succeeds(A);
    // Branches that never began are cancelled without cancelling a stage.
    assert_eq!(statuses(&run), ["success", "cancelled", "cancelled"]);
    assert!(
        !run.reported()
            .iter()
            .any(|reported| reported.starts_with("cancels"))
    );
}

#[test]
fn branches_whose_condition_is_false_do_not_run() {
    let statements = r#"start -> plan -> fan; fan [shape=component]; fan -> a -> join
        fan -> b [condition="context.deep=true"]; b -> join; fan -> a [condition="context.twice=true"]
        join [shape=tripleoctagon]; join -> exit"#;
    let mut run = Run::from_statements(statements);
    run.ends("plan#1/1", Outcome::success().set("twice", true));
    // A second branch to the same node gets a distinct id, whichever of them runs.
    assert_eq!(run.pending(), [A, "fan#1:a~2/a#1/1"]);
    let never = statements.replace(
        "fan -> a -> join",
        r#"fan -> a [condition="context.never"]; a -> join"#,
    );
    let mut run = Run::from_statements(&never);
    run.ends("plan#1/1", Outcome::success().set("twice", true));
    assert_eq!(run.pending(), ["fan#1:a~2/a#1/1"]);
    run.succeeds("fan#1:a~2/a#1/1");
    assert_eq!(run.value("parallel.branch.a~2.status"), json!("success"));
    let mut run = Run::from_statements(&never);
    run.succeeds("plan#1/1");
    assert_eq!(
        run.failure(),
        "stage `fan` failed: the condition of every branch is false"
    );
}

#[test]
fn a_branch_without_a_stage_succeeds_whatever_was_before_the_block() {
    let statements = r#"start -> plan; plan -> fan [condition="outcome=fail"]; plan -> exit; fan [shape=component]
        fan -> join; fan -> gate -> join; gate [shape=diamond]; join [shape=tripleoctagon]; join -> exit"#;
    let mut run = Run::from_statements(statements);
    run.fails("plan#1/1");
    assert_eq!(run.value("parallel.branch.join.status"), json!("success"));
    assert_eq!(run.value("parallel.branch.gate.status"), json!("success"));
    assert_eq!(run.value("parallel.results")[1]["outcome"], json!("success"));
}

// Stored results.

#[test]
fn branches_see_the_context_before_the_block_and_their_own_changes() {
    let mut run = three("");
    let seen = |run: &Run, name: &str| {
        let effect = run.effects.iter().rev().find_map(|effect| match effect {
            Effect::RunNode { id, context } if id.name(run.machine.pipeline()) == name => {
                Some(context.clone())
            }
            _ => None,
        });
        effect.unwrap().get("size").cloned()
    };
    run.ends(A, Outcome::success().set("size", 1));
    assert_eq!((seen(&run, B), run.value("size")), (None, Value::Null));
    run.ends(B, Outcome::success().set("size", 2)).succeeds(C);
    assert_eq!(seen(&run, JOIN), None, "changes stay in the branch");
}

#[test]
fn results_tell_everything_of_a_branch() {
    let mut run = three("");
    let elapsed = Duration::from_millis(1_250);
    run.on(Event::Tick { elapsed });
    let good = Outcome::custom("approved")
        .notes("fine")
        .set("score", 0.5)
        .set("size", 3);
    run.ends(A, good)
        .fails(B)
        .ends(C, Outcome::new(Status::PartialSuccess));
    let results = run.value("parallel.results");
    assert_eq!(
        results,
        json!([
            {"id": "a", "status": "success", "outcome": "approved", "notes": "fine", "score": 0.5, "duration_ms": 1250,
             "context_updates": {"score": 0.5, "size": 3},
             "stages": [{"id": "a", "outcome": "approved", "record": "fan#1:a/a#1"}]},
            {"id": "b", "status": "fail", "outcome": "fail", "notes": "broken", "duration_ms": 1250,
             "failure_reason": "stage `b` failed: broken",
             "stages": [{"id": "b", "outcome": "fail", "record": "fan#1:b/b#1"}]},
            {"id": "c", "status": "partial_success", "outcome": "partial_success", "duration_ms": 1250,
             "stages": [{"id": "c", "outcome": "partial_success", "record": "fan#1:c/c#1"}]},
        ])
    );
}

#[test]
fn the_path_does_not_hang_on_the_order_in_which_branches_end() {
    let statements = "start -> fan; fan [shape=component]; fan -> a -> a2 -> join; fan -> b -> join
        join [shape=tripleoctagon]; join -> exit";
    const A2: &str = "fan#1:a/a2#1/1";
    let paths = [[A, A2, B], [A, B, A2], [B, A, A2]].map(|order| {
        let mut run = Run::from_statements(statements);
        order.iter().for_each(|name| {
            run.succeeds(name);
        });
        run.succeeds(JOIN).path()
    });
    assert_eq!(paths, ["start a a2 b fan join exit"; 3]);
}

#[test]
fn where_two_branches_run_one_node_its_failure_counts() {
    let statements = r#"start -> fan; fan [shape=component]; fan -> a -> test -> join; fan -> b -> test
        test -> join [condition="outcome=fail"]; join [shape=tripleoctagon]; join -> exit"#;
    for failing in ["a", "b"] {
        for first in ["a", "b"] {
            let mut run = Run::from_statements(statements);
            run.succeeds(A).succeeds(B);
            for branch in if first == "a" { ["a", "b"] } else { ["b", "a"] } {
                let outcome = if branch == failing {
                    Outcome::fail("no")
                } else {
                    Outcome::success()
                };
                run.ends(&format!("fan#1:{branch}/test#1/1"), outcome);
            }
            assert_eq!(run.word("test"), "fail", "{failing} fails, {first} ends first");
            let test = run.machine.pipeline().find("test").unwrap();
            assert_eq!(run.main().visits.get(test), 2);
        }
    }
}

#[test]
fn visits_and_errors_of_branches_are_added_up_in_the_order_of_the_edges() {
    let mut run = three("");
    run.ends(C, Outcome::fail("third"))
        .ends(A, Outcome::fail("first"))
        .succeeds(B);
    assert_eq!(run.value("error_history"), json!(["a: first", "c: third"]));
    let visits = |node: &str| run.main().visits.get(run.machine.pipeline().find(node).unwrap());
    assert_eq!([visits("fan"), visits("a"), visits("b"), visits("join")], [1; 4]);
}

// Nested blocks.

const NESTED: &str = "start -> fan; fan [shape=component]; fan -> inner; inner [shape=component]; inner -> x -> meet
    inner -> y -> meet; meet [shape=tripleoctagon]; meet -> join; fan -> b -> join; join [shape=tripleoctagon]; join -> exit";
const X: &str = "fan#1:inner/inner#1:x/x#1/1";
const Y: &str = "fan#1:inner/inner#1:y/y#1/1";

#[test]
fn blocks_nest_like_brackets() {
    let mut run = Run::from_statements(NESTED);
    assert_eq!(run.pending(), [X, Y, B]);
    run.succeeds(Y).succeeds(X);
    assert_eq!(run.pending(), ["fan#1:inner/meet#1/1", B]);
    run.succeeds("fan#1:inner/meet#1/1");
    assert_eq!(run.pending(), [B]);
    run.succeeds(B).succeeds(JOIN);
    assert_eq!(
        (run.code(), run.path().as_str()),
        ("success", "start x y inner meet b fan join exit")
    );
    // The results of the inner block are within the result of its branch.
    let results = run.value("parallel.results");
    assert_eq!(results[0]["context_updates"]["parallel.success_count"], json!(2));
    assert_eq!(run.value("parallel.branch.x.status"), Value::Null);
}

#[test]
fn a_cancelled_branch_cancels_the_blocks_within_it() {
    let mut run = Run::from_statements(&NESTED.replace(
        "fan [shape=component]",
        "fan [shape=component, join_policy=first_success]",
    ));
    run.succeeds(X).succeeds(B);
    let cancelled = |reported: &String| reported.starts_with("cancels");
    let reported: Vec<String> = run.reported().into_iter().filter(cancelled).collect();
    assert_eq!(
        reported,
        [
            "cancels fan#1:inner/inner#1:y/y#1/1",
            "cancels fan#1:inner/inner#1/1"
        ]
    );
    assert_eq!(run.value("parallel.branch.inner.status"), json!("cancelled"));
    // Stages that ended before the cancellation are preserved.
    assert_eq!((run.word("x").as_str(), run.word("y").as_str()), ("success", ""));
    assert!(run.path().starts_with("start x b fan"), "{}", run.path());
}

#[test]
fn blocks_may_share_a_fan_in() {
    let statements =
        "start -> fan; fan [shape=component]; fan -> inner; inner [shape=component]; inner -> x -> join
        inner -> y -> join; fan -> b -> join; join [shape=tripleoctagon]; join -> exit";
    let mut run = Run::from_statements(statements);
    run.succeeds(X).succeeds(Y);
    // The fan-in belongs to the outer block: it runs once, when the outer block has joined.
    assert_eq!(run.pending(), [B]);
    run.succeeds(B);
    assert_eq!(run.pending(), [JOIN]);
    assert_eq!(run.succeeds(JOIN).path(), "start x y inner b fan join exit");
}

// Failures, retries, limits.

#[test]
fn a_block_that_failed_is_run_again_as_a_whole() {
    let mut run = three("error_policy=fail_fast, max_retries=1, retry_jitter=false");
    run.ends(A, Outcome::success().set("n", 1)).fails(B);
    assert!(run.was_reported("waits 200 ms for fan#1/2"));
    assert_eq!(
        run.value("parallel.results"),
        Value::Null,
        "only the last attempt changes the context"
    );
    run.rings("fan#1/2");
    // The branches contain the attempt, and the visit count continues.
    assert_eq!(
        run.pending(),
        ["fan#1.2:a/a#2/1", "fan#1.2:b/b#2/1", "fan#1.2:c/c#2/1"]
    );
    for name in run.pending() {
        run.succeeds(&name);
    }
    assert_eq!(
        (run.word("fan").as_str(), run.pending()),
        ("success", vec![JOIN.to_owned()])
    );
    run.succeeds(JOIN);
    assert_eq!(run.path(), "start a b a b c fan join exit");
}

#[test]
fn what_a_graph_says_of_retries_does_not_count_for_blocks() {
    let statements = "default_max_retries=3; retry_policy=standard; start -> fan; fan [shape=component, error_policy=fail_fast]
        fan -> a -> join; a [max_retries=0]; fan -> b -> join; join [shape=tripleoctagon]; join -> exit";
    assert_eq!(Run::from_statements(statements).fails(A).code(), "stage_failed");
}

#[test]
fn the_failure_of_a_block_goes_to_a_routing_join_else_to_its_targets() {
    let fails = |attributes: &str, join: &str| {
        let mut run = joined(&format!("error_policy=fail_fast, {attributes}"), join);
        run.fails(A);
        run
    };
    let routing =
        r#"join [shape=diamond]; join -> exit [condition="outcome=success"]; join -> mend; mend -> exit"#;
    assert_eq!(fails("", routing).pending(), ["mend#1/1"]);
    assert_eq!(fails("retry_target=mend", routing).pending(), ["mend#1/1"]);
    let plain = r#"join -> exit; join -> mend [condition="context.never"]; mend -> exit"#;
    assert_eq!(fails("retry_target=mend", plain).pending(), ["mend#1/1"]);
    assert_eq!(fails("fallback_retry_target=mend", plain).pending(), ["mend#1/1"]);
    assert_eq!(fails("on_failure=route", plain).pending(), [JOIN]);
    assert_eq!(fails("", plain).code(), "stage_failed");
}

#[test]
fn bounds_hold_within_branches_and_end_the_run() {
    let statements =
        "failure_breaker=0; start -> fan; fan [shape=component, error_policy=ignore]; fan -> a -> join
        fan -> b -> b; b -> join [weight=-1]; b [max_visits=2]; join [shape=tripleoctagon]; join -> exit";
    let mut run = Run::from_statements(statements);
    run.succeeds(B).succeeds("fan#1:b/b#2/1");
    let limit = RunFailure::MaxVisits {
        node: "b".to_owned(),
        limit: 2,
        attribute: "max_visits".to_owned(),
    };
    assert_eq!(run.end(), Some(limit));
    assert!(run.was_reported("cancels fan#1:a/a#1/1") && run.was_reported("cancels fan#1/1"));
    let breaking = statements
        .replace("failure_breaker=0", "failure_breaker=2")
        .replace("max_visits=2", "retry_target=b");
    let mut run = Run::from_statements(&breaking);
    run.fails(B).fails("fan#1:b/b#2/1");
    assert_eq!(run.code(), "failure_breaker");
}

#[test]
fn visits_before_the_block_count_in_its_branches() {
    let statements = "start -> a -> fan; fan [shape=component]; fan -> a; fan -> b -> join; a -> join [condition=\"context.in=true\"]
        a [max_visits=2]; join [shape=tripleoctagon]; join -> exit";
    let mut run = Run::from_statements(statements);
    run.succeeds("a#1/1");
    assert_eq!(run.pending(), ["fan#1:a/a#2/1", B]);
}

#[test]
fn a_branch_that_leads_back_to_its_fan_out_fails_with_the_reason() {
    let mut run = joined(
        "",
        "join [shape=tripleoctagon]; join -> exit; a -> fan [condition=\"outcome=fail\"]",
    );
    run.fails(A).succeeds(B).succeeds(C);
    let reason = "the branch leads back from `a` to its own fan-out `fan`; a branch ends at the join";
    assert_eq!(run.value("parallel.results")[0]["failure_reason"], json!(reason));
    assert_eq!(run.word("fan"), "partial_success");
}

#[test]
fn a_branch_may_end_at_the_exit_or_at_an_end_of_its_own() {
    let join = r#"join [shape=tripleoctagon]; join -> exit; a -> exit [condition="outcome=success"]
        b -> done [condition="outcome=success"]; done [end=success]; c -> lost [condition="outcome=success"]; lost [end=fail]"#;
    let mut run = joined("", join);
    run.succeeds(A).succeeds(B).succeeds(C);
    run.succeeds("fan#1:b/done#1/1").succeeds("fan#1:c/lost#1/1");
    assert_eq!(statuses(&run), ["success", "success", "fail"]);
    assert_eq!(run.succeeds(JOIN).code(), "success");
}

#[test]
fn a_branch_that_fails_by_its_last_stage_alone_fails_even_if_an_edge_takes_it() {
    let mut run = joined(
        "",
        r#"join [shape=tripleoctagon]; join -> exit; a -> join [condition="outcome=fail"]"#,
    );
    run.fails(A).succeeds(B).succeeds(C);
    assert_eq!(statuses(&run), ["fail", "success", "success"]);
    assert_eq!(
        run.value("parallel.results")[0]["failure_reason"],
        json!("broken")
    );
}

#[test]
fn a_restart_from_a_branch_cancels_the_others() {
    let join = r#"join [shape=tripleoctagon]; join -> exit; a -> plan [condition="context.again", loop_restart=true]; plan -> fan
        restart_keep=size"#;
    let mut run = joined("", join);
    run.ends(A, Outcome::success().set("again", true).set("size", 4));
    let reported = run.reported();
    let order = [
        "cancels fan#1:b/b#1/1",
        "cancels fan#1:c/c#1/1",
        "cancels fan#1/1",
        "restarts, 1",
    ];
    let slots = order.map(|one| reported.iter().position(|reported| reported == one).unwrap());
    assert!(slots.is_sorted(), "{reported:?}");
    // The context is that of the branch, reduced to the preserved keys.
    assert_eq!(
        (run.pending(), run.value("size")),
        (vec!["restart-1/plan#1/1".to_owned()], json!(4))
    );
    run.succeeds("restart-1/plan#1/1");
    assert_eq!(run.pending().len(), 3);
    assert_eq!(run.pending()[0], "restart-1/fan#1:a/a#1/1");
}

#[test]
fn an_event_of_a_branch_that_was_cancelled_changes_nothing() {
    let mut run = three("join_policy=first_success");
    let late = run.id(B);
    run.succeeds(A);
    let outcome = Outcome::success();
    assert_eq!(run.on(Event::NodeFinished { id: late, outcome }), 0);
    assert_eq!(run.pending(), [JOIN]);
}

#[test]
fn a_block_whose_time_is_up_fails_and_cancels_its_branches() {
    let mut run = three("timeout=2s");
    assert_eq!(run.pending()[0], "fan#1/1", "its timer is waited for");
    run.succeeds(A).rings("fan#1/1");
    assert_eq!(run.failure(), "stage `fan` failed: timed out after 2s");
    assert_eq!(statuses(&run), ["success", "cancelled", "cancelled"]);
    // A block that ends in time cancels its timer; a block without a time-out ignores timer events.
    let mut run = three("timeout=2s");
    let timer = run.id("fan#1/1");
    run.succeeds(A).succeeds(B).succeeds(C);
    assert!(
        run.effects
            .iter()
            .any(|effect| matches!(effect, Effect::CancelEffect { id } if *id == timer))
    );
    assert_eq!(run.on(Event::TimerFired { id: timer }), 0);
    let mut run = three("");
    let mut id = run.id(A);
    id.branch = Default::default();
    id.node = run.machine.pipeline().find("fan").unwrap();
    assert_eq!(run.on(Event::TimerFired { id }), 0);
    assert!(matches!(run.main().phase, Phase::Parallel(_)));
}
