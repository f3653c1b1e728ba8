//! Simulations with gates, wrong names and unexpected paths, and the messages of their errors.
use std::panic::{AssertUnwindSafe, catch_unwind};

use orchestra_engine::{Answer, Outcome, QueueInterviewer, RunFailure, RunStatus, Status};
use orchestra_testkit::{Simulation, SimulationError};

const RELEASE: &str = r#"digraph release {
    start -> test
    test   [shape=parallelogram, tool_command="exit 1", max_retries=1, retry_jitter=false]
    test   -> review [condition="outcome=success"]
    test   -> mend   [condition="outcome=fail && context.tries!=3"]
    mend   [prompt="Mend it"]
    mend   -> test
    review [shape=hexagon, label="Ship it?"]
    review -> publish [label="[S] Ship"]
    review -> mend    [label="[M] Mend"]
    publish [type="publish.run", outcomes="published,known"]
    publish -> exit
}"#;

fn release() -> Simulation {
    Simulation::load(RELEASE).unwrap()
}

/// Returns the message of a failing assertion.
fn said(assertion: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(assertion)).unwrap_err();
    panic.downcast_ref::<String>().unwrap().clone()
}

#[test]
fn stages_that_are_not_named_succeed_and_nothing_is_executed() {
    let run = release().answer("review", "Ship").run();
    run.assert_success()
        .assert_path(["start", "test", "review", "publish", "exit"]);
    assert_eq!(run.context().text("human.gate.answered_by"), "prepared");
    assert!(run.duration().is_zero());
}

#[test]
fn a_gate_without_an_answer_ends_the_run_as_paused_and_is_named() {
    let run = release().run();
    run.assert_waits_for("review").assert_path(["start", "test"]);
    assert_eq!(
        (run.status(), run.waits_for()),
        (RunStatus::Paused, Some("review"))
    );
    let failure = run.failure().unwrap().to_string();
    assert!(
        failure.starts_with("the gate `review` waits for a person: the simulation has no answer for it"),
        "{failure}"
    );
    // A gate without a timeout cannot time out.
    release().unanswered("review").run().assert_waits_for("review");
}

#[test]
fn answers_are_given_in_turn_and_the_last_again_and_again() {
    let run = release()
        .answer("review", "M")
        .answer("review", Answer::choice("ship"))
        .run();
    run.assert_success();
    assert_eq!(run.taken("review", "mend"), 1);
    let endless = release().answer("review", "Mend").run();
    endless.assert_failure("max_visits");
    assert_eq!(endless.taken("review", "mend"), 1_000);
}

#[test]
fn a_choice_of_that_name_comes_before_the_meaning_of_a_word() {
    let graph = r#"digraph {
        start -> ask
        ask [shape=hexagon]
        ask -> again [label="Retry"]
        ask -> exit  [label="Fail"]
        again [prompt=Again]
        again -> ask
    }"#;
    let run = Simulation::load(graph)
        .unwrap()
        .outcome("ask", ["retry", "fail"])
        .run();
    run.assert_success()
        .assert_path(["start", "ask", "again", "ask", "exit"]);
    let skipped = Simulation::load(graph).unwrap().outcome("ask", ["skipped"]).run();
    skipped.assert_failure("stage_failed");
}

#[test]
fn a_question_may_be_left_to_an_interviewer() {
    let queue = QueueInterviewer::new().answers_for("review", ["Mend", "Ship"]);
    let run = release().interviewer(queue.clone()).run();
    run.assert_success();
    assert!(queue.is_empty());
}

#[test]
fn words_outcomes_and_statuses_say_how_stages_end() {
    let run = release()
        .outcome("test", ["fail".to_owned(), "fail".to_owned()])
        .outcome("test", [Status::Fail, Status::Success])
        .outcome("publish", [Outcome::custom("known").notes("it was there")])
        .answer("review", "Ship")
        .run();
    run.assert_path(["start", "test", "mend", "test", "review", "publish", "exit"]);
    assert_eq!(run.error_history().len(), 3);
    assert_eq!(
        run.outcome("publish").unwrap().notes.as_deref(),
        Some("it was there")
    );
    assert_eq!(run.outcome("nobody"), None);
}

#[test]
fn values_at_the_start_reach_conditions() {
    let run = release().param("tries", 3).outcome("test", ["fail"]).run();
    run.assert_failure("stage_failed");
    assert!(matches!(run.failure(), Some(RunFailure::StageFailed { node, .. }) if node == "test"));
}

#[test]
fn a_wrong_name_is_refused_before_anything_runs_and_says_what_was_meant() {
    let refused = |simulation: Simulation| {
        let error = simulation.try_run().unwrap_err();
        assert!(matches!(error, SimulationError::Script(_)), "{error:?}");
        error.to_string()
    };
    let cases = [
        (
            release().outcome("tset", ["fail"]),
            "the pipeline has no node `tset`; did you mean `test`?",
        ),
        (
            release().outcome("deployment", ["fail"]),
            "the pipeline has no node `deployment`; its nodes are start, test, review, mend, publish, exit",
        ),
        (
            release().takes("mendd", [std::time::Duration::ZERO]),
            "the pipeline has no node `mendd`; did you mean `mend`?",
        ),
        (
            release().outcome("publish", ["publishd"]),
            "`publish` does not give the outcome `publishd`; did you mean `published`?",
        ),
        (
            release().outcome("publish", ["held"]),
            "`publish` does not give the outcome `held`; it gives published, known, or a built-in word",
        ),
        (
            release().outcome("mend", ["sucess"]),
            "`mend` does not give the outcome `sucess`; did you mean `success`?",
        ),
        (
            release().outcome("exit", ["fail"]),
            "`exit` has no outcome of its own, because it is the exit; say how the stage before it ends; its edges \
             follow from that",
        ),
        (
            release().answer("review", "Shipp"),
            "the gate `review` has no choice `Shipp`; did you mean `Ship`?",
        ),
        (
            release().answer("review", "later"),
            "the gate `review` has no choice `later`; its choices are [S] Ship, [M] Mend",
        ),
        (
            release().outcome("review", [Outcome::success().prefer("Ship").set("a", 1)]),
            "`review` is a human gate, whose answer sets no context; leave `context` out, or set it by another node",
        ),
        (
            release().answer("test", "Ship"),
            "`test` is not a human gate, so it asks nothing; its human gates are review",
        ),
        (
            release().answer("reviwe", "Ship"),
            "the pipeline has no node `reviwe`; did you mean `review`?",
        ),
    ];
    for (simulation, expected) in cases {
        assert_eq!(refused(simulation), expected);
    }
    // A custom outcome of a handler that resembles no other outcome is accepted.
    release()
        .outcome("mend", ["mended"])
        .answer("review", "Ship")
        .run()
        .assert_success();
}

#[test]
fn a_test_with_a_wrong_name_fails_with_that_message() {
    let message = said(|| drop(release().outcome("tset", ["fail"]).run()));
    assert_eq!(
        message,
        "pipeline `release`: the pipeline has no node `tset`; did you mean `test`?"
    );
}

#[test]
fn a_pipeline_that_cannot_be_had_says_where_and_why() {
    let invalid = Simulation::load("digraph {\n    start -> wrok\n    work -> exit\n}").unwrap_err();
    let text = invalid.to_string();
    assert!(
        text.contains("pipeline.dot:2:14") && text.contains("edge points to unknown node `wrok`"),
        "{text}"
    );
    let missing = Simulation::load_file("no/such/file.dot").unwrap_err();
    assert!(
        missing
            .to_string()
            .starts_with("cannot read the pipeline `no/such/file.dot`"),
        "{missing}"
    );
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/branching/branching.dot"
    );
    Simulation::load_file(file).unwrap().run().assert_success();
}

#[test]
fn an_unexpected_path_is_explained() {
    let run = release()
        .outcome("test", ["fail", "fail", "success"])
        .answer("review", "Ship")
        .run();
    let message = said(|| {
        run.assert_path(["start", "test", "review", "publish", "exit"]);
    });
    let expected = "\
the run took another path
  expected: start -> test -> review -> publish -> exit
  taken:    start -> test -> mend -> test -> review -> publish -> exit
behind `test` came `mend` instead of `review`
  because test -> mend (condition holds): `outcome=success` to review is false, outcome is `fail`; `outcome=fail && \
context.tries!=3` is true, outcome is `fail`, context.tries is ``
how the run went:
     0s  start: success
     0s    start -> test (only edge)
     0s  test: fail, simulated failure
     0s  test: attempt 2 of 2 in 200ms
  200ms  test (attempt 2): fail, simulated failure
";
    assert!(message.starts_with(expected), "{message}");
    assert!(
        message.contains("\n  200ms  review: the answer is `[S] Ship` (answered beforehand)\n"),
        "{message}"
    );
    assert!(message.ends_with("\nit ended as success"), "{message}");
}

#[test]
fn a_path_that_ends_too_early_or_too_late_is_explained() {
    let run = release().run();
    let message = said(|| {
        run.assert_path(["start", "test", "review"]);
    });
    assert!(
        message.contains("behind `test` came the end instead of `review`"),
        "{message}"
    );
    assert!(
        message.ends_with("let its time run out by `.unanswered(..)`"),
        "{message}"
    );
    let message = said(|| {
        run.assert_path(["start"]);
    });
    assert!(
        message.contains("behind `start` came `test` instead of the end"),
        "{message}"
    );
    assert!(
        message.contains("because start -> test (only edge)\n"),
        "{message}"
    );
    let message = said(|| {
        run.assert_path(["test"]);
    });
    assert!(
        message.contains("it began with `start` instead of `test`"),
        "{message}"
    );
}

#[test]
fn the_second_visit_of_a_node_is_explained_by_its_second_decision() {
    let graph = r#"digraph {
        start -> work
        work [prompt=Work]
        work -> again [condition="context.round=1"]
        work -> exit  [condition="context.round=2"]
        again [prompt=Again]
        again -> work
    }"#;
    let round = |round: u32| Outcome::success().set("round", round);
    let run = Simulation::load(graph)
        .unwrap()
        .outcome("work", [round(1), round(2)])
        .run();
    let message = said(|| {
        run.assert_path(["start", "work", "again", "work", "again"]);
    });
    assert!(
        message.contains("because work -> exit (condition holds): `context.round=1` to again is false, context.round is `2`"),
        "{message}"
    );
}

#[test]
fn a_goal_gate_that_sends_the_run_back_is_a_reason() {
    let graph = r#"digraph {
        start -> test -> exit
        test [prompt=Test, goal_gate=true, retry_target=mend, on_failure=route]
        mend [prompt=Mend]
        mend -> test
    }"#;
    let run = Simulation::load(graph)
        .unwrap()
        .outcome("test", ["fail", "success"])
        .run();
    run.assert_path(["start", "test", "mend", "test", "exit"]);
    let message = said(|| {
        run.assert_path(["start", "test", "exit"]);
    });
    assert!(
        message.contains(
            "behind `test` came `mend` instead of `exit`\n  because test -> exit (only edge)\n  because exit -> mend \
             (goal gate unsatisfied)\n"
        ),
        "{message}"
    );
}

#[test]
fn after_a_restart_the_decisions_are_those_of_the_last_life() {
    let graph = r#"digraph {
        restart_keep="round"
        start -> work
        work [prompt=Work]
        work -> work [condition="context.round=1", loop_restart=true]
        work -> exit [condition="context.round=2"]
    }"#;
    let round = |round: u32| Outcome::success().set("round", round);
    let run = Simulation::load(graph)
        .unwrap()
        .outcome("work", [round(1), round(2)])
        .run();
    run.assert_path(["work", "exit"]);
    assert_eq!((run.result().restarts, run.taken("work", "work")), (1, 1));
    let message = said(|| {
        run.assert_path(["work", "work"]);
    });
    assert!(
        message.contains("because work -> exit (condition holds)"),
        "{message}"
    );
    assert!(
        message.contains("work -> work restarts the run, for the 1st time"),
        "{message}"
    );
}

#[test]
fn other_assertions_say_how_the_run_went() {
    let failed = release().param("tries", 3).outcome("test", ["fail"]).run();
    for message in [
        said(|| {
            failed.assert_success();
        }),
        said(|| {
            failed.assert_failure("max_visits");
        }),
        said(|| {
            failed.assert_waits_for("review");
        }),
    ] {
        assert!(
            message.contains("how the run went:")
                && message.ends_with("it ended as fail: stage `test` failed: simulated failure"),
            "{message}"
        );
    }
    let message = said(|| {
        failed.assert_failure("max_visits");
    });
    assert!(
        message.starts_with("the run did not fail by `max_visits` but by `stage_failed`\n"),
        "{message}"
    );
    let paused = release().run();
    let message = said(|| {
        paused.assert_failure("waits_for_human");
    });
    assert!(
        message.starts_with("the run did not fail by `waits_for_human`\n"),
        "{message}"
    );
}

#[test]
fn branches_are_reported_by_their_names() {
    let graph = r#"digraph {
        start -> fan
        fan [shape=component, error_policy=continue]
        fan -> left -> join
        fan -> right -> join
        left [prompt=Left]
        right [prompt=Right]
        join [shape=tripleoctagon]
        join -> exit
    }"#;
    let run = Simulation::load(graph).unwrap().outcome("left", ["fail"]).run();
    run.assert_success();
    let story = run.to_string();
    for line in [
        "fan: 2 branches",
        "[fan#1:left] left: fail, simulated failure",
        "[fan#1:left] fail, stage `left` failed: simulated failure",
        "[fan#1:right] right: success",
        "[fan#1:right] success",
    ] {
        assert!(story.contains(line), "{line}\n{story}");
    }
}

#[test]
fn a_parallel_block_ends_as_its_branches_do() {
    let text = "digraph { start -> fan; fan [shape=component]; fan -> a -> join; fan -> b -> join
        a [prompt=A]; b [prompt=B]; join [shape=tripleoctagon]; join -> exit }";
    let error = Simulation::load(text).unwrap().outcome("fan", ["fail"]).try_run();
    assert_eq!(
        error.unwrap_err().to_string(),
        "`fan` has no outcome of its own, because it is a parallel block; say how the stages of its branches end; its \
         own end follows from that"
    );
}
