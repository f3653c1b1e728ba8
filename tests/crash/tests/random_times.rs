//! Kill -9 at random times, from outside, of a run of thirty nodes, and of a hundred runs in one process.
//!
//! `ORCHESTRA_KILLS` says how often, and `ORCHESTRA_SEED` with which seed.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::panic)]

use std::path::PathBuf;
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

/// Kills processes with this job again and again until it is done, and begins anew until there were enough kills.
fn kill(job: &Job, wanted: u64) {
    let (wanted, seed) = (
        number("ORCHESTRA_KILLS", wanted),
        number("ORCHESTRA_SEED", 20_261_121),
    );
    let Graph::Shape(name) = &job.graph else {
        panic!("a shape")
    };
    let runner = Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner"));
    let dir = dir();
    let job_in = |runs: PathBuf| Job {
        log: runs.with_extension("log"),
        runs,
        ..job.clone()
    };
    let (expected, changes) = runner.whole(&job_in(dir.path().join("whole")), false);
    let attempt = Attempt {
        runner: &runner,
        expected: &expected,
        at_once: shape(name).at_once,
        in_order: false,
    };
    let kills = AtomicU64::new(0);
    let attempts = in_parallel(dir.path(), "random", |number, runs| {
        if kills.load(Ordering::SeqCst) >= wanted {
            return Ok(false);
        }
        let mut seed = seed ^ number.wrapping_mul(0x0100_0000_01b3);
        let mut job = Job {
            tells: true,
            ..job_in(runs.to_owned())
        };
        // A process that is killed early gets less far, so the job is only done by luck, or at last.
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
    println!("{kills} kills in {attempts} attempts with {changes} changes each, seed {seed}");
    assert!(kills >= wanted, "only {kills}");
}

#[test]
fn a_run_that_is_killed_at_any_time_comes_to_the_same_end() {
    assert_eq!(shape("long").pipeline().nodes.len(), 30);
    kill(&Job::new(Graph::Shape("long".to_owned()), ""), 200);
}

/// The runs share their syncs, so a kill strikes several between the writing and the syncing of their records.
#[test]
fn a_hundred_runs_of_a_process_that_is_killed_at_any_time_come_to_the_same_ends() {
    let job = Job {
        many: 100,
        ..Job::new(Graph::Shape("chain".to_owned()), "")
    };
    kill(&job, 20);
}
