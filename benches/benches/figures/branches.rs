//! W4, W4s and W4c: the cost of a branch compared to plain batches of futures and of tasks.

use std::future::Future;
use std::pin::Pin;

use futures_util::stream::{FuturesUnordered, StreamExt};
use orchestra_benches::measure::{Bench, median, single};
use orchestra_benches::pipelines::{NAP, Noops, engine, fan};
use orchestra_graph::Pipeline;

const BRANCHES: usize = 1_000;
const ROUNDS: usize = 51;

/// Runs a batch of plain futures, each boxed and woken separately.
async fn batch(nap: bool) {
    let work = || -> Pin<Box<dyn Future<Output = u64>>> {
        Box::pin(async move {
            if nap {
                tokio::time::sleep(NAP).await;
            }
            1
        })
    };
    let mut all: FuturesUnordered<_> = (0..BRANCHES).map(|_| work()).collect();
    let mut sum = 0;
    while let Some(one) = all.next().await {
        sum += one;
    }
    assert_eq!(sum, BRANCHES as u64);
}

/// Runs the same batch as tasks.
async fn tasks(nap: bool) {
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..BRANCHES {
        all.spawn(async move {
            if nap {
                tokio::time::sleep(NAP).await;
            }
            1u64
        });
    }
    let mut sum = 0;
    while let Some(one) = all.join_next().await {
        sum += one.expect("the task ends");
    }
    assert_eq!(sum, BRANCHES as u64);
}

async fn run(pipeline: &'static Pipeline, ballast: Option<&str>) {
    let mut start = engine().start(pipeline, Noops);
    if let Some(ballast) = ballast {
        start = start.param("ballast", ballast);
    }
    let result = start
        .await
        .expect("the run starts")
        .wait()
        .await
        .expect("the run ends");
    assert!(result.is_success(), "{result:?}");
    assert_eq!(result.path.len(), BRANCHES + 4);
}

pub(crate) fn measure(bench: &mut Bench) {
    let runtime = single();
    let millis = |work: &mut dyn FnMut()| median(ROUNDS, 1_000, work);
    let (noop, nap) = (fan(BRANCHES, "noop"), fan(BRANCHES, "nap"));
    let ballast = "x".repeat(1 << 20);

    let mut plain = None;
    if bench.wants("W4 ") || bench.wants("W4c ") {
        let floor = millis(&mut || runtime.block_on(batch(false)));
        let spawned = millis(&mut || runtime.block_on(tasks(false)));
        let ours = millis(&mut || runtime.block_on(run(noop, None)));
        bench.record(
            "W4 fan-out to 1,000 no-op branches and join",
            "ms",
            ours,
            floor,
            1.0,
        );
        bench.record("W4 the same, beside tasks", "ms", ours, spawned, 1.0);
        plain = Some(ours);
    }
    if bench.wants("W4s ") {
        let floor = millis(&mut || runtime.block_on(batch(true)));
        let spawned = millis(&mut || runtime.block_on(tasks(true)));
        let ours = millis(&mut || runtime.block_on(run(nap, None)));
        bench.record("W4s each branch sleeps 10 ms", "ms", ours, floor, 13.0);
        bench.record("W4s the same, beside tasks", "ms", ours, spawned, 13.0);
    }
    if let Some(plain) = plain
        && bench.wants("W4c ")
    {
        let ours = millis(&mut || runtime.block_on(run(noop, Some(&ballast))));
        bench.record(
            "W4c the first with 1 MB of context",
            "ms",
            ours,
            plain,
            plain * 1.2,
        );
    }
}
