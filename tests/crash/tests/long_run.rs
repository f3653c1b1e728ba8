//! A run of a hundred thousand stages: memory and open files stay as they are after the first ten thousand.

#![allow(clippy::unwrap_used, clippy::panic)]
#![cfg(target_os = "linux")]

use orchestra_crash_tests::harness::{Exit, Runner, place};
use orchestra_crash_tests::job::{Graph, Job};
use orchestra_crash_tests::log::{Log, Said, Size};
use orchestra_engine::Durability;

#[test]
fn a_hundred_thousand_stages_take_no_more_than_ten_thousand() {
    let (place, runner) = (place(), Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner")));
    let job = Job {
        durability: Durability::Process,
        watched: (1..=10).map(|tenth| tenth * 10_000).collect(),
        ..Job::of(Graph::Shape("marathon".to_owned()), place.path().join("runs"))
    };
    let began = std::time::Instant::now();
    let Exit::Said { report, code: 0 } = runner.run(&job) else {
        panic!("it runs to its end")
    };
    println!("{:?}", began.elapsed());
    assert_eq!(report["ended"]["status"], "success");
    let lines = Log::read(&job.log);
    let sizes: Vec<Size> = lines
        .iter()
        .filter_map(|line| match line.said {
            Said::Size(size) => Some(size),
            _ => None,
        })
        .collect();
    for size in &sizes {
        println!("{size:?}");
    }
    let [first, .., last] = sizes.as_slice() else {
        panic!("{sizes:?}")
    };
    assert_eq!((first.stages, last.stages), (10_000, 100_000));
    assert_eq!(first.files, last.files, "open files: {sizes:?}");
    // The path that the run took grows by 4 bytes a stage: the result has it.
    let path = (last.stages - first.stages) * 4 / 1024;
    let grown = last.memory.saturating_sub(first.memory).saturating_sub(path);
    assert!(
        grown * 20 < first.memory,
        "memory grew by {grown} kB beside the path: {sizes:?}"
    );
}
