//! The pipeline with its handlers, without a server.

use super::Notes;
use super::release_note::{self, Node, choices::Approve};

#[test]
fn a_note_is_written_until_it_is_approved() {
    let run = release_note::simulate()
        .handlers(Notes)
        .answer(Node::Approve, Approve::WriteItAgain)
        .answer(Node::Approve, Approve::Publish)
        .run();
    run.assert_success();
    assert_eq!(
        run.context().text("note"),
        "Draft 2: faster, and with a new file format."
    );
}
