//! Workers and the server are killed while runs go on.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use orchestra_conformance::case::Case;
use orchestra_conformance::chaos::{self, Chaos};
use orchestra_conformance::fleet::Fleet;
use orchestra_oracle_tests::{case_count, seed};
use orchestra_restate_server_tests::Faults;

const PROGRAM: &str = env!("CARGO_BIN_EXE_orchestra-conformance-worker");

fn cases(first: u64, count: usize) -> Vec<Arc<Case>> {
    let first = seed(first);
    let seeds = first..first + case_count(count) as u64;
    seeds.map(|seed| Arc::new(Case::new(seed))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_finished_stage_runs_again_whatever_is_killed() {
    let Some(mut fleet) = Fleet::start("no_finished_stage_runs_again_whatever_is_killed").await else {
        return;
    };
    let began = Instant::now();
    let chaos = Chaos {
        workers: Some(Duration::from_secs(1)),
        server: Some(Duration::from_secs(8)),
        takes: Duration::from_millis(10),
        at_once: 48,
        ..Chaos::default()
    };
    let summary = chaos::run(&mut fleet, PROGRAM.as_ref(), &cases(20_000, 200), &chaos, 1).await;
    println!("{summary} in {:.0} s", began.elapsed().as_secs_f64());
    assert!(summary.workers > 2, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_end_alike_over_connections_that_break_and_through_deploys() {
    let Some(mut fleet) =
        Fleet::start("runs_end_alike_over_connections_that_break_and_through_deploys").await
    else {
        return;
    };
    let began = Instant::now();
    let chaos = Chaos {
        faults: Some(Faults {
            mean_bytes: 100_000,
            cut: 3,
            half_close: 1,
            stall: 1,
            stall_time: Duration::from_millis(200),
            delay: 3,
            delay_limit: Duration::from_millis(50),
            ..Faults::default()
        }),
        deploys: Some(Duration::from_secs(4)),
        takes: Duration::from_millis(10),
        at_once: 32,
        ..Chaos::default()
    };
    let summary = chaos::run(&mut fleet, PROGRAM.as_ref(), &cases(30_000, 100), &chaos, 2).await;
    println!("{summary} in {:.0} s", began.elapsed().as_secs_f64());
    assert!(summary.faults > 10, "{summary}");
}
