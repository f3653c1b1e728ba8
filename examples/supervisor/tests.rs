//! Tests the manager with a child that really computes, in simulated time, and with a scripted child.

use orchestra::testkit::{Simulation, SimulationRun};

use super::supervisor::{self, Node};
use super::*;

fn supervised(listens: bool) -> SimulationRun<Node> {
    let simulation: Simulation<Node> = supervisor::simulate();
    simulation.handlers(Mathematician::new(listens)).run()
}

/// Runs a child whose stages end as scripted. They are named by texts, because they are not nodes of the manager's
/// pipeline.
fn scripted(rounds: impl IntoIterator<Item = Outcome>) -> SimulationRun {
    Simulation::from_pipeline(&*supervisor::PIPELINE)
        .outcome("approximate", rounds)
        .run()
}

#[test]
fn a_child_that_is_stuck_is_told_a_better_way_and_stopped_when_it_is_enough() {
    let run = supervised(true);
    run.assert_success()
        .assert_path([Node::Start, Node::Watch, Node::Report, Node::Exit]);
    let pi = run.context().text("pi");
    assert!(pi.starts_with("3.1415926535"), "{pi}");
    assert_eq!(run.context().text("stack.child.status"), "cancelled");
    let notes = run.outcome(Node::Watch).unwrap().notes.as_deref();
    assert_eq!(
        notes,
        Some("Stop condition satisfied: stack.child.completed_stages>=13")
    );
    assert_eq!(
        run.to_string()
            .matches("watch says: steers `approximate`")
            .count(),
        1,
        "{run}"
    );
    assert!(run.duration() < Duration::from_secs(3), "{run}");
}

#[test]
fn a_child_that_does_not_listen_is_told_again_and_then_given_up() {
    let run = supervised(false);
    run.assert_failure("failure_end")
        .assert_path([Node::Start, Node::Watch, Node::GiveUp]);
    assert_eq!(
        run.to_string()
            .matches("watch says: steers `approximate`")
            .count(),
        3,
        "{run}"
    );
    assert_eq!(run.duration(), Duration::from_secs(3));
}

#[test]
fn a_child_that_ends_itself_ends_its_supervision() {
    let round = |digits: u32| Outcome::success().set("digits", digits);
    let run = scripted([round(1), round(15)]);
    run.assert_success()
        .assert_path(["start", "watch", "report", "exit"]);
    assert_eq!(run.context().text("stack.child.completed_stages"), "4");
}

#[test]
fn a_child_that_fails_fails_its_manager() {
    let run = scripted([Outcome::fail("no paper left")]);
    run.assert_failure("failure_end")
        .assert_path(["start", "watch", "give_up"]);
    let reason = run.failure().unwrap().to_string();
    assert!(
        reason.contains("the child failed") && reason.contains("no paper left"),
        "{reason}"
    );
}

#[test]
fn both_methods_come_to_the_same_digits() {
    for method in [Method::Leibniz, Method::Machin] {
        let mut series = Series::new(method);
        while !series.is_good_for(6) {
            series.go_on();
        }
        assert_eq!(series.text(6), "3.14159", "{}", method.name());
    }
}
