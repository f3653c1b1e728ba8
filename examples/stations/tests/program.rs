//! The programs: each order takes its own way, and a workflow is edited by HTTP.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn run(program: &str) -> Output {
    Command::new(program).output().unwrap()
}

fn reported(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn each_order_takes_its_own_way() {
    let done = run(env!("CARGO_BIN_EXE_stations"));
    let reported = reported(&done);
    assert_eq!(done.status.code(), Some(0), "{reported}");
    for way in [
        "start -> pick -> weigh -> letterbox -> exit",
        "start -> pick -> wrap -> weigh -> letterbox -> exit",
        "start -> pick -> weigh -> courier -> exit",
        "start -> pick -> restock -> pick -> weigh -> counter -> exit",
        "start -> pick -> restock -> pick -> weigh -> freight -> exit",
        "start -> pick -> telephone",
    ] {
        assert!(reported.contains(&format!("  {way}\n")), "{way}: {reported}");
    }
}

#[test]
fn a_workflow_is_edited_activated_executed_and_evaluated_by_http() {
    let done = run(env!("CARGO_BIN_EXE_stations_over_http"));
    let reported = reported(&done);
    assert_eq!(done.status.code(), Some(0), "{reported}");
    for line in [
        "the same change again: 412 \"changed\"",
        "version 2 is active",
        "20 g: start -> weigh -> letterbox -> exit",
        "4000 g: start -> weigh -> courier -> exit",
        "300 g: start -> weigh -> letterbox -> exit",
        "version 2, 3 runs:",
        "  weigh -> letterbox: tested 3, taken 2",
        "  weigh -> courier: tested 0, taken 1",
    ] {
        assert!(reported.lines().any(|found| found == line), "{line}: {reported}");
    }
}
