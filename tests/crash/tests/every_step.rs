//! Kill -9 at every step of every commit: nothing is lost, nothing that was over runs again, the end is the same.

#![allow(clippy::unwrap_used, clippy::panic)]

use orchestra_crash_tests::files::{Blow, Strike};
use orchestra_crash_tests::harness::{Attempt, Runner, in_parallel, place};
use orchestra_crash_tests::job::{Graph, Job};
use orchestra_crash_tests::shapes::shape;
use orchestra_engine::Durability;

fn runner() -> Runner {
    Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner"))
}

/// Kills a shape at each change of the file system, in each of the ways.
fn killed_at_every_step(name: &str, durability: Durability) {
    let place = place();
    let runner = runner();
    let shape = shape(name);
    let job = |runs: &std::path::Path| Job {
        durability,
        ..Job::of(Graph::Shape(name.to_owned()), runs)
    };
    let in_order = shape.at_once == 1;
    let (expected, changes) = runner.whole(&job(&place.path().join("whole")), in_order);
    let attempt = Attempt {
        runner: &runner,
        expected: &expected,
        at_once: shape.at_once,
        in_order,
    };
    let kills = in_parallel(place.path(), name, |number, runs| {
        let at = number.div_ceil(2);
        let blow = if number % 2 == 1 { Blow::Before } else { Blow::Half };
        let mut strikes = vec![Strike { at, blow }];
        if number % 5 == 0 {
            // The process that goes on is killed too, and the one behind it.
            strikes.extend([number % 13 + 1, number % 7 + 1].map(|at| Strike { at, blow: Blow::Half }));
        }
        Ok(attempt.of(&job(runs), &strikes)? > 0)
    });
    println!("{name}: {changes} changes, {kills} kills");
    assert!(kills >= changes, "only {kills} kills for {changes} changes");
}

#[test]
fn a_chain_with_a_loop() {
    killed_at_every_step("chain", Durability::Full);
}

#[test]
fn retries_and_their_waits() {
    killed_at_every_step("retries", Durability::Full);
}

#[test]
fn parallel_branches() {
    killed_at_every_step("parallel", Durability::Full);
}

#[test]
fn gates_with_and_without_an_answer() {
    killed_at_every_step("gates", Durability::Full);
}

#[test]
fn runs_within_a_run() {
    killed_at_every_step("children", Durability::Full);
}

#[test]
fn a_run_that_begins_anew() {
    killed_at_every_step("restart", Durability::Full);
}
