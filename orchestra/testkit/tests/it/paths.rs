//! The tests that `pipeline!(.., paths)` generates. Those of the pipelines here are a part of this program.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use orchestra_graph::{LoadOptions, Pipeline, Source, load};
use orchestra_testkit::PathTests;

mod pipelines {
    orchestra::pipeline! {
        /// Every kind of step, also inside of a block.
        pub mod steps = digraph steps {
            graph [inputs="urgent: bool", max_restarts=1, max_goal_gate_reroutes=1]
            start -> plan
            plan [prompt=Plan, max_retries=1, outputs="score: int, verdict: yes|no"]
            plan -> block [condition="context.score > 3 && context.urgent"]
            plan -> ask [condition="context.verdict = no && !context.urgent"]
            plan -> restart [condition="outcome=fail"]
            plan -> ask
            restart [prompt=Restart]
            restart -> plan [loop_restart=true]
            block [shape=component, join_policy=first_success, timeout=1m]
            block -> left
            block -> middle
            block -> right [condition="context.verdict = yes"]
            left [prompt=Left, max_retries=2, timeout=5m]
            middle [shape=hexagon, timeout=10s]
            middle -> second [label="Go on"]
            middle -> join [label=Stop]
            second [prompt=Second]
            right [prompt=Right]
            left -> join
            second -> join
            right -> join
            join [shape=tripleoctagon]
            join -> check
            check [prompt=Check, goal_gate=true, retry_target=plan]
            check -> ask
            check -> ask [condition="outcome=fail", label="All the same"]
            ask [shape=hexagon, timeout=2d, human.default_choice=Ship]
            ask -> ship [label="[S] Ship"]
            ask -> plan [label="[P] Plan again"]
            ask -> ship [label="Other", freeform=true]
            ship [prompt=Ship, retry_target=mend]
            ship -> exit
            mend [prompt=Mend]
            mend -> exit
        },
        allow(goal_gate_bypass), paths;

        /// A gap that is allowed: no run finds a text that matches the pattern.
        pub mod allowed = digraph allowed {
            start -> work
            work [prompt=Work]
            work -> exit
            work -> other [condition="context.name matches \"^a{3}b\""]
            other [prompt=Other]
            other -> exit
        },
        paths(allow = [edge_work_to_other_when_context_name_matches_a_3_b, edge_other_to_exit]);
    }
}

/// Returns the tests of a pipeline that was not compiled.
fn tests(text: &str, allowed: &'static [&'static str]) -> PathTests {
    let loaded = load(Source::new("flow.dot", text), &LoadOptions::default());
    let pipeline: &'static Pipeline = Box::leak(Box::new(loaded.pipeline().unwrap()));
    PathTests::new("", Box::leak(text.to_owned().into_boxed_str()), pipeline, allowed)
}

/// Returns the message with which a test fails.
fn failure(test: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(test)).unwrap_err();
    panic.downcast_ref::<String>().unwrap().clone()
}

const SHADOWED: &str = "digraph flow { start -> build
    build [prompt=Build]
    build -> exit [condition=\"outcome!=fail\"]
    build -> mend [condition=\"outcome=fail\", weight=1]
    build -> notify [condition=\"outcome=fail\"]
    notify [prompt=Notify]; notify -> exit
    mend [prompt=Mend]; mend -> build }";

#[test]
fn a_shadowed_edge_fails_its_test_and_the_message_says_why() {
    let tests = tests(SHADOWED, &["edge_build_to_notify_when_fail"]);
    tests.check("edge_build_to_mend_when_fail");
    let message = failure(|| tests.check("edge_build_to_notify_when_fail"));
    assert!(
        message.starts_with(
            "pipeline `flow`: flow.dot:5:14: no run takes the edge build -> notify [outcome=fail]\n  infeasible: \
             shadowed_edge: the edge `build -> notify` can never be taken"
        ) && message.contains("`build -> mend` wins"),
        "{message}"
    );
    let all = failure(|| tests.check_all());
    assert!(
        all.contains("2 targets fail") && all.contains("notify -> exit"),
        "{all}"
    );
}

#[test]
fn a_target_that_is_not_found_fails_unless_it_is_allowed() {
    let message = failure(|| tests(SHADOWED, &[]).check("edge_notify_to_exit"));
    assert!(
        message.contains("not found: no run reaches it; all ")
            && message.contains("`paths(allow = [edge_notify_to_exit])`"),
        "{message}"
    );
    tests(SHADOWED, &["edge_notify_to_exit"]).check("edge_notify_to_exit");
    let message = failure(|| tests(SHADOWED, &[]).check("edge_of_another_file"));
    assert!(message.contains("no target `edge_of_another_file`"), "{message}");
}

#[test]
fn a_run_that_goes_another_way_is_shown_with_its_script() {
    // The source says something else than the table, as if the machine and the engine disagreed.
    let other = "digraph flow { start -> build; build [prompt=Build]
        build -> exit [condition=\"outcome!=fail\"]; build -> mend [condition=\"outcome=skipped\"]; mend -> exit }";
    let loaded = load(Source::new("flow.dot", other), &LoadOptions::default());
    let pipeline: &'static Pipeline = Box::leak(Box::new(loaded.pipeline().unwrap()));
    let source = other.replace("outcome=skipped", "outcome=fail");
    let tests = PathTests::new("", Box::leak(source.into_boxed_str()), pipeline, &[]);
    let message = failure(|| tests.check("edge_build_to_mend_when_fail"));
    for part in [
        "a run did not take the edge build -> mend [outcome=fail]",
        "path: start -> build",
        "how the run went:",
        "the script:\n  build: fail",
    ] {
        assert!(message.contains(part), "{part} is missing in\n{message}");
    }
}

#[test]
fn cargo_test_names_the_edge_that_can_no_longer_be_taken() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "test",
        "--offline",
        "-p",
        "orchestra-testkit",
        "--test",
        "shadowed",
    ]);
    let output = cargo.current_dir(folder).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{printed}");
    for part in [
        "test pipelines::shadowed::paths::edge_build_to_mend_when_fail ... ok",
        "test pipelines::shadowed::paths::edge_build_to_notify_when_fail ... FAILED",
        "test pipelines::shadowed::paths::edge_notify_to_exit ... FAILED",
        "infeasible: shadowed_edge: the edge `build -> notify` can never be taken",
        "2 failed",
    ] {
        assert!(
            printed.contains(part),
            "{part} is missing in\n{printed}\n{errors}"
        );
    }
}
