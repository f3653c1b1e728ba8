//! Answers of people and limits of loops, through the program (rules H1, H5, H6, R10, R12, R13).

#![cfg(unix)]

use crate::support;

use serde_json::{Value, json};
use support::Scratch;

/// A gate whose first choice has a condition. `first_match` selects the station dialect.
fn guarded(first_match: bool, condition: &str) -> Scratch {
    let scratch = Scratch::new();
    let dialect = if first_match { "routing=first_match" } else { "" };
    let tool = |name: &str| format!("{name} [shape=parallelogram, tool_command=\"echo {name}\"]\n");
    let tools = [tool("deploy"), tool("revise")].concat();
    scratch.write(
        "g.dot",
        format!(
            "digraph g {{ {dialect}\n start -> g; g [shape=hexagon, label=\"Ship it?\"]\n{tools}\
             g -> deploy [label=\"[A] Approve\", condition=\"{condition}\"]\n\
             g -> revise [label=\"[R] Reject\"]\n deploy -> exit; revise -> exit }}"
        ),
    );
    scratch
}

const DIALECTS: [bool; 2] = [false, true];

#[test]
fn a_persons_answer_is_not_overruled_by_a_condition() {
    for first_match in DIALECTS {
        let scratch = guarded(first_match, "context.tests_passed=true");
        let run = |answer: &str| {
            let args = ["run", "g.dot", "--set", "tests_passed=true", "--answer", answer];
            scratch.call(&args).exits(0).stdout
        };
        assert_eq!(run("g=R"), "success: start -> g -> revise -> exit\n");
        assert_eq!(run("g=A"), "success: start -> g -> deploy -> exit\n");
        assert_eq!(run("g=Approve"), "success: start -> g -> deploy -> exit\n");
    }
}

#[test]
fn a_withheld_choice_is_shown_and_no_answer_takes_it() {
    const WITHHELD: &str =
        "[A] Approve (`context.tests_passed=true` does not hold: context.tests_passed is empty)";
    for first_match in DIALECTS {
        let scratch = guarded(first_match, "context.tests_passed=true");
        let typed = scratch.call_with(&["run", "g.dot"], "A\nR\n").exits(0);
        assert_eq!(typed.stdout, "success: start -> g -> revise -> exit\n");
        for part in [
            format!("    [R] Reject\n    withheld: {WITHHELD}\n"),
            format!("the line is not offered now: {WITHHELD}; the answers are [R] Reject\n"),
        ] {
            assert!(typed.stderr.contains(&part), "{part}\n{}", typed.stderr);
        }
        let prepared = scratch.call(&["run", "g.dot", "--answer", "g=A"]).exits(5);
        assert_eq!(prepared.stdout, "paused: start\n");
        assert!(
            prepared.stderr.contains("`A` is not offered now"),
            "{}",
            prepared.stderr
        );
        let status = scratch.call(&["status", "last"]).exits(0);
        assert!(
            status.stdout.contains(&format!("withheld: {WITHHELD}")),
            "{}",
            status.stdout
        );
        let reported = scratch.call(&["status", "last", "--json"]).exits(0).objects();
        let asked = &reported[0]["questions"][0];
        assert_eq!(
            asked["options"],
            json!([{"key": "R", "label": "[R] Reject", "to": "revise"}])
        );
        assert_eq!(asked["withheld"][0]["key"], "A");
        let unmet =
            json!([{"condition": "context.tests_passed=true", "values": {"context.tests_passed": ""}}]);
        assert_eq!(asked["withheld"][0]["conditions"], unmet);
        for answer in ["A", "approve", "deploy"] {
            let refused = scratch.call(&["answer", "last", "g", answer]).exits(2);
            assert!(refused.stderr.contains(WITHHELD), "{}", refused.stderr);
        }
        let automatic = scratch.call(&["resume", "last", "--auto-approve"]).exits(0);
        assert_eq!(automatic.stdout, "success: start -> g -> revise -> exit\n");
    }
}

#[test]
fn a_condition_on_the_answer_itself_offers_its_choice() {
    for condition in [
        "preferred_label=Approve",
        "human.gate.selected=A",
        "outcome=success",
    ] {
        let scratch = guarded(false, condition);
        for (answer, target) in [("g=A", "deploy"), ("g=R", "revise")] {
            let run = scratch.call(&["run", "g.dot", "--answer", answer]).exits(0);
            assert_eq!(
                run.stdout,
                format!("success: start -> g -> {target} -> exit\n"),
                "{condition}"
            );
        }
    }
}

#[test]
fn a_gate_without_a_choice_to_offer_fails_with_its_code() {
    let scratch = Scratch::new();
    scratch.write(
        "g.dot",
        "digraph g { start -> g; g [shape=hexagon]; g -> exit [label=Ship, condition=\"context.ready\"] }",
    );
    let run = scratch.call(&["run", "g.dot", "--auto-approve"]).exits(1);
    let reason = "the gate offers no choice; withheld are [S] Ship (`context.ready` does not hold";
    assert!(run.stderr.contains(reason), "{}", run.stderr);
    let runs = scratch.path(".orchestra/runs");
    let folder = std::fs::read_dir(runs)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let status = folder
        .map(|run| run.join("g/status.json"))
        .find(|file| file.exists());
    let status: Value = serde_json::from_slice(&std::fs::read(status.unwrap()).unwrap()).unwrap();
    assert_eq!(status["failure_code"], "no_choice_offered", "{status}");
}

#[test]
fn choices_that_begin_alike_load_and_answer_to_keys_of_their_own() {
    let scratch = Scratch::new();
    scratch.write(
        "g.dot",
        "digraph g { start -> g; g [shape=hexagon]; s1 [shape=diamond]; s2 [shape=diamond]\n\
         g -> exit [label=Approve]; g -> stop [label=Abort]; g -> s1; g -> s2; s1 -> exit; s2 -> exit\n\
         stop [shape=diamond, end=fail] }",
    );
    let asked = scratch.call(&["run", "g.dot"]).exits(5);
    for key in ["[A] Approve", "[B] Abort", "[S] s1", "[2] s2"] {
        assert!(asked.stderr.contains(key), "{}", asked.stderr);
    }
    let run = scratch.call(&["run", "g.dot", "--answer", "g=2"]).exits(0);
    assert_eq!(run.stdout, "success: start -> g -> s2 -> exit\n");
}

/// A tool that fails until its fifth call, always with the same output.
const FIFTH: &str = "echo x >> tries; test $(wc -l < tries) -ge 5 || { echo tests failed; exit 101; }";

#[test]
fn a_test_and_fix_loop_may_fail_alike_until_it_passes() {
    let scratch = Scratch::new();
    let text = |breaker: &str| {
        format!(
            "digraph g {{ {breaker} start -> impl -> test; impl [shape=parallelogram, tool_command=\"true\"]\n\
             test [shape=parallelogram, tool_command=\"{FIFTH}\"]\n\
             test -> exit [condition=\"outcome=success\"]; test -> impl [condition=\"outcome=fail\"] }}"
        )
    };
    scratch.write("g.dot", text(""));
    let run = scratch.call(&["run", "g.dot"]).exits(0);
    assert_eq!(run.stdout.matches("test").count(), 5, "{}", run.stdout);
    // If enabled, the failure breaker stops the loop, because only the number of tries changes.
    std::fs::remove_file(scratch.path("tries")).unwrap();
    scratch.write("b.dot", text("failure_breaker=3;"));
    let broken = scratch.call(&["run", "b.dot"]).exits(1);
    assert!(broken.stderr.contains("3 times"), "{}", broken.stderr);
    // A different output is a different failure, although the exit code and the last line are the same.
    std::fs::remove_file(scratch.path("tries")).unwrap();
    scratch.write(
        "c.dot",
        text("failure_breaker=3;").replace("echo tests failed", "wc -l < tries; echo tests failed"),
    );
    scratch.call(&["run", "c.dot"]).exits(0);
}

#[test]
fn visits_lead_a_loop_on_instead_of_failing_it() {
    let scratch = Scratch::new();
    scratch.write(
        "g.dot",
        "digraph g { start -> work; work [shape=parallelogram, tool_command=\"false\"]\n\
         work -> exit [condition=\"outcome=success\"]; work -> ask [condition=\"outcome=fail && visits.work>=3\"]\n\
         work -> work [condition=\"outcome=fail && visits.work<3\"]\n\
         ask [shape=parallelogram, tool_command=\"echo help\"]; ask -> exit [condition=\"stages.work.outcome=fail\"] }",
    );
    let run = scratch.call(&["run", "g.dot"]).exits(0);
    assert_eq!(
        run.stdout,
        "success: start -> work -> work -> work -> ask -> exit\n"
    );
    scratch.write(
        "g.dot",
        scratch.read("g.dot").replace("visits.work<3", "visits.wrok<3"),
    );
    let checked = scratch.call(&["check", "g.dot"]).exits(3);
    assert!(
        checked.stderr.contains("did you mean `visits.work`?"),
        "{}",
        checked.stderr
    );
}

#[test]
fn a_partial_success_goes_the_way_of_a_success_and_says_so() {
    let scratch = Scratch::new();
    scratch.write(
        "g.dot",
        "digraph g { start -> work; work [shape=parallelogram, tool_command=\"\
         echo '{\\\"outcome\\\": \\\"partial_success\\\"}' > $ORCHESTRA_STAGE_DIR/status.json\"]\n\
         work -> exit [condition=\"outcome=success\"]; work -> work [condition=\"outcome=fail\"] }",
    );
    let run = scratch.call(&["run", "g.dot"]).exits(0);
    assert_eq!(run.stdout, "success: start -> work -> exit\n");
    assert!(
        run.stderr.contains("partial success taken as a success"),
        "{}",
        run.stderr
    );
}

#[test]
fn the_text_of_an_earlier_gate_is_not_that_of_a_later_answer() {
    let scratch = Scratch::new();
    scratch.write(
        "t.dot",
        r#"digraph t { start -> hint -> last -> decide
            hint [shape=hexagon]; last [shape=hexagon]; decide [shape=diamond]
            hint -> last [label="Say", freeform=true]
            last -> decide [label="[Y] Yes"]; last -> decide [label="[N] No"]
            decide -> ship [condition="human.gate.text=yes"]; decide -> stop
            ship [shape=parallelogram, tool_command="echo ship"]; ship -> exit
            stop [shape=parallelogram, tool_command="echo stop"]; stop -> exit }"#
            .replace("start -> hint -> last -> decide", "start -> hint"),
    );
    let done = scratch.call(&["run", "t.dot", "--answer", "hint=yes", "--answer", "last=N"]);
    assert_eq!(
        done.exits(0).stdout,
        "success: start -> hint -> last -> decide -> stop -> exit\n"
    );
}

#[test]
fn a_choice_that_takes_no_text_does_not_hang_on_one() {
    let scratch = guarded(false, "context.ready=true && human.gate.text!=no");
    let refused = scratch.call(&["run", "g.dot", "--answer", "g=A"]).exits(5);
    assert!(
        refused.stderr.contains("`A` is not offered now"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("answer it with `--answer g=R`"),
        "{}",
        refused.stderr
    );
}
