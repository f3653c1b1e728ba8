//! Tests the pipeline without its tools. The command line tests them on a real crate.

use super::release_check::{self, Node};
use super::*;

#[test]
fn a_crate_that_passes_everything_is_released() {
    let run = release_check::simulate().run();
    run.assert_success().assert_path([
        Node::Start,
        Node::Build,
        Node::Test,
        Node::Verdict,
        Node::Package,
        Node::Record,
        Node::Exit,
    ]);
}

#[test]
fn whatever_fails_is_reported() {
    for node in [Node::Build, Node::Test, Node::Package] {
        let run = release_check::simulate().outcome(node, ["fail"]).run();
        run.assert_failure("failure_end");
        assert_eq!(run.path().last(), Some("report_failure"));
    }
    let run = release_check::simulate()
        .outcome(Node::Record, [Recorded::TooLarge])
        .run();
    run.assert_failure("failure_end");
    assert_eq!(run.taken(Node::Record, Node::ReportFailure), 1);
}

#[test]
fn a_package_that_is_not_there_is_not_recorded() {
    // The handler really runs. Outside the root of the repository it finds no folder.
    let run = release_check::simulate().handlers(record {}).run();
    run.assert_failure("failure_end");
    let reason = &run.error_history()[0].reason;
    assert!(
        reason.starts_with("cannot read the folder `examples/"),
        "{reason}"
    );
}
