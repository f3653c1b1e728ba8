//! Seeds that belong to the suite; the command simulates more of them.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Mutex;

use orchestra_fault_tests::command::{scratch, simulate_all, table};
use orchestra_fault_tests::simulation::simulate;

/// How many seeds the suite simulates.
const SEEDS: u64 = 700;

/// Seeds that once found a fault, or find it where its guard is taken away again.
const FOUND: &[(u64, &str)] = &[
    (26, "a hole in the events made them unreadable for ever"),
    (
        43,
        "a visit whose files were being moved aside ended the run for ever",
    ),
    (55, "stages that may have begun were reported that they never had"),
    (1_177, "the name of the manifest was lost after stages had run"),
    (1_282, "a record was acted on that a failed sync had lost"),
    (
        8_199,
        "a run that had failed was taken for one that had succeeded",
    ),
    (9_097, "the manifest survived without the journal"),
    (12_008, "the end of a stage was reported twice"),
    (81_183, "a line of the events was half that of an earlier process"),
    (
        273_314,
        "the end of a stage was reported twice, where warnings were lost",
    ),
];

#[test]
fn no_fault_makes_a_run_break_its_promises() {
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let summary = simulate_all(0, SEEDS, threads, false, &|report, _| {
        let reported = report.violations.iter();
        let reported = reported.map(|violation| format!("seed {}: {violation}", report.seed));
        failures.lock().unwrap().extend(reported);
    });
    println!("{}", table(&summary.counts));
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{}\nagain by `cargo run --release -p orchestra-fault-tests -- --seed N --trace`",
        failures.join("\n")
    );
    // The simulation is worth as much as befalls its runs.
    for (what, least) in [
        ("kill", 50),
        ("loss of power", 50),
        ("sync: I/O error", 1),
        ("write: no space", 1),
        ("runs that ended", SEEDS * 9 / 10),
        ("runs compared with the rules", SEEDS / 3),
    ] {
        let count = summary.counts.get(what).copied().unwrap_or_default();
        assert!(count >= least, "{what}: {count}, expected at least {least}");
    }
}

#[test]
fn seeds_that_found_faults_find_none_any_more() {
    let dir = scratch();
    for (seed, fault) in FOUND {
        let report = simulate(*seed, dir.path());
        assert!(
            report.violations.is_empty(),
            "{fault}: seed {seed}: {:?}",
            report.violations
        );
    }
}

#[test]
fn a_seed_gives_the_same_trace_each_time() {
    for seed in 0..40 {
        let (one, other) = (scratch(), scratch());
        let first = simulate(seed, one.path());
        let second = simulate(seed, other.path());
        assert!(first.trace.len() > 20, "seed {seed}: {} lines", first.trace.len());
        for (at, (first, second)) in first.trace.iter().zip(&second.trace).enumerate() {
            assert_eq!(first, second, "seed {seed}, line {at}");
        }
        assert_eq!(first.trace.len(), second.trace.len(), "seed {seed}");
        assert_eq!(first.counts, second.counts, "seed {seed}");
    }
}
