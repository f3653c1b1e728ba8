//! Chaos for a long time: `orchestra-chaos [MINUTES] [RUNS A ROUND] [SEED]`.
//!
//! Rounds of random runs are executed while one of two workers is killed each second, the server every eight seconds,
//! connections break, and other versions of the program are deployed. Prints a summary of each round, and of all.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::exit)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orchestra_conformance::case::Case;
use orchestra_conformance::chaos::{self, Chaos, Summary};
use orchestra_conformance::fleet::Fleet;
use orchestra_restate_server_tests::Faults;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let number = |at: usize, default: u64| {
        let given = std::env::args().nth(at);
        given.map_or(default, |given| given.parse().unwrap())
    };
    let (minutes, runs, seed) = (number(1, 60), number(2, 2_000), number(3, 1));
    let program = std::env::current_exe()
        .unwrap()
        .with_file_name("orchestra-conformance-worker");
    let chaos = Chaos {
        workers: Some(Duration::from_secs(1)),
        server: Some(Duration::from_secs(8)),
        faults: Some(Faults {
            mean_bytes: 1_000_000,
            cut: 3,
            half_close: 1,
            stall: 1,
            stall_time: Duration::from_millis(500),
            delay: 3,
            delay_limit: Duration::from_millis(100),
            ..Faults::default()
        }),
        deploys: Some(Duration::from_secs(30)),
        takes: Duration::from_millis(100),
        at_once: 48,
    };
    let began = Instant::now();
    let limit = Duration::from_secs(minutes * 60);
    let mut total = Summary::default();
    let mut round = 0;
    while began.elapsed() < limit {
        let Some(mut fleet) = Fleet::start("the chaos").await else {
            return ExitCode::FAILURE;
        };
        let first = seed * 1_000_000 + round * runs;
        let cases: Vec<Arc<Case>> = (first..first + runs)
            .map(|seed| Arc::new(Case::new(seed)))
            .collect();
        let summary = chaos::run(&mut fleet, &program, &cases, &chaos, seed + round).await;
        println!(
            "round {round} after {:.0} s: {summary}",
            began.elapsed().as_secs_f64()
        );
        total.add(&summary);
        round += 1;
    }
    println!("in {:.0} s: {total}", began.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
