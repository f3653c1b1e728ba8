//! Kill -9 at every step of every commit: nothing is lost, nothing that was over runs again, the end is the same.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::path::Path;

use orchestra_crash_tests::files::{Blow, Strike};
use orchestra_crash_tests::harness::{Attempt, Runner, dir, in_parallel};
use orchestra_crash_tests::job::{Graph, Job};
use orchestra_crash_tests::shapes::shape;
use orchestra_engine::Durability;

fn runner() -> Runner {
    Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner"))
}

/// How a shape is killed.
#[derive(Clone, Copy)]
enum Way {
    /// At each change: before it, and in the middle of it or behind it.
    Each,
    /// At every so manieth change, in the middle of it or behind it.
    Every(u64),
    /// In the middle of the run, and then at each change of the process that goes on with it.
    GoingOn,
}

/// Kills a shape until a run ends unharmed.
fn killed(name: &str, many: u32, durability: Durability, way: Way) {
    let dir = dir();
    let runner = runner();
    let shape = shape(name);
    let job = |runs: &Path| Job {
        durability,
        many,
        ..Job::new(Graph::Shape(name.to_owned()), runs)
    };
    let in_order = shape.at_once == 1;
    let (expected, changes) = runner.whole(&job(&dir.path().join("whole")), in_order);
    let attempt = Attempt {
        runner: &runner,
        expected: &expected,
        at_once: shape.at_once,
        in_order,
    };
    let half = |at| Strike { at, blow: Blow::Half };
    let kills = in_parallel(dir.path(), name, |number, runs| {
        let strikes = match way {
            Way::Each if number % 2 == 1 => vec![Strike {
                at: number.div_ceil(2),
                blow: Blow::Before,
            }],
            // Here and there the process that goes on is killed too, and the one behind it.
            Way::Each if number % 10 == 0 => {
                vec![half(number / 2), half(number % 13 + 1), half(number % 7 + 1)]
            }
            Way::Each => vec![half(number / 2)],
            Way::Every(step) => vec![half(number * step)],
            Way::GoingOn => vec![half(changes / 2), half(number)],
        };
        // What kills in the middle of the run always does.
        let sure = usize::from(matches!(way, Way::GoingOn));
        Ok(attempt.of(&job(runs), &strikes)? > sure)
    });
    println!("{name}: {changes} changes, {kills} kills");
    let least = match way {
        Way::Each => 2 * changes - 4,
        // Those of one process that are made together vary.
        Way::Every(step) => changes * 9 / 10 / step,
        Way::GoingOn => changes / 4,
    };
    assert!(kills >= least, "only {kills} kills for {changes} changes");
}

#[test]
fn a_chain_with_a_loop() {
    killed("chain", 0, Durability::Full, Way::Each);
}

#[test]
fn retries_and_their_waits() {
    killed("retries", 0, Durability::Full, Way::Each);
}

#[test]
fn parallel_branches() {
    killed("parallel", 0, Durability::Full, Way::Each);
}

#[test]
fn gates_with_and_without_an_answer() {
    killed("gates", 0, Durability::Full, Way::Each);
}

#[test]
fn runs_within_a_run() {
    killed("children", 0, Durability::Full, Way::Each);
}

#[test]
fn a_run_that_begins_anew() {
    killed("restart", 0, Durability::Full, Way::Each);
}

#[test]
fn stages_that_note_their_steps() {
    killed("notes", 0, Durability::Full, Way::Each);
}

#[test]
fn a_run_that_fails_where_a_checkpoint_is_due() {
    killed("bulky_end", 0, Durability::Full, Way::Each);
}

#[test]
fn runs_that_survive_their_process_but_no_loss_of_power() {
    for name in [
        "chain", "retries", "parallel", "gates", "children", "restart", "notes",
    ] {
        killed(name, 0, Durability::Process, Way::Every(2));
    }
}

#[test]
fn processes_that_go_on_are_killed_at_each_step_too() {
    for name in [
        "chain", "retries", "parallel", "gates", "children", "restart", "notes",
    ] {
        killed(name, 0, Durability::Full, Way::GoingOn);
    }
}

#[test]
fn runs_that_share_their_syncs() {
    killed("chain", 3, Durability::Full, Way::Every(3));
}
