//! Goal gates: no run ends successfully while one is unsatisfied (Attractor 3.4, rule R7).
use crate::support;

use orchestra_core::{Outcome, RunFailure};
use support::Run;

/// Runs a pipeline in which `gate` fails this many times. An edge handles the failure, so that the run reaches the exit
/// all the same.
fn failing(graph: &str, gate: &str, times: u32) -> Run {
    let statements = format!(
        r#"{graph}; failure_breaker=0; start -> plan -> gate; gate [goal_gate=true, {gate}]
           gate -> exit; gate -> note [condition="outcome=fail"]; note -> exit; mend -> gate; aside -> gate
           note -> mend [condition="context.never"]; note -> aside [condition="context.never"]"#
    );
    Run::to_end(&statements, |node, visit, _| match node {
        "gate" if visit <= times => Outcome::fail("untested"),
        _ => Outcome::success(),
    })
}

#[test]
fn a_satisfied_gate_lets_the_run_end() {
    let run = failing("", "retry_target=mend, fallback_retry_target=aside", 0);
    assert_eq!(
        (run.code(), run.path().as_str()),
        ("success", "start plan gate exit")
    );
}

#[test]
fn the_four_levels_of_targets_are_tried_in_order() {
    let graph = "retry_target=plan; fallback_retry_target=note";
    let gate = "retry_target=mend, fallback_retry_target=aside";
    for (graph, gate, target) in [
        (graph, gate, "mend"),
        (graph, "fallback_retry_target=aside", "aside"),
        (graph, "", "plan"),
        ("fallback_retry_target=plan", "", "plan"),
    ] {
        let run = failing(graph, gate, 1);
        let reported = format!("gate sends back to {target}");
        assert!(
            run.was_reported(&reported),
            "{graph} | {gate}: {:?}",
            run.reported()
        );
        assert_eq!(run.code(), "success", "{graph} | {gate}");
    }
}

#[test]
fn the_exit_is_entered_only_when_all_gates_are_satisfied() {
    let run = failing("", "retry_target=mend", 2);
    assert_eq!(run.path(), "start plan gate note mend gate note mend gate exit");
    assert_eq!(run.machine.state().totals.reroutes, 2);
}

#[test]
fn without_a_target_the_run_fails_and_names_the_gate() {
    let run = failing("", "", 1);
    let expected = RunFailure::GoalGate {
        node: "gate".to_owned(),
        outcome: "fail".to_owned(),
        reason: "untested".to_owned(),
        condition: None,
        limit: None,
    };
    assert_eq!(run.end(), Some(expected));
    assert!(run.failure().contains("goal gate `gate`"), "{}", run.failure());
}

#[test]
fn a_gate_sends_back_no_more_often_than_it_may() {
    for limit in [0, 1, 3] {
        let graph = format!("max_goal_gate_reroutes={limit}");
        let run = failing(&graph, "retry_target=mend", 99);
        assert_eq!(run.machine.state().totals.reroutes, limit);
        assert!(
            run.failure().contains(&format!("{limit} times")),
            "{}",
            run.failure()
        );
        assert_eq!(run.code(), "goal_gate");
    }
}

#[test]
fn partial_success_and_words_of_its_own_satisfy_a_gate() {
    for outcome in [
        Outcome::new(orchestra_core::Status::PartialSuccess),
        Outcome::custom("approved"),
    ] {
        let run = Run::to_end("start -> gate -> exit; gate [goal_gate=true]", |_, _, _| {
            outcome.clone()
        });
        assert_eq!(run.code(), "success", "{outcome:?}");
    }
    // A gate that was never visited, or only skipped, has no outcome that could be unsatisfied.
    let skipped = Outcome::new(orchestra_core::Status::Skipped);
    let run = Run::to_end("start -> gate -> exit; gate [goal_gate=true]", |_, _, _| {
        skipped.clone()
    });
    assert_eq!(run.code(), "success");
}

#[test]
fn the_latest_outcome_of_a_gate_counts() {
    let statements = r#"failure_breaker=0; start -> gate; gate [goal_gate=true, retry_target=gate]
        gate -> again [condition="context.again"]; again -> gate; gate -> exit; gate -> exit [condition="outcome=fail"]"#;
    let run = Run::to_end(statements, |node, visit, _| match (node, visit) {
        ("gate", 1) => Outcome::success().set("again", true),
        ("gate", 2) => Outcome::fail("broken since").set("again", false),
        _ => Outcome::success(),
    });
    assert_eq!(run.path(), "start gate again gate gate exit");
    assert!(run.was_reported("gate sends back to gate"));
}

#[test]
fn the_first_unsatisfied_gate_of_the_file_counts() {
    let statements = r#"on_failure=route; failure_breaker=0
        first [goal_gate=true, retry_target=first]; second [goal_gate=true, retry_target=second]
        start -> second -> first -> exit"#;
    let run = Run::to_end(statements, |_, visit, _| {
        if visit == 1 {
            Outcome::fail("no")
        } else {
            Outcome::success()
        }
    });
    let sent: Vec<String> = run
        .reported()
        .into_iter()
        .filter(|reported| reported.contains("sends"))
        .collect();
    assert_eq!(sent, ["first sends back to first", "second sends back to second"]);
    assert_eq!(run.path(), "start second first first second first exit");
}

#[test]
fn an_end_that_counts_as_a_success_asks_the_gates_too() {
    let statements = |target: &str| {
        format!(
            r#"failure_breaker=0; start -> gate; gate [goal_gate=true{target}]; gate -> exit
               gate -> done [condition="outcome=fail"]; done [end=success]"#
        )
    };
    let give = |node: &str, visit: u32, _: u32| match (node, visit) {
        ("gate", 1) => Outcome::fail("no"),
        _ => Outcome::success(),
    };
    let run = Run::to_end(&statements(", retry_target=gate"), give);
    assert_eq!(
        (run.code(), run.path().as_str()),
        ("success", "start gate done gate exit")
    );
    assert_eq!(Run::to_end(&statements(""), give).code(), "goal_gate");
    // An end that is marked as a failure stays one.
    let failed = statements(", retry_target=gate").replace("end=success", "end=fail");
    assert_eq!(Run::to_end(&failed, give).code(), "failure_end");
}

#[test]
fn a_gate_in_a_branch_counts_behind_the_join() {
    let statements = r#"start -> fan; fan [shape=component]; fan -> a -> join; fan -> gate -> join
        gate [goal_gate=true, retry_target=fan]; gate -> join [condition="outcome=fail"]
        join [shape=tripleoctagon]; join -> exit"#;
    let run = Run::to_end(statements, |node, visit, _| match (node, visit) {
        ("gate", 1) => Outcome::fail("no"),
        _ => Outcome::success(),
    });
    assert_eq!(run.path(), "start a gate fan join a gate fan join exit");
    assert!(run.was_reported("gate sends back to fan"), "{:?}", run.reported());
}

#[test]
fn a_gate_with_a_condition_is_satisfied_where_that_holds() {
    // The gate requires a failure; a success does not satisfy it.
    let statements = |gate: &str| {
        format!(
            r#"failure_breaker=0; start -> probe; probe [goal_gate="{gate}", retry_target=probe]
               probe -> note [condition="outcome=fail"]; probe -> note; note -> exit"#
        )
    };
    let give = |node: &str, visit: u32, _: u32| match (node, visit) {
        ("probe", 1) => Outcome::success().set("coverage", 60),
        ("probe", 2) => Outcome::fail("not there").set("coverage", 75),
        ("probe", _) => Outcome::success().set("coverage", 90),
        _ => Outcome::success(),
    };
    for (gate, path) in [
        ("outcome = fail", "start probe note probe note exit"),
        (
            "failure_reason contains there",
            "start probe note probe note exit",
        ),
        (
            "context.coverage >= 80",
            "start probe note probe note probe note exit",
        ),
        (
            "outcome=success && current_node=probe && last_stage=note",
            "start probe note exit",
        ),
    ] {
        let run = Run::to_end(&statements(gate), give);
        assert_eq!((run.code(), run.path().as_str()), ("success", path), "{gate}");
    }
}

#[test]
fn a_gate_with_a_condition_that_fails_the_run_says_what_it_saw() {
    let statements =
        r#"start -> probe -> exit; probe [goal_gate="outcome=success && context.coverage >= 80"]"#;
    let run = Run::to_end(statements, |_, _, _| Outcome::success().set("coverage", 75));
    assert_eq!(run.code(), "goal_gate");
    let said = "the goal gate `probe` is unsatisfied, `outcome=success && context.coverage >= 80` is false, \
                outcome is `success`, context.coverage is `75`; name a `retry_target`";
    assert!(run.failure().starts_with(said), "{}", run.failure());
}

#[test]
fn a_condition_on_the_exit_is_asked_of_the_stage_before_it() {
    let statements = r#"failure_breaker=0; start -> work -> exit; work -> exit [condition="outcome=fail"]
        exit [goal_gate="outcome = success", retry_target=work]"#;
    let run = Run::to_end(statements, |_, visit, _| match visit {
        1 => Outcome::fail("not yet"),
        _ => Outcome::success(),
    });
    assert_eq!(
        (run.code(), run.path().as_str()),
        ("success", "start work work exit")
    );
    assert!(
        run.was_reported("exit sends back to work"),
        "{:?}",
        run.reported()
    );
    // Another end that counts as a success does not pass the exit.
    let statements = r#"start -> work; work -> done [condition="context.done"]; work -> exit; done [end=success]
        exit [goal_gate="outcome = fail"]"#;
    let run = Run::to_end(statements, |_, _, _| Outcome::success().set("done", true));
    assert_eq!(run.code(), "success");
}
