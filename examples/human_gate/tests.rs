//! Tests that answer the gates. The stages before and after them are those of the program.

use std::time::Duration;

use orchestra::Answer;
use orchestra::testkit::{Simulation, SimulationRun};

use super::Desk;
use super::human_gate::{self, Node, choices::Review, choices::Wording};

fn desk() -> Simulation<Node> {
    human_gate::simulate().handlers(Desk)
}

fn sentences(run: &SimulationRun<Node>) -> usize {
    run.context()
        .get("announcement")
        .unwrap()
        .as_array()
        .unwrap()
        .len()
}

#[test]
fn what_is_approved_is_published() {
    let run = desk().answer(Node::Review, Review::Publish).run();
    run.assert_success()
        .assert_path([Node::Start, Node::Write, Node::Review, Node::Publish, Node::Exit]);
    assert_eq!(run.context().text("human.gate.selected"), "P");
    assert_eq!(sentences(&run), 3);
}

#[test]
fn a_gate_is_asked_again_after_each_change() {
    let run = desk()
        .answer(Node::Review, Review::Shorten)
        .answer(Node::Review, Review::AddASentence)
        .answer(Node::Wording, "Mind the gap.")
        .answer(Node::Review, "shorten")
        .answer(Node::Review, "p")
        .run();
    run.assert_success();
    assert_eq!(run.taken(Node::Review, Node::Shorten), 2);
    assert_eq!(run.taken(Node::Wording, Node::Amend), 1);
    assert_eq!(sentences(&run), 2);
}

#[test]
fn a_key_a_label_and_a_target_mean_the_same_and_nothing_else_does() {
    for answer in ["D", "d", "Discard", "[D] discard", "discard"] {
        let run = desk().answer(Node::Review, answer).run();
        assert_eq!(run.taken(Node::Review, Node::Discard), 1, "{answer}");
    }
    let error = desk().answer(Node::Review, "X").try_run().unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the gate `review` has no choice `X`"),
        "{error}"
    );
}

#[test]
fn a_gate_with_a_free_edge_takes_any_text_that_is_no_choice() {
    let adding = || {
        let simulation = desk().answer(Node::Review, Review::AddASentence);
        simulation.answer(Node::Review, Review::Publish)
    };
    let run = adding().answer(Node::Wording, "Back to the roots.").run();
    // The context describes the last answer, which had no text. The sentence is in the announcement.
    assert_eq!(run.context().text("human.gate.text"), "");
    assert!(run.context().text("announcement").contains("Back to the roots."));
    assert_eq!(sentences(&run), 4);
    let run = adding().answer(Node::Wording, Wording::Back).run();
    assert_eq!(run.taken(Node::Wording, Node::Review), 1);
    assert_eq!(sentences(&run), 3);
}

#[test]
fn silence_discards() {
    let run = desk().unanswered(Node::Review).run();
    run.assert_success()
        .assert_path([Node::Start, Node::Write, Node::Review, Node::Discard, Node::Exit]);
    assert_eq!(run.duration(), Duration::from_secs(5 * 60));
    assert_eq!(run.context().text("human.gate.answered_by"), "default");
    let notes = run.outcome(Node::Discard).unwrap().notes.as_deref();
    assert_eq!(notes, Some("discarded, because nobody answered in time"));
}

#[test]
fn a_question_that_nobody_can_be_asked_waits_and_one_that_is_skipped_fails() {
    desk().run().assert_waits_for(Node::Review);
    desk()
        .answer(Node::Review, Answer::skipped())
        .run()
        .assert_failure("stage_failed");
}

#[test]
fn the_announcement_is_that_of_the_product() {
    let run = desk()
        .param("product", "Kettle")
        .answer(Node::Review, Review::Discard)
        .run();
    assert!(run.to_string().contains("\"Kettle 1.4 is here."), "{run}");
}
