//! The machine as a whole: observations, ignored events, ends and restarts (rules R6, R9, R10).
use crate::support;

use std::time::Duration;

use orchestra_core::{Context, Effect, Event, Machine, Outcome, Phase, RunFailure};
use orchestra_graph::{NodeIndex, Pipeline};
use serde_json::json;
use support::{Run, pipeline};

const LOOP: &str = r#"start -> work -> gate; gate [shape=diamond]
    gate -> exit [condition="outcome=success && context.tries=2"]; gate -> work"#;

#[test]
fn a_run_is_the_same_whether_or_not_it_is_observed() {
    let run = |observed: bool| {
        let mut effects = Vec::new();
        let mut machine = Machine::prepare(pipeline(LOOP), Context::new(), 7);
        machine.observe(observed);
        machine.begin(&mut effects);
        let mut others = Vec::new();
        loop {
            for effect in effects.drain(..) {
                match effect {
                    Effect::Observe(_) => assert!(observed, "nobody wants observations"),
                    other => others.push(format!("{other:?}")),
                }
            }
            let Some(id) = machine.pending().pop() else {
                return (machine.into_state(), others);
            };
            let outcome = Outcome::success().set("tries", id.visit).notes("done");
            machine.on(Event::NodeFinished { id, outcome }, &mut effects);
        }
    };
    let seen = run(true);
    assert_eq!(seen, run(false));
    let (state, others) = seen;
    assert_eq!(others.last().unwrap(), "Finish { failure: None }");
    let visits: Vec<u32> = (0..4)
        .map(|node| state.main.visits.get(NodeIndex(node)))
        .collect();
    assert_eq!(visits, [1, 2, 2, 1]);
}

#[test]
fn the_engines_own_keys_win_over_a_stages() {
    let own = || {
        Outcome::success()
            .set("outcome", "mine")
            .set("last_stage", "mine")
            .set("current_node", "mine")
            .set("preferred_label", "mine")
    };
    let run = Run::to_end("start -> work -> exit", |_, _, _| own());
    assert_eq!(run.code(), "success");
    let keys = ["outcome", "last_stage", "current_node", "preferred_label"];
    let values = keys.map(|key| run.value(key));
    assert_eq!(
        values,
        [json!("success"), json!("exit"), json!("exit"), json!("")]
    );
}

#[test]
fn a_table_that_leads_nowhere_ends_the_run_and_does_not_panic() {
    let mut table = Pipeline::clone(&pipeline("start -> exit"));
    table.start = NodeIndex(9);
    let mut effects = Vec::new();
    Machine::start(table, Context::new(), 0, &mut effects);
    let Some(Effect::Finish {
        failure: Some(failure),
    }) = effects.last()
    else {
        panic!("{effects:?}")
    };
    assert_eq!(failure.code(), "invalid_transition");
}

#[test]
fn time_up_ends_the_run_and_a_late_answer_changes_nothing() {
    let mut run = Run::from_statements("start -> work -> exit");
    let id = run.id("work#1/1");
    let limit = Duration::from_secs(300);
    run.on(Event::TimeUp { limit });
    assert!(run.was_reported("cancels work#1/1"));
    assert!(
        run.effects
            .iter()
            .any(|effect| matches!(effect, Effect::CancelEffect { id: stopped } if *stopped == id))
    );
    assert_eq!(run.failure(), "the run took longer than its limit of 5m");
    let outcome = Outcome::success();
    assert_eq!(run.on(Event::NodeFinished { id, outcome }), 0);
    assert_eq!(run.on(Event::TimeUp { limit }), 0);
}

#[test]
fn a_stage_that_is_finished_twice_is_finished_once() {
    let mut run = Run::from_statements("start -> a -> b -> exit");
    let id = run.id("a#1/1");
    let finished = |outcome| Event::NodeFinished {
        id: id.clone(),
        outcome,
    };
    assert!(run.on(finished(Outcome::success())) > 0);
    assert_eq!(run.on(finished(Outcome::fail("late"))), 0);
    assert_eq!(
        (run.pending(), run.word("a")),
        (vec!["b#1/1".to_owned()], "success".to_owned())
    );
}

#[test]
fn no_outcome_ends_the_run_where_its_failure_is_routed() {
    let mut run = Run::from_statements("start -> a -> b -> exit; a [max_retries=3, on_failure=route]");
    let said = r#"{"outcome": "fail", "failure_category": "pipeline", "failure_code": "over_budget"}"#;
    run.ends("a#1/1", serde_json::from_str(said).unwrap());
    assert_eq!(run.pending(), ["b#1/1"]);
}

#[test]
fn a_restart_keeps_the_named_keys_alone_and_counts_anew() {
    let statements = r#"goal=ship; restart_keep="kept, also"; max_restarts=2
        start -> plan -> build; build -> plan [condition="context.again", loop_restart=true]; build -> exit
        build [max_visits=1]"#;
    let mut run = Run::from_statements(statements);
    run.ends("plan#1/1", Outcome::success().set("kept", 1).set("dropped", 2));
    run.ends("build#1/1", Outcome::success().set("also", 3).set("again", true));
    // Only effects of the restarted run are pending.
    assert_eq!(run.pending(), ["restart-1/plan#1/1"]);
    let context: Vec<&str> = run.main().context.iter().map(|(key, _)| key).collect();
    assert_eq!(
        context,
        [
            "also",
            "current_node",
            "graph.goal",
            "graph.max_restarts",
            "graph.restart_keep",
            "kept"
        ]
    );
    run.succeeds("restart-1/plan#1/1").succeeds("restart-1/build#1/1");
    assert_eq!((run.code(), run.path().as_str()), ("success", "plan build exit"));
    assert_eq!(run.machine.state().totals.restarts, 1);
    // The edge of the start, and the edges before and after the restart.
    assert_eq!(run.machine.state().totals.taken, [1, 2, 1, 1]);
}

#[test]
fn a_run_is_restarted_no_more_often_than_it_may() {
    let statements = "max_restarts=2; start -> a; a -> a [loop_restart=true]; a -> exit [weight=-1]";
    let run = Run::to_end(statements, |_, _, _| Outcome::success());
    assert_eq!(
        run.failure(),
        "the edge `a` -> `a` would restart the run once more than its 2 times (`max_restarts`)"
    );
    assert_eq!(
        run.reported()
            .iter()
            .filter(|reported| reported.starts_with("restarts"))
            .count(),
        2
    );
    let never = Run::to_end(&statements.replace("=2", "=0"), |_, _, _| Outcome::success());
    assert_eq!(never.code(), "max_restarts");
}

#[test]
fn a_loop_in_which_nothing_works_or_waits_ends() {
    for statements in [
        "max_node_visits=2000000000; start -> a -> b; b -> a; b -> exit [weight=-1]; a [shape=diamond]; b [shape=diamond]",
        "max_restarts=2000000000; start -> a; a -> a [loop_restart=true]; a -> exit [weight=-1]; a [shape=diamond]",
    ] {
        let run = Run::to_end(statements, |_, _, _| Outcome::success());
        assert_eq!(run.code(), "busy_loop", "{statements}");
    }
    // A stage that works between them makes the loop an ordinary one, with its own limit.
    let statements = "max_node_visits=200; start -> a -> b -> a; b -> exit [weight=-1]; b [shape=diamond]";
    let run = Run::to_end(statements, |_, _, _| Outcome::success());
    assert_eq!(run.code(), "max_visits");
}

#[test]
fn an_event_of_another_life_changes_nothing() {
    let mut run = Run::from_statements(
        "start -> a; a -> a [loop_restart=true, condition=\"context.again\"]; a -> exit",
    );
    let first = run.id("a#1/1");
    run.ends("a#1/1", Outcome::success().set("again", true));
    let outcome = Outcome::success();
    assert_eq!(
        run.on(Event::NodeFinished {
            id: first,
            outcome: outcome.clone()
        }),
        0
    );
    let mut later = run.id("restart-1/a#1/1");
    later.restart = 2;
    assert_eq!(run.on(Event::NodeFinished { id: later, outcome }), 0);
    assert_eq!(run.succeeds("restart-1/a#1/1").code(), "success");
}

#[test]
fn a_cancelled_run_says_why_and_waits_for_nothing() {
    let mut run = Run::from_statements("start -> a -> exit");
    let reason = "a new version".to_owned();
    run.on(Event::CancelRequested { reason });
    assert_eq!(run.failure(), "the run was cancelled: a new version");
    assert_eq!((run.pending().len(), &run.main().phase), (0, &Phase::Idle));
}

#[test]
fn visits_are_bounded_over_all_attempts_and_reroutes() {
    let run = Run::to_end(
        "start -> a -> b -> a; a [max_visits=3]; b -> exit [weight=-1]",
        |_, _, _| Outcome::success(),
    );
    let limit = RunFailure::MaxVisits {
        node: "a".to_owned(),
        limit: 3,
        attribute: "max_visits".to_owned(),
    };
    assert_eq!(run.end(), Some(limit));
    // Retries do not count as visits.
    let run = Run::to_end(
        "start -> a -> exit; a [max_visits=1, max_retries=4]",
        |_, _, attempt| {
            if attempt < 5 {
                Outcome::fail("busy")
            } else {
                Outcome::success()
            }
        },
    );
    assert_eq!(run.code(), "success");
}
