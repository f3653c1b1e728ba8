//! W1, W3, W4 and W5: the allocations of a stage, a branch and a run, and the memory of a long run, a branch and a
//! waiting run, counted at the allocator. Prints one line of JSON per figure and curve.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program that measures prints its figures"
)]

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use orchestra_benches::allocator::{self, Counting};
use orchestra_benches::figure::{Curve, Figure};
use orchestra_benches::measure::single;
use orchestra_benches::pipelines::{Noops, chain, circle, engine, fan, run};
use orchestra_graph::Pipeline;
use serde::Serialize;
use serde_json::Value;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the peak memory during `work`, beyond the memory before it, in bytes.
fn most(work: impl FnOnce()) -> f64 {
    let before = allocator::held();
    allocator::reset_most();
    work();
    (allocator::most() - before) as f64
}

/// Returns the number of allocations of a run.
fn made(pipeline: &'static Pipeline) -> f64 {
    let (runtime, engine) = (single(), engine());
    runtime.block_on(run(&engine, pipeline));
    let before = allocator::made();
    runtime.block_on(run(&engine, pipeline));
    (allocator::made() - before) as f64
}

/// Counts the allocations of a stage and a branch, without those of the run around them, and of a run. They do not
/// depend on the machine.
fn allocations() {
    let [few, many] = [100, 1_100].map(|stages| made(chain(stages, "noop")));
    let name = "W1 allocations of a stage, its handler included";
    print_figure(name, "allocations", (many - few) / 1_000.0, None, 4.0);
    let [few, many] = [100, 1_100].map(|branches| made(fan(branches, "noop")));
    let name = "W4 allocations of a branch of one stage";
    print_figure(name, "allocations", (many - few) / 1_000.0, None, 60.0);
    let name = "W5 allocations of a run of 10 stages";
    print_figure(name, "allocations", made(chain(10, "noop")), None, 80.0);
}

fn print(value: &impl Serialize) {
    println!("{}", serde_json::to_string(value).expect("it is JSON"));
}

fn print_figure(name: &str, unit: &str, ours: f64, limit: impl Into<Option<f64>>, target: f64) {
    print(&Figure::with_target(name, unit, ours, limit, target));
}

fn curve(name: &str, counted: &str, points: Vec<(f64, f64)>) {
    print(&Curve {
        name: name.to_owned(),
        counted: counted.to_owned(),
        unit: "bytes each".to_owned(),
        points,
    });
}

/// Returns the peak memory of a loop of that many turns.
fn looping(turns: u32) -> f64 {
    let (runtime, engine) = (single(), engine());
    let pipeline = circle(turns);
    runtime.block_on(run(&engine, pipeline));
    most(|| {
        runtime.block_on(run(&engine, pipeline));
    })
}

/// Returns the peak memory of a block, beyond its ballast, for each branch.
fn branching(branches: usize) -> f64 {
    let (runtime, engine) = (single(), engine());
    let ballast = "x".repeat(1 << 20);
    let pipeline = fan(branches, "nap");
    let held = most(|| {
        runtime.block_on(async {
            let start = engine.start(pipeline, Noops).param("ballast", &*ballast);
            let result = start.await.expect("the run starts").wait().await;
            assert!(result.expect("the run ends").is_success());
        });
    });
    // The context is stored once, whatever the number of branches.
    (held - ballast.len() as f64) / branches as f64
}

/// Returns the memory of each of some runs that wait.
fn waiting(runs: usize) -> f64 {
    let (runtime, engine) = (single(), engine());
    let pipeline = chain(10, "wait");
    let held = most(|| {
        runtime.block_on(async {
            let mut started = Vec::with_capacity(runs);
            for _ in 0..runs {
                started.push(engine.start(pipeline, Noops).await.expect("the run starts"));
            }
            let waits: Vec<_> = started.into_iter().map(|run| run.wait()).collect();
            tokio::task::yield_now().await;
            drop(waits);
        });
    });
    held / runs as f64
}

/// Returns the memory of a task that waits for a boxed future and stores its values in a map.
fn least(tasks: usize) -> f64 {
    let runtime = single();
    let held = most(|| {
        runtime.block_on(async {
            let wait = |_| {
                tokio::spawn(async {
                    let values = HashMap::from([("value".to_owned(), Value::from(1))]);
                    let stage: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(std::future::pending());
                    stage.await;
                    drop(values);
                })
            };
            let tasks: Vec<_> = (0..tasks).map(wait).collect();
            tokio::task::yield_now().await;
            drop(tasks);
        });
    });
    held / tasks as f64
}

fn main() {
    allocations();
    let turns = [1_000, 10_000, 100_000].map(|turns| (turns, looping(turns)));
    // Only the path grows, by four bytes per stage. Its list may double its capacity.
    let path = (turns[1].1 - turns[0].1) / 27_000.0;
    print_figure(
        "W3 memory that a stage of a loop adds, path included",
        "bytes/stage",
        path,
        4.0,
        12.0,
    );
    let points = turns.map(|(turns, held)| (f64::from(turns * 3), held / f64::from(turns * 3)));
    curve("Peak memory of a run, by its stages", "stages", points.into());

    let branches = [100, 1_000, 10_000].map(|branches| (branches as f64, branching(branches)));
    print_figure(
        "W4c held a branch, with 1 MB of context",
        "bytes",
        branches[1].1,
        None,
        16.0 * 1_024.0,
    );
    curve(
        "Peak memory of a block, by its branches",
        "branches",
        branches.into(),
    );

    let runs = [100, 1_000, 10_000].map(|runs| (runs as f64, waiting(runs)));
    print_figure(
        "W5 memory of a waiting run",
        "bytes",
        runs[1].1,
        least(1_000),
        3_584.0,
    );
    curve("Memory of waiting runs, by their number", "runs", runs.into());
}
