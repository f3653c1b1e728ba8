//! Attempts at a stage (rules Y1 to Y5, Y7).
use crate::support;

use std::time::Duration;

use orchestra_core::{FailureCategory, Outcome, Status};
use serde_json::json;
use support::Run;

/// Runs a stage that fails this many times and then succeeds.
fn failing(attributes: &str, times: u32) -> Run {
    let statements = format!("start -> work -> exit; work [{attributes}]");
    Run::to_end(&statements, |_, _, attempt| {
        if attempt <= times {
            Outcome::fail(format!("no {attempt}"))
        } else {
            Outcome::success()
        }
    })
}

fn attempts(run: &Run) -> usize {
    run.reported()
        .iter()
        .filter(|reported| reported.starts_with("starts work"))
        .count()
}

#[test]
fn a_failure_is_tried_again_as_often_as_the_node_says() {
    for (retries, failures, expected) in [
        (0, 1, (1, "stage_failed")),
        (2, 2, (3, "success")),
        (2, 9, (3, "stage_failed")),
    ] {
        let run = failing(&format!("max_retries={retries}"), failures);
        assert_eq!((attempts(&run), run.code()), expected, "{retries} {failures}");
    }
}

#[test]
fn the_nearest_word_on_attempts_counts() {
    let counted = |graph: &str, node: &str| {
        let statements = format!("{graph}; failure_breaker=0; start -> work -> exit; work [{node}]");
        attempts(&Run::to_end(&statements, |_, _, _| Outcome::fail("never")))
    };
    for (graph, node, expected) in [
        ("", "", 1),
        ("retry_policy=linear", "", 3),
        ("retry_policy=linear; default_max_retries=4", "", 5),
        (
            "retry_policy=linear; default_max_retries=4",
            "retry_policy=patient",
            3,
        ),
        (
            "retry_policy=linear; default_max_retries=4",
            "retry_policy=none",
            1,
        ),
        (
            "retry_policy=linear; default_max_retries=4",
            "retry_policy=patient, max_retries=1",
            2,
        ),
        ("default_max_retry=2", "", 3),
        ("default_max_retries=2", "max_retries=0", 1),
        ("", "backoff_policy=standard", 5),
        ("", "retry_policy=aggressive", 5),
    ] {
        assert_eq!(counted(graph, node), expected, "{graph} | {node}");
    }
}

#[test]
fn delays_grow_as_the_policy_says_and_values_stand_over_it() {
    let delays = |attributes: &str| -> Vec<u128> {
        let run = failing(&format!("retry_jitter=false, max_retries=4, {attributes}"), 9);
        run.delays().iter().map(Duration::as_millis).collect()
    };
    assert_eq!(delays(""), [200, 400, 800, 1_600]);
    assert_eq!(delays("retry_policy=standard"), [200, 400, 800, 1_600]);
    assert_eq!(delays("retry_policy=aggressive"), [500, 1_000, 2_000, 4_000]);
    assert_eq!(delays("retry_policy=linear"), [500; 4]);
    assert_eq!(delays("retry_policy=patient"), [2_000, 6_000, 18_000, 54_000]);
    assert_eq!(delays("retry_policy=none"), [0; 4]);
    assert_eq!(
        delays("retry_policy=patient, retry_max_delay=10s"),
        [2_000, 6_000, 10_000, 10_000]
    );
    assert_eq!(
        delays("retry_initial_delay=15ms, retry_backoff_factor=1.5"),
        [15, 23, 34, 51]
    );
    assert_eq!(delays("retry_backoff_factor=0"), [200, 0, 0, 0]);
}

#[test]
fn jitter_keeps_within_half_and_hangs_on_the_seed_alone() {
    let run = || failing("max_retries=4, retry_policy=linear", 9).delays();
    let delays = run();
    assert_eq!(delays, run());
    assert!(
        delays
            .iter()
            .all(|delay| (250..=750).contains(&delay.as_millis())),
        "{delays:?}"
    );
    assert!(delays.iter().any(|delay| *delay != delays[0]), "{delays:?}");
}

#[test]
fn a_servers_wish_to_be_left_alone_overrides_the_delay_up_to_a_minute() {
    let wish = |seconds| {
        let run = Run::to_end(
            "start -> work -> exit; work [max_retries=1]",
            |_, _, attempt| match attempt {
                1 => Outcome::fail("too many requests").retry_after(Duration::from_secs(seconds)),
                _ => Outcome::success(),
            },
        );
        run.delays()
    };
    assert_eq!(wish(0), [Duration::ZERO]);
    assert_eq!(wish(7), [Duration::from_secs(7)]);
    assert_eq!(wish(86_400), [Duration::from_secs(60)]);
}

#[test]
fn terminal_failures_are_neither_tried_again_nor_made_partial() {
    for status in [Status::Fail, Status::Retry] {
        let run = Run::to_end(
            "start -> work -> exit; work [max_retries=3, allow_partial=true]",
            |_, _, _| {
                let mut outcome = Outcome::new(status.clone());
                outcome.failure_reason = Some("no key".to_owned());
                outcome.failure_category = FailureCategory::Terminal;
                outcome
            },
        );
        assert_eq!(
            (attempts(&run), run.failure().as_str()),
            (1, "stage `work` failed: no key")
        );
        assert_eq!(run.word("work"), "fail");
    }
}

#[test]
fn allow_partial_takes_what_exhausted_attempts_leave() {
    let word = |attributes: &str, outcome: fn() -> Outcome| {
        let statements = format!("start -> work -> exit; work [allow_partial=true, {attributes}]");
        let run = Run::to_end(&statements, |_, _, _| outcome());
        (run.word("work"), run.code())
    };
    let retry = || Outcome::retry("half of it");
    let fail = || Outcome::fail("half of it");
    let partial = ("partial_success".to_owned(), "success");
    assert_eq!(word("max_retries=0", retry), partial);
    assert_eq!(word("max_retries=2", retry), partial);
    assert_eq!(word("max_retries=2", fail), partial);
    // A plain failure stays a failure if there were no attempts to exhaust.
    assert_eq!(word("max_retries=0", fail), ("fail".to_owned(), "stage_failed"));
}

#[test]
fn a_wish_for_a_retry_with_none_left_is_a_failure_with_its_reason() {
    let run = Run::to_end("start -> work -> exit; work [max_retries=1]", |_, _, _| {
        Outcome::retry("not yet")
    });
    assert_eq!(
        (attempts(&run), run.failure().as_str()),
        (2, "stage `work` failed: not yet")
    );
    let run = Run::to_end("start -> work -> exit", |_, _, _| Outcome::new(Status::Retry));
    assert_eq!(
        run.failure(),
        "stage `work` failed: the stage asked for a retry, but none is left"
    );
}

#[test]
fn only_the_last_attempt_changes_the_context() {
    let run = Run::to_end("start -> work -> exit; work [max_retries=2]", |_, _, attempt| {
        let outcome = if attempt < 3 {
            Outcome::fail("busy")
        } else {
            Outcome::success()
        };
        outcome.set(format!("of_{attempt}"), attempt).set("last", attempt)
    });
    let values = ["of_1", "of_2", "of_3", "last"].map(|key| run.value(key));
    assert_eq!(values, [json!(null), json!(null), json!(3), json!(3)]);
}

#[test]
fn every_failed_attempt_is_in_the_history_in_order() {
    let statements = "start -> a -> b -> exit; a [max_retries=2]; b [max_retries=1, retry_target=a]";
    let run = Run::to_end(statements, |node, visit, attempt| match (node, visit, attempt) {
        ("a", 1, 1 | 2) | ("b", 1, _) => Outcome::fail(format!("no {visit}.{attempt}")),
        ("a", 2, 1) => Outcome::fail(""),
        _ => Outcome::success(),
    });
    assert_eq!(run.code(), "success");
    let history = [
        "a: no 1.1",
        "a: no 1.2",
        "b: no 1.1",
        "b: no 1.2",
        "a: no reason was given",
    ];
    assert_eq!(run.value("error_history"), json!(history));
    let errors = run.main().errors.iter().map(|error| (error.visit, error.attempt));
    assert_eq!(
        errors.collect::<Vec<_>>(),
        [(1, 1), (1, 2), (1, 1), (1, 2), (2, 1)]
    );
}

#[test]
fn the_count_of_retries_is_there_while_retrying_and_gone_after_a_success() {
    let mut run = Run::from_statements("start -> work -> exit; work [max_retries=1, retry_target=work]");
    let count = |run: &Run| run.value("internal.retry_count.work");
    assert_eq!(count(&run), json!(null));
    run.fails("work#1/1");
    assert_eq!(count(&run), json!(1));
    run.rings("work#1/2").fails("work#1/2");
    // The counter of the first visit is removed although the second visit succeeds at once.
    assert_eq!(
        (run.pending(), count(&run)),
        (vec!["work#2/1".to_owned()], json!(1))
    );
    run.succeeds("work#2/1");
    assert_eq!((run.code(), count(&run)), ("success", json!(null)));
}

#[test]
fn the_last_outcome_routes() {
    let statements = r#"start -> work; work [max_retries=1]; work -> mend [condition="outcome=fail"]; work -> exit
        mend -> exit"#;
    let run = Run::to_end(statements, |node, _, _| match node {
        "work" => Outcome::retry("never"),
        _ => Outcome::success(),
    });
    assert_eq!(run.path(), "start work mend exit");
}

#[test]
fn routing_nodes_and_the_ends_are_not_tried_again() {
    let statements = r#"default_max_retries=3; start -> a -> d; d [shape=diamond]; d -> exit [condition="outcome=success"]"#;
    let run = Run::to_end(statements, |_, _, _| Outcome::fail_terminal("no"));
    assert_eq!(
        run.reported()
            .iter()
            .filter(|reported| reported.starts_with("starts"))
            .count(),
        3
    );
    assert_eq!(run.failure(), "stage `a` failed: no");
}

#[test]
fn a_timer_is_waited_for_once() {
    let mut run = Run::from_statements("start -> work -> exit; work [max_retries=1]");
    run.fails("work#1/1");
    let id = run.id("work#1/2");
    let late = orchestra_core::Event::NodeFinished {
        id: id.clone(),
        outcome: Outcome::success(),
    };
    assert_eq!(run.on(late), 0, "the stage waits and does not run");
    run.rings("work#1/2");
    assert_eq!(run.on(orchestra_core::Event::TimerFired { id }), 0, "it runs");
    assert_eq!(run.succeeds("work#1/2").code(), "success");
}
