//! Simulates both edges.

use super::branching::{self, Node};

#[test]
fn a_translation_is_proofread() {
    let run = branching::simulate().run();
    run.assert_success().assert_path([
        Node::Start,
        Node::Translate,
        Node::Readable,
        Node::Proofread,
        Node::Exit,
    ]);
}

#[test]
fn a_failed_translation_is_apologised_for() {
    let run = branching::simulate().outcome(Node::Translate, ["fail"]).run();
    run.assert_success().assert_path([
        Node::Start,
        Node::Translate,
        Node::Readable,
        Node::Apologise,
        Node::Exit,
    ]);
}
