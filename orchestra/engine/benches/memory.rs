//! W3, W4c and W5: the memory of a long run, a branch and a waiting run, counted at the allocator. W7: the memory of a
//! first stage.
//!
//! `cargo bench -p orchestra-engine --bench memory` prints one line of JSON per figure.

#![allow(unsafe_code, clippy::expect_used)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use support::{Noops, chain, circle, engine, fan, print, run, single};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system allocator unchanged; only counters are added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of the system allocator.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the peak memory during `work`, beyond the memory before it, in bytes.
fn most(work: impl FnOnce()) -> f64 {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    work();
    (MOST.load(Ordering::Relaxed) - before) as f64
}

fn main() {
    let runtime = single();
    let engine = engine();
    let turns = [1_000, 10_000].map(|turns| {
        let pipeline = circle(turns);
        runtime.block_on(run(&engine, pipeline));
        most(|| {
            runtime.block_on(run(&engine, pipeline));
        })
    });
    // Only the path grows, by four bytes per stage. Its list may double its capacity.
    let path = (turns[1] - turns[0]) / 27_000.0;
    print(
        "W3 memory that a stage of a loop adds, path included",
        "bytes/stage",
        path,
        4.0,
        12.0,
    );

    const BRANCHES: usize = 1_000;
    let ballast = "x".repeat(1 << 20);
    let pipeline = fan(BRANCHES, "nap");
    let held = most(|| {
        runtime.block_on(async {
            let start = engine.start(pipeline, Noops).param("ballast", &*ballast);
            let result = start.await.expect("the run starts").wait().await;
            assert!(result.expect("the run ends").is_success());
        });
    });
    // The context is stored once, whatever the number of branches.
    print(
        "W4c held a branch, with 1 MB of context",
        "bytes",
        (held - ballast.len() as f64) / BRANCHES as f64,
        1.0,
        16.0 * 1_024.0,
    );

    const RUNS: usize = 1_000;
    let pipeline = chain(10, "wait");
    let waiting = most(|| {
        runtime.block_on(async {
            let mut waits = Vec::with_capacity(RUNS);
            for _ in 0..RUNS {
                waits.push(engine.start(pipeline, Noops).await.expect("the run starts"));
            }
            let waits: Vec<_> = waits.into_iter().map(|run| run.wait()).collect();
            tokio::task::yield_now().await;
            drop(waits);
        });
    });
    // The lower bound: a task that waits for a boxed future and stores its values in a map.
    let least = most(|| {
        runtime.block_on(async {
            let wait = |_| {
                tokio::spawn(async {
                    let values = HashMap::from([("value".to_owned(), Value::from(1))]);
                    let stage: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(std::future::pending());
                    stage.await;
                    drop(values);
                })
            };
            let tasks: Vec<_> = (0..RUNS).map(wait).collect();
            tokio::task::yield_now().await;
            drop(tasks);
        });
    });
    print(
        "W5 memory of a waiting run",
        "bytes",
        waiting / RUNS as f64,
        least / RUNS as f64,
        4_096.0,
    );
}
