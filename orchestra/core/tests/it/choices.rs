//! A person's answer decides the route; conditions decide which choices are offered (rules H1, H5, H6, R12, R13).
use crate::support;

use orchestra_core::{Answer, AnsweredBy, Event, Machine, Outcome, Question, SavedState, Snapshot, Status};
use orchestra_graph::{Source, load};
use support::Run;

/// Returns a run at a gate whose first choice has a condition, after a stage with the given outcome. The question is
/// the same in both routing dialects.
fn guarded(dialect: &str, guard: &str, updates: Outcome) -> Run {
    let statements = format!(
        r#"{dialect} start -> test -> ask; ask [shape=hexagon]
           ask -> deploy [label="[A] Approve", condition="{guard}"]; ask -> revise [label="[R] Reject"]
           deploy -> exit; revise -> exit"#
    );
    let mut run = Run::from_statements(&statements);
    run.ends("test#1/1", updates);
    run
}

const DIALECTS: [&str; 2] = ["", "routing=first_match;"];

fn question(run: &Run) -> Question {
    run.machine.questions().pop().unwrap().1
}

fn labels(question: &Question) -> Vec<&str> {
    question
        .options
        .iter()
        .map(|option| option.label.as_str())
        .collect()
}

#[test]
fn a_condition_on_another_choice_never_overrules_an_answer() {
    for dialect in DIALECTS {
        let guard = "context.tests_passed=true";
        let mut run = guarded(dialect, guard, Outcome::success().set("tests_passed", true));
        assert_eq!(labels(&question(&run)), ["[A] Approve", "[R] Reject"]);
        assert!(run.answers("ask#1/1", Answer::choice("R")));
        assert_eq!(run.pending(), ["revise#1/1"], "{dialect}");
        let mut run = guarded(dialect, guard, Outcome::success().set("tests_passed", true));
        assert!(run.answers("ask#1/1", Answer::choice("approve")));
        assert_eq!(run.pending(), ["deploy#1/1"], "{dialect}");
    }
}

#[test]
fn a_choice_whose_condition_does_not_hold_is_withheld_and_refused() {
    for dialect in DIALECTS {
        let mut run = guarded(dialect, "context.tests_passed=true", Outcome::success());
        let asked = question(&run);
        assert_eq!(labels(&asked), ["[R] Reject"]);
        let shown = "[A] Approve (`context.tests_passed=true` does not hold: context.tests_passed is empty)";
        assert_eq!(asked.withheld[0].to_string(), shown);
        for answer in ["A", "a", "Approve", "deploy"] {
            let refused = asked.accept(&Answer::choice(answer)).unwrap_err();
            let message = format!("`{answer}` is not offered now: {shown}; the answers are [R] Reject");
            assert_eq!(refused.to_string(), message);
            assert!(!run.answers("ask#1/1", Answer::choice(answer).by(AnsweredBy::Prepared)));
        }
        assert!(run.answers("ask#1/1", Answer::choice("R")));
        assert_eq!(run.pending(), ["revise#1/1"]);
    }
}

#[test]
fn a_condition_sees_the_answer_that_it_stands_for() {
    for guard in [
        "preferred_label=Approve",
        "preferred_label=\\\"[X]  approve\\\"",
        "preferred_label!=Reject && outcome=success",
        "human.gate.selected=A",
        "human.gate.label=approve && human.gate.answered_by=person",
        "preferred_label contains APPR && preferred_label matches ^Appr",
    ] {
        for dialect in DIALECTS {
            let mut run = guarded(dialect, guard, Outcome::success().prefer("Reject"));
            assert_eq!(labels(&question(&run)), ["[A] Approve", "[R] Reject"], "{guard}");
            assert!(run.answers("ask#1/1", Answer::choice("A")));
            assert_eq!(run.pending(), ["deploy#1/1"], "{guard}");
        }
    }
}

#[test]
fn an_automatic_answer_does_not_pass_for_a_persons() {
    let mut run = guarded("", "human.gate.answered_by=person", Outcome::success());
    assert!(run.answers("ask#1/1", Answer::choice("A").by(AnsweredBy::Automatic)));
    assert_eq!(run.code(), "no_matching_edge");
    assert!(
        run.failure().contains("human.gate.answered_by is `automatic`"),
        "{}",
        run.failure()
    );
}

#[test]
fn edges_of_one_label_are_one_choice_that_conditions_lead_on() {
    let statements = |dialect: &str| {
        format!(
            r#"{dialect} start -> test -> ask; ask [shape=hexagon]; ask -> a [label=Ship, condition="context.n>=1"]
               ask -> b [label="[S] ship", condition="context.n>=2", weight=2]; ask -> c [label=Stop]
               a -> exit; b -> exit; c -> exit"#
        )
    };
    for (dialect, n, expected) in [
        ("", 0, None),
        ("", 1, Some("a#1/1")),
        ("", 2, Some("b#1/1")),
        (DIALECTS[1], 2, Some("a#1/1")),
    ] {
        let text = match dialect {
            "" => statements(dialect),
            _ => statements(dialect).replace(", weight=2", ""),
        };
        let mut run = Run::from_statements(&text);
        run.ends("test#1/1", Outcome::success().set("n", n));
        let asked = question(&run);
        match expected {
            Some(target) => {
                assert_eq!(labels(&asked), ["Ship", "Stop"]);
                let to = asked.options[0].to.as_deref();
                assert_eq!(to, target.strip_suffix("#1/1"), "the option names where it leads");
                assert!(run.answers("ask#1/1", Answer::choice("ship")));
                assert_eq!(run.pending(), [target]);
            }
            None => {
                assert_eq!(asked.withheld[0].conditions.len(), 2);
                assert!(!run.answers("ask#1/1", Answer::choice("ship")));
            }
        }
    }
}

#[test]
fn a_gate_without_a_choice_to_offer_fails_and_names_them() {
    let statements = r#"start -> ask; ask [shape=hexagon]; ask -> exit [label=Ship, condition="context.ready"]
        ask -> mend [condition="outcome=fail"]; mend -> exit"#;
    let mut run = Run::from_statements(statements);
    assert_eq!(run.pending(), ["mend#1/1"], "its route for failures is taken");
    let wanted = "the gate offers no choice; withheld are [S] Ship (`context.ready` does not hold: context.ready is empty)";
    assert_eq!(run.main().last.failure_reason, wanted);
    assert_eq!(run.main().last.failure_code, "no_choice_offered");
    run.succeeds("mend#1/1");
    assert_eq!(run.code(), "success");
}

#[test]
fn silence_takes_no_withheld_default_and_no_choice_with_a_condition() {
    let gate = |guard: &str| {
        let statements = format!(
            r#"start -> ask; ask [shape=hexagon, timeout=30s, "human.default_choice"=Ship]
               ask -> exit [label=Ship, condition="{guard}"]; ask -> mend [label=Fix]; mend -> exit"#
        );
        let mut run = Run::from_statements(&statements);
        run.rings("ask#1/1");
        run
    };
    assert_eq!(gate("outcome=success").path(), "start ask exit");
    assert_eq!(gate("context.ready").code(), "stage_failed");
    // The condition of a choice is not a route for a failed gate, even if it holds at that point.
    let statements = r#"start -> ask; ask [shape=hexagon, timeout=30s]
        ask -> exit [label=Ship, condition="context.graph!=x"]; ask -> mend [label=Fix]; mend -> exit"#;
    let mut run = Run::from_statements(statements);
    run.rings("ask#1/1");
    assert_eq!(run.code(), "stage_failed");
}

#[test]
fn the_text_of_an_answer_may_decide_after_it_was_given() {
    let statements = r#"start -> ask; ask [shape=hexagon]
        ask -> bug [label=Comment, freeform=true, condition="human.gate.text contains bug"]
        ask -> note [label=Comment, freeform=true]; ask -> exit [label="[S] Ship"]; bug -> exit; note -> exit"#;
    for (answer, target) in [("a bug!", "bug#1/1"), ("nice", "note#1/1")] {
        let mut run = Run::from_statements(statements);
        assert!(run.answers("ask#1/1", Answer::choice(answer)));
        assert_eq!(run.pending(), [target]);
    }
}

#[test]
fn keys_that_nobody_wrote_are_free_ones() {
    let keys = |edges: &[&str]| {
        let edges: String = edges
            .iter()
            .map(|label| format!("ask -> n [label=\"{label}\"];"))
            .collect();
        let text = format!("digraph {{ start -> ask; ask [shape=hexagon]; {edges} n -> exit }}");
        let pipeline = load(Source::new("a.dot", &text), &Default::default())
            .pipeline()
            .unwrap();
        let question = Question::of_gate(&pipeline, pipeline.find("ask").unwrap(), String::new());
        question
            .options
            .into_iter()
            .map(|option| option.key)
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&["Approve", "Abort"]), ["A", "B"]);
    assert_eq!(keys(&["Approve", "Abort", "Back"]), ["A", "O", "B"]);
    assert_eq!(keys(&["s1", "s2"]), ["S", "2"]);
    assert_eq!(keys(&["Approve", "[A] Abort"]), ["P", "A"]);
    assert_eq!(keys(&["a", "[A] x", "aa", "!"]), ["1", "A", "2", "3"]);
    assert_eq!(keys(&["[1] x", "a", "aa", "aaa"]), ["1", "A", "2", "3"]);
}

#[test]
fn a_resumed_run_asks_the_same_question() {
    let guard = "context.tests_passed=true && visits.test=1 && stages.test.outcome=success";
    for passed in [true, false] {
        let run = guarded("", guard, Outcome::success().set("tests_passed", passed));
        let asked = run.machine.questions();
        assert_eq!(asked[0].1.withheld.is_empty(), passed);
        let written = serde_json::to_string(&run.machine.saved()).unwrap();
        let saved: SavedState = serde_json::from_str(&written).unwrap();
        let state = saved.restore(run.machine.pipeline()).unwrap();
        let resumed = Machine::resume(run.machine.pipeline().clone(), state);
        assert_eq!(resumed.questions(), asked);
        let text = serde_json::to_string(&asked[0].1).unwrap();
        assert_eq!(serde_json::from_str::<Question>(&text).unwrap(), asked[0].1);
    }
}

#[test]
fn a_partial_success_takes_the_edge_of_a_success_where_it_has_none() {
    for dialect in DIALECTS {
        let mut run = Run::from_statements(&format!(
            r#"{dialect} start -> a; a -> b [condition="outcome=success"]; a -> exit [condition="outcome=fail"]
               b -> exit [condition="outcome=success"]; b -> c [condition="outcome=partial_success"]; c -> exit"#
        ));
        run.ends("a#1/1", Outcome::new(Status::PartialSuccess));
        assert_eq!(run.pending(), ["b#1/1"]);
        assert!(run.was_reported("a by partial_as_success"), "{dialect}");
        run.ends("b#1/1", Outcome::new(Status::PartialSuccess));
        assert_eq!(run.pending(), ["c#1/1"], "its own word comes first");
    }
}

#[test]
fn visits_bound_a_loop_and_branches_see_the_stages_around_them() {
    let mut run = Run::from_statements(
        r#"start -> work -> done; done [shape=diamond]; done -> exit [condition="outcome=success"]
           done -> hand_over [condition="visits.work>=3"]; done -> work; hand_over -> exit"#,
    );
    for visit in 1..=3 {
        run.fails(&format!("work#{visit}/1"));
    }
    assert_eq!(run.pending(), ["hand_over#1/1"]);

    let mut run = Run::from_statements(
        r#"start -> plan -> fan; fan [shape=component]; fan -> a; fan -> b; a -> x [condition="stages.plan.outcome=fine"]
           a -> y [condition="stages.plan.outcome!=fine"]; b -> x2 [condition="visits.a=0 && stages.a.outcome=\"\""]
           b -> y2 [condition="visits.a>0"]; x -> join; y -> join; x2 -> join; y2 -> join
           join [shape=tripleoctagon]; join -> exit; plan [outcomes=fine]"#,
    );
    run.ends("plan#1/1", Outcome::custom("fine"));
    run.succeeds("fan#1:a/a#1/1").succeeds("fan#1:b/b#1/1");
    assert_eq!(run.pending(), ["fan#1:a/x#1/1", "fan#1:b/x2#1/1"]);
    let written = serde_json::to_string(&run.machine.saved()).unwrap();
    let saved: SavedState = serde_json::from_str(&written).unwrap();
    assert_eq!(
        &saved.restore(run.machine.pipeline()).unwrap(),
        run.machine.state()
    );
}

#[test]
fn the_breaker_is_off_and_counts_what_is_really_the_same() {
    let of =
        |breaker: &str| Run::from_statements(&format!("{breaker} start -> t -> exit; t [retry_target=t]"));
    let fails = |run: &mut Run, visit: u32, digest: &str| {
        let mut outcome = Outcome::fail("exit code 101");
        outcome.output_digest = digest.bytes().map(u64::from).sum::<u64>().try_into().ok();
        run.ends(&format!("t#{visit}/1"), outcome);
    };
    let mut run = of("");
    (1..=30).for_each(|visit| fails(&mut run, visit, "same"));
    run.succeeds("t#31/1");
    assert_eq!(run.code(), "success");

    let mut run = of("failure_breaker=3;");
    for (visit, digest) in [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "b")] {
        fails(&mut run, visit, digest);
    }
    assert_eq!(run.code(), "failure_breaker");

    let mut run = of("failure_breaker=3;");
    for visit in 1..=9 {
        let id = run.id(&format!("t#{visit}/1"));
        let snapshot = Snapshot::new(format!("commit {}", visit / 2));
        run.on(Event::Snapshot { id, snapshot });
        fails(&mut run, visit, "same");
    }
    assert_eq!(run.pending(), ["t#10/1"], "files changed in between");
    let id = run.id("t#10/1");
    let snapshot = Snapshot::new("commit 4");
    run.on(Event::Snapshot { id, snapshot });
    fails(&mut run, 10, "same");
    assert_eq!(run.code(), "failure_breaker");
}
