//! Simulates the pipeline. The outcome of the critic selects the edge, and the handler of the program ends the
//! rounds.

use orchestra::testkit::{Simulation, SimulationRun};

use super::pr_review::{self, Node};
use super::*;

fn simulation() -> Simulation<Node> {
    pr_review::simulate().handlers(Rounds).param("pr_diff", CHANGE)
}

/// Returns how often each round began, and how often the review was written.
fn rounds_and_reviews(run: &SimulationRun<Node>) -> (u64, u64) {
    let rounds = run.taken(Node::Start, Node::Review) + run.taken(Node::Rounds, Node::Review);
    (rounds, run.taken(Node::Synthesizer, Node::Exit))
}

#[test]
fn a_critic_who_is_satisfied_at_once_lets_the_first_reviews_pass() {
    let run = simulation().run();
    run.assert_success();
    run.assert_path([
        Node::Start,
        Node::Security,
        Node::Design,
        Node::Correctness,
        Node::Review,
        Node::Collect,
        Node::Critic,
        Node::Synthesizer,
        Node::Exit,
    ]);
    assert_eq!(rounds_and_reviews(&run), (1, 1));
}

#[test]
fn a_critic_who_doubts_twice_has_all_look_again_twice() {
    let run = simulation()
        .outcome(Node::Critic, ["insufficient", "insufficient", "success"])
        .run();
    run.assert_success();
    assert_eq!(rounds_and_reviews(&run), (3, 1));
    assert_eq!(run.taken(Node::Critic, Node::Synthesizer), 1);
    assert_eq!(run.taken(Node::Rounds, Node::Synthesizer), 0);
}

#[test]
fn a_critic_who_is_never_satisfied_has_three_rounds_and_no_more() {
    let run = simulation().outcome(Node::Critic, ["insufficient"]).run();
    run.assert_success();
    assert_eq!(rounds_and_reviews(&run), (3, 1));
    assert_eq!(run.taken(Node::Critic, Node::Rounds), 3);
    assert_eq!(run.taken(Node::Rounds, Node::Synthesizer), 1);
}

#[test]
fn a_review_that_a_person_rejects_ends_the_run_as_failed() {
    let run = simulation().outcome(Node::Synthesizer, ["fail"]).run();
    run.assert_failure("failure_end");
    assert_eq!(rounds_and_reviews(&run), (1, 0));
}

#[test]
fn a_reviewer_who_failed_is_asked_again_before_the_review_counts() {
    let run = simulation().outcome(Node::Security, ["fail", "success"]).run();
    run.assert_success();
    assert_eq!(rounds_and_reviews(&run), (1, 2), "{run}");
    let run = simulation().outcome(Node::Security, ["fail"]).run();
    run.assert_failure("goal_gate");
}

#[test]
fn every_edge_is_taken_by_one_of_them() {
    let mut coverage = simulation().coverage();
    for (critic, person) in [
        (&["success"][..], "success"),
        (&["insufficient"], "success"),
        (&["success"], "fail"),
    ] {
        let run = simulation()
            .outcome(Node::Critic, critic.iter().copied())
            .outcome(Node::Synthesizer, [person])
            .run();
        coverage.add(run.transitions());
    }
    coverage.assert_complete();
}
