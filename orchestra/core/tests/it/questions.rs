//! Human gates: of all events that concern a question, exactly one takes effect (rules H2, H3).
use crate::support;

use orchestra_core::{Answer, AnsweredBy, Effect, Event, Outcome};
use serde_json::json;
use support::Run;

/// Returns a run at a gate: approve leads to the exit, reject to `mend`.
fn gate(attributes: &str) -> Run {
    let statements = format!(
        r#"start -> ask; ask [shape=hexagon, {attributes}]; ask -> exit [label="[A] Approve"]
           ask -> mend [label="[R] Reject"]; mend -> exit"#
    );
    Run::from_statements(&statements)
}

const TIMED: &str = "timeout=30s";
const DEFAULT: &str = r#"timeout=30s, "human.default_choice"=R"#;

fn timers_stopped(run: &Run) -> usize {
    let stopped = |effect: &&Effect| matches!(effect, Effect::CancelEffect { .. });
    run.effects.iter().filter(stopped).count()
}

#[test]
fn an_answer_routes_and_stops_the_clock() {
    let mut run = gate(TIMED);
    assert!(run.answers("ask#1/1", Answer::choice("r")));
    assert_eq!(
        (run.pending(), timers_stopped(&run)),
        (vec!["mend#1/1".to_owned()], 1)
    );
    assert_eq!(run.value("human.gate.selected"), json!("R"));
    assert_eq!(run.value("human.gate.label"), json!("[R] Reject"));
    assert_eq!(run.value("preferred_label"), json!("[R] Reject"));
    assert_eq!(run.succeeds("mend#1/1").path(), "start ask mend exit");
}

#[test]
fn of_two_answers_the_first_counts() {
    let mut run = gate("");
    let id = run.id("ask#1/1");
    assert!(run.answers("ask#1/1", Answer::choice("R")));
    let answer = Answer::choice("A");
    assert_eq!(run.on(Event::Answered { id, answer }), 0);
    assert_eq!(run.pending(), ["mend#1/1"]);
}

#[test]
fn an_answer_after_the_time_out_changes_nothing() {
    let mut run = gate(DEFAULT);
    let id = run.id("ask#1/1");
    run.rings("ask#1/1");
    let answer = Answer::choice("A");
    assert_eq!(run.on(Event::Answered { id, answer }), 0);
    assert_eq!(run.value("human.gate.answered_by"), json!("default"));
    assert_eq!(run.succeeds("mend#1/1").path(), "start ask mend exit");
}

#[test]
fn a_time_out_after_the_answer_changes_nothing() {
    let mut run = gate(DEFAULT);
    let id = run.id("ask#1/1");
    assert!(run.answers("ask#1/1", Answer::choice("A")));
    assert_eq!(run.on(Event::TimerFired { id }), 0);
    assert_eq!((run.code(), run.path().as_str()), ("success", "start ask exit"));
    assert_eq!(run.value("human.gate.answered_by"), json!("person"));
}

#[test]
fn an_answer_while_another_attempt_is_waited_for_changes_nothing() {
    let mut run = gate("timeout=30s, max_retries=1, retry_jitter=false");
    let id = run.id("ask#1/1");
    run.rings("ask#1/1");
    assert!(run.was_reported("waits 200 ms for ask#1/2"));
    let answer = Answer::choice("A");
    assert_eq!(
        run.on(Event::Answered {
            id,
            answer: answer.clone()
        }),
        0
    );
    let id = run.id("ask#1/2");
    assert_eq!(
        run.on(Event::Answered {
            id,
            answer: answer.clone()
        }),
        0,
        "it is not asked yet"
    );
    run.rings("ask#1/2");
    assert!(run.answers("ask#1/2", answer));
    assert_eq!(run.path(), "start ask exit");
}

#[test]
fn silence_never_approves() {
    // Each of these attributes would let a stage of another kind continue.
    for attributes in [
        "timeout=30s",
        "timeout=30s, allow_partial=true",
        "timeout=30s, max_retries=1, allow_partial=true",
        "timeout=30s, on_failure=route",
    ] {
        let mut run = gate(attributes);
        while let Some(name) = run.pending().first().cloned() {
            run.rings(&name);
        }
        assert_eq!(
            (run.code(), run.word("ask").as_str()),
            ("stage_failed", "fail"),
            "{attributes}"
        );
        assert!(
            run.failure().contains("nobody answered in time"),
            "{}",
            run.failure()
        );
    }
}

#[test]
fn a_question_without_a_time_waits_for_ever() {
    let mut run = gate("");
    let id = run.id("ask#1/1");
    assert_eq!(run.on(Event::TimerFired { id }), 0, "nobody started a timer");
    assert!(
        !run.effects
            .iter()
            .any(|effect| matches!(effect, Effect::StartTimer { .. }))
    );
    assert!(run.answers("ask#1/1", Answer::choice("approve")));
}

#[test]
fn who_skips_the_question_fails_the_gate_for_good() {
    let mut run = gate("timeout=30s, max_retries=3, allow_partial=true");
    assert!(run.answers("ask#1/1", Answer::skipped()));
    assert_eq!(
        run.failure(),
        "stage `ask` failed: the person skipped the question"
    );
    assert_eq!(timers_stopped(&run), 1);
}

#[test]
fn an_answer_that_matches_no_choice_leaves_the_question_open() {
    let mut run = gate(TIMED);
    for nonsense in ["", "x", "AR", "approve it"] {
        assert!(!run.answers("ask#1/1", Answer::choice(nonsense)), "{nonsense}");
    }
    assert_eq!(
        (run.pending(), run.machine.questions().len()),
        (vec!["ask#1/1".to_owned()], 1)
    );
    assert!(run.answers("ask#1/1", Answer::choice("exit")));
}

#[test]
fn where_nobody_can_be_asked_the_run_waits_for_a_person() {
    let mut run = gate(TIMED);
    let id = run.id("ask#1/1");
    let reason = "no terminal".to_owned();
    run.on(Event::Unanswerable { id, reason });
    assert_eq!(
        (run.code(), run.failure().as_str()),
        (
            "waits_for_human",
            "the gate `ask` waits for a person: no terminal"
        )
    );
    assert_eq!((timers_stopped(&run), run.pending().len()), (1, 0));
}

#[test]
fn a_question_that_cannot_be_put_fails_its_gate_and_nothing_else_ends_it() {
    let mut run = gate(TIMED);
    let id = run.id("ask#1/1");
    let ended = |outcome| Event::NodeFinished {
        id: id.clone(),
        outcome,
    };
    assert_eq!(
        run.on(ended(Outcome::success())),
        0,
        "no stage can answer for a person"
    );
    assert!(run.on(ended(Outcome::fail("the console is gone"))) > 0);
    assert_eq!(
        (run.failure().as_str(), timers_stopped(&run)),
        ("stage `ask` failed: the console is gone", 1)
    );
}

#[test]
fn who_answered_is_always_reported() {
    for (by, word) in [
        (AnsweredBy::Person, "person"),
        (AnsweredBy::Automatic, "automatic"),
        (AnsweredBy::Prepared, "prepared"),
    ] {
        let mut run = gate("");
        assert!(run.answers("ask#1/1", Answer::choice("A").by(by)));
        assert_eq!(run.value("human.gate.answered_by"), json!(word));
    }
}

#[test]
fn a_gate_without_choices_fails_without_a_question() {
    let statements = r#"start -> ask; ask [shape=hexagon]; ask -> exit [condition="outcome!=success", weight=-1];
        ask -> mend [condition="failure_reason contains console"]; mend -> exit; ask [retry_target=mend]"#;
    let mut run = Run::from_statements(statements);
    assert_eq!(run.pending(), Vec::<String>::new());
    assert_eq!((run.code(), run.path().as_str()), ("success", "start ask exit"));
    let statements =
        r#"start -> ask; ask [shape=hexagon]; ask -> exit [condition="failure_reason contains console"]"#;
    run = Run::from_statements(statements);
    assert_eq!(run.code(), "stage_failed");
    assert!(
        run.failure()
            .contains("no outgoing edge that a person could choose"),
        "{}",
        run.failure()
    );
    assert!(
        !run.effects
            .iter()
            .any(|effect| matches!(effect, Effect::AskHuman { .. }))
    );
}

#[test]
fn a_thousand_races_give_one_transition_each() {
    // Answers, time-outs and refusals in all orders: exactly one of them advances the run.
    for nth in 0..1_000u32 {
        let mut run = gate(DEFAULT);
        let id = run.id("ask#1/1");
        let mut events = vec![
            Event::TimerFired { id: id.clone() },
            Event::Answered {
                id: id.clone(),
                answer: Answer::choice("A"),
            },
            Event::Answered {
                id: id.clone(),
                answer: Answer::choice("R"),
            },
            Event::Answered {
                id: id.clone(),
                answer: Answer::skipped(),
            },
            Event::Answered {
                id,
                answer: Answer::choice("neither"),
            },
        ];
        let mut rest = nth;
        let mut moved = 0;
        while !events.is_empty() {
            let event = events.swap_remove(rest as usize % events.len());
            rest = rest / 3 + nth;
            moved += usize::from(run.on(event) > 0);
        }
        assert_eq!(moved, 1, "order {nth}");
        let ends = run
            .reported()
            .iter()
            .filter(|reported| reported.starts_with("ask#1/1 ends"))
            .count();
        assert_eq!(ends, 1, "order {nth}");
    }
}
