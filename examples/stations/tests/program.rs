//! The program itself: each order takes its own way.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_stations")).args(args).output();
    program.unwrap()
}

fn reported(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn each_order_takes_its_own_way() {
    let done = run(&[]);
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
