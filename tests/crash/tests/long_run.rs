//! A day of work by proxy: 100,000 stages in one run. What it holds grows hardly after the first 10,000.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use orchestra_engine::{
    Durability, Engine, EventKind, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Outcome, Registry,
    StageContext, Words,
};
use orchestra_graph::{LoadOptions, Source, load};

const STAGES: u64 = 100_000;
const FIRST: u64 = 10_000;

const TURN: KindSpec = KindSpec {
    kind: "turn",
    fields: &[],
    words: Words::Open,
};

struct Turn;

impl Handler for Turn {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move { Outcome::success().set("turn", stage.visit()).into() })
    }
}

impl HandlerSet for Turn {
    const KINDS: Kinds = Kinds::List(&[TURN]);

    fn register(self, registry: &mut Registry) {
        registry.add(TURN, Arc::new(self));
    }
}

/// What the process holds: bytes of memory, and open files.
fn held() -> (u64, usize) {
    let memory = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = memory.split(' ').nth(1).unwrap().parse().unwrap();
    (pages * 4_096, fs::read_dir("/proc/self/fd").unwrap().count())
}

/// Blocks that are given back are to be seen as such: a process of its own, whose allocator does not hoard them.
#[test]
fn a_run_of_a_hundred_thousand_stages_holds_what_one_of_ten_thousand_does() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "the_run_in_a_process_of_its_own",
            "--ignored",
            "--nocapture",
        ])
        .envs([("MALLOC_ARENA_MAX", "1"), ("MALLOC_MMAP_THRESHOLD_", "65536")])
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reported}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("1 passed"),
        "{reported}"
    );
}

#[test]
#[ignore = "another test runs it in a process of its own"]
fn the_run_in_a_process_of_its_own() {
    let text = format!(
        "digraph {{ graph [max_node_visits=1000000]; node [type=turn]
            start [shape=Mdiamond, type=start]; exit [shape=Msquare, type=exit]
            start -> a -> b -> c; c -> exit [condition=\"context.turn={}\"]; c -> a }}",
        STAGES.div_ceil(3)
    );
    let loaded = load(Source::new("long.dot", &text), &LoadOptions::default());
    let dir = tempfile::tempdir().unwrap();
    let count = AtomicU64::new(0);
    let seen: Arc<Mutex<Vec<(u64, u64, usize)>>> = Arc::default();
    let list = seen.clone();
    let engine = Engine::builder()
        .durability(Durability::Process)
        .on_event(move |event| {
            if matches!(event.kind, EventKind::StageCompleted { .. }) {
                let stage = count.fetch_add(1, Ordering::Relaxed) + 1;
                if stage.is_multiple_of(FIRST) {
                    let (memory, files) = held();
                    list.lock().unwrap().push((stage, memory, files));
                }
            }
        })
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let folder = dir.path().join("run");
    let result = runtime.block_on(async {
        let run = engine.start(loaded.pipeline().unwrap(), Turn).run_dir(&folder);
        run.await.unwrap().wait().await.unwrap()
    });
    assert!(result.is_success());
    let seen = seen.lock().unwrap();
    let (first, last) = (seen[0], seen[seen.len() - 1]);
    assert_eq!((first.0, last.0), (FIRST, STAGES));
    // The path is a part of the result: four bytes a stage.
    let path = (STAGES - FIRST) * 4;
    let growth = last.1.saturating_sub(path) as f64 / first.1 as f64 - 1.0;
    assert!(growth < 0.05, "memory grew by {:.1} %: {seen:?}", growth * 100.0);
    assert_eq!(first.2, last.2, "open files: {seen:?}");
}
