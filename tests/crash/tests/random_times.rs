//! Kill -9 at random times, from outside, of a run of thirty nodes.
//!
//! `ORCHESTRA_KILLS` says how often, and `ORCHESTRA_SEED` with which seed.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::{AtomicU64, Ordering};

use orchestra_crash_tests::harness::{Attempt, Exit, Runner, dir, in_parallel};
use orchestra_crash_tests::job::{Graph, Job};
use orchestra_crash_tests::shapes::shape;

/// A number of the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// The next number of a sequence that its seed fixes (SplitMix64).
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[test]
fn a_run_that_is_killed_at_any_time_comes_to_the_same_end() {
    let (wanted, seed) = (
        number("ORCHESTRA_KILLS", 200),
        number("ORCHESTRA_SEED", 20_261_121),
    );
    let runner = Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner"));
    let (dir, shape) = (dir(), shape("long"));
    assert_eq!(shape.pipeline().nodes.len(), 30);
    let graph = || Graph::Shape("long".to_owned());
    let (expected, changes) = runner.whole(&Job::new(graph(), dir.path().join("whole")), false);
    let attempt = Attempt {
        runner: &runner,
        expected: &expected,
        at_once: shape.at_once,
        in_order: false,
    };
    let kills = AtomicU64::new(0);
    let runs = in_parallel(dir.path(), "random", |run, runs| {
        if kills.load(Ordering::SeqCst) >= wanted {
            return Ok(false);
        }
        let mut seed = seed ^ run.wrapping_mul(0x0100_0000_01b3);
        let mut job = Job {
            tells: true,
            ..Job::new(graph(), runs)
        };
        // A process that is killed early gets less far, so the run comes to its end only by luck, or at last.
        for _ in 0..next(&mut seed) % 6 {
            let at = next(&mut seed) % changes + 1;
            match runner.kill_at(&job, at) {
                Exit::Killed => kills.fetch_add(1, Ordering::SeqCst),
                said => return attempt.ended(&job, &said).map(|()| true),
            };
            job = Job {
                tells: true,
                ..attempt.after_kill(&job)?
            };
        }
        job.tells = false;
        attempt.ended(&job, &runner.run(&job))?;
        Ok(true)
    });
    let kills = kills.into_inner();
    println!("{kills} kills of {runs} runs with {changes} changes each, seed {seed}");
    assert!(kills >= wanted, "only {kills}");
}
