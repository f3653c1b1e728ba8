//! Random graphs by all drivers.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, LazyLock};

use futures_util::StreamExt as _;
use orchestra_conformance::case::{Actor, Case, KINDS};
use orchestra_conformance::driver::{Driver, run};
use orchestra_conformance::embedded::Embedded;
use orchestra_conformance::fleet::Fleet;
use orchestra_conformance::memory::Memory;
use orchestra_conformance::remote::Remote;
use orchestra_oracle_tests::{case_count, seed};

/// The cases of all tests: `ORACLE_CASES=10000` is the longer form.
fn cases() -> &'static [Arc<Case>] {
    static CASES: LazyLock<Vec<Arc<Case>>> = LazyLock::new(|| {
        let first = seed(10_000);
        let seeds = first..first + case_count(600) as u64;
        seeds.map(|seed| Arc::new(Case::new(seed))).collect()
    });
    &CASES
}

/// Runs cases by a driver, many at a time, and compares their ends with those of the machine.
async fn compare<D: Driver>(driver: D, cases: &[Arc<Case>], at_once: usize) {
    let driver = Arc::new(driver);
    let runs = futures_util::stream::iter(cases.iter().cloned().map(|case| {
        let driver = driver.clone();
        tokio::spawn(async move {
            let limit = std::time::Duration::from_secs(60);
            let ended = tokio::time::timeout(limit, run(&*driver, &case)).await;
            let ended = ended.unwrap_or_else(|_| panic!("{} does not end\n{}", case.name, case.dot));
            let difference = case.difference(&ended);
            assert!(difference.is_empty(), "{}\n{}\n{difference}", case.name, case.dot);
            ended.stages()
        })
    }));
    let stages: Vec<usize> = runs
        .buffer_unordered(at_once)
        .map(|stages| stages.unwrap())
        .collect()
        .await;
    let stages: usize = stages.into_iter().sum();
    assert!(stages > cases.len(), "{stages} stages of {} runs", cases.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_runs_random_graphs_as_its_machine_does() {
    compare(Embedded::new(Actor::default()), cases(), 64).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_that_are_lost_and_repeated_run_them_alike() {
    compare(Memory::new(Actor::default(), 20), cases(), 64).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_a_server_run_them_alike() {
    let Some(fleet) = Fleet::start("workers_of_a_server_run_them_alike").await else {
        return;
    };
    let cases = cases();
    let (inline, remote) = cases.split_at(cases.len() * 9 / 10);
    let actor = Actor::default();
    let worker = fleet
        .worker_of(inline, &actor)
        .inline(KINDS[0])
        .inline(KINDS[1])
        .build()
        .unwrap();
    let _serving = fleet.serve(&worker).await;
    compare(Remote(fleet.client()), inline, 64).await;
    let worker = fleet.worker_of(remote, &actor).build().unwrap();
    let _serving = fleet.serve(&worker).await;
    compare(Remote(fleet.client()), remote, 64).await;
}
