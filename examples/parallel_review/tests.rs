//! Runs the pipeline with the handlers of the program. A test simulates the stages whose outcomes it sets.

use orchestra::testkit::Simulation;

use super::parallel_review::{self, Node};
use super::*;

fn with_down(down: &'static [&'static str]) -> Simulation<Node> {
    parallel_review::simulate().handlers(Press {
        down,
        ..Press::default()
    })
}

#[test]
fn the_page_is_revised_until_nobody_finds_anything() {
    let run = with_down(&[]).run();
    run.assert_success();
    assert_eq!(run.taken(Node::Critic, Node::Write), 3);
    assert_eq!(
        run.context().text("page"),
        "Our shop is open again.\nYou will find the old shelves and a new entrance.\nThe tea is good, and the cake is \
         as good as it was.\n"
    );
}

#[test]
fn the_fan_in_chooses_who_found_most_and_the_writer_mends_that_first() {
    let found = |score: u64| Outcome::success().set("score", score);
    let run = with_down(&[])
        .outcome(Node::Repetitions, [found(2), found(0)])
        .outcome(Node::Fillers, [found(1), found(0)])
        .outcome(Node::Blanks, [found(7), found(0)])
        .run();
    run.assert_success();
    assert_eq!(run.taken(Node::Critic, Node::Write), 1);
    let notes = run.outcome(Node::Write).unwrap().notes.as_deref();
    assert_eq!(notes, Some("mended: blanks"));
}

#[test]
fn a_review_that_lacks_a_reviewer_is_none() {
    let run = with_down(&[]).outcome(Node::Fillers, ["fail"]).run();
    run.assert_failure("stage_failed");
    assert_eq!(run.failure().unwrap().node(), Some("review"));
}

#[test]
fn two_mirrors_are_enough_and_the_third_is_not_waited_for() {
    let run = with_down(&["north"]).run();
    run.assert_success();
    let status = |mirror: &str| run.context().text(&format!("parallel.branch.{mirror}.status"));
    assert_eq!(
        ["north", "south", "west"].map(status),
        ["cancelled", "success", "success"]
    );
    assert!(run.duration().is_zero(), "{run}");
}

#[test]
fn one_mirror_is_too_few_and_the_page_is_withdrawn_from_it() {
    let run = with_down(&["north", "south"]).run();
    run.assert_failure("failure_end");
    assert_eq!(run.duration(), NO_ANSWER);
    let notes = run.outcome(Node::Withdraw).unwrap().notes.as_deref();
    assert_eq!(notes, Some("withdrawn from west"));
}
