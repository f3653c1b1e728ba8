//! W1, W3, W5 and W7: the cost of a stage, a run and a start, compared to their lower bounds.

use std::collections::HashMap;
use std::future::Future;
use std::hint::black_box;
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orchestra_benches::measure::{Bench, median, middle, seconds, single};
use orchestra_benches::pipelines::{Noops, chain, circle, engine, run};
use orchestra_engine::Engine;
use serde_json::Value;

pub(crate) fn measure(bench: &mut Bench) {
    chains(bench);
    many(bench);
    if bench.wants("W7 ") {
        starts(bench);
    }
}

/// The minimal step: a boxed asynchronous call, two stored values, a lookup of the next step.
trait Step: Send + Sync {
    fn run(&self, x: u64) -> Pin<Box<dyn Future<Output = u64> + Send + '_>>;
}

struct Least;
impl Step for Least {
    fn run(&self, x: u64) -> Pin<Box<dyn Future<Output = u64> + Send + '_>> {
        Box::pin(async move { x + 1 })
    }
}

async fn least(steps: &[Box<dyn Step>], next: &[usize], keys: Option<&[String]>) {
    let mut values: HashMap<String, Value> = HashMap::new();
    let mut at = 0;
    while at < steps.len() {
        let x = black_box(&steps[at]).run(at as u64).await;
        let key = keys.map_or("value", |keys| &keys[at]);
        values.insert(key.to_owned(), Value::from(x));
        values.insert("outcome".to_owned(), Value::String("success".into()));
        at = next[at];
    }
    black_box(values);
}

fn chains(bench: &mut Bench) {
    const STAGES: usize = 1_000;
    let runtime = single();
    let steps: Vec<Box<dyn Step>> = (0..STAGES).map(|_| Box::new(Least) as Box<dyn Step>).collect();
    let next: Vec<usize> = (1..=STAGES).collect();
    let keys: Vec<String> = (0..STAGES).map(|at| format!("n{at}")).collect();
    let floor = median(101, STAGES, || runtime.block_on(least(&steps, &next, None)));
    let plain = engine();
    let pipeline = chain(STAGES, "noop");
    let mut chained = None;
    if bench.wants("W1 ") {
        let ours = median(101, STAGES, || {
            runtime.block_on(async { assert_eq!(run(&plain, pipeline).await, STAGES + 2) });
        });
        bench.record("W1 chain of 1,000", "us/stage", ours, floor, 0.29);
        chained = Some(ours);
    }
    if bench.wants("W1e ") {
        let seen = Arc::new(AtomicU64::new(0));
        let count = seen.clone();
        let heard = Engine::builder().on_event(move |event| {
            count.fetch_add(event.seq, Ordering::Relaxed);
        });
        let heard = heard.build().expect("the engine is sound");
        let ours = median(101, STAGES, || {
            runtime.block_on(async { assert_eq!(run(&heard, pipeline).await, STAGES + 2) });
        });
        assert!(seen.load(Ordering::Relaxed) > 0);
        bench.record(
            "W1e the same, every event to a callback",
            "us/stage",
            ours,
            floor,
            0.6,
        );
    }
    if bench.wants("W1k ") {
        let pipeline = chain(STAGES, "each");
        let floor = median(101, STAGES, || {
            runtime.block_on(least(&steps, &next, Some(&keys)))
        });
        let ours = median(101, STAGES, || {
            runtime.block_on(async { assert_eq!(run(&plain, pipeline).await, STAGES + 2) });
        });
        bench.record("W1k the same, a new key each stage", "us/stage", ours, floor, 1.0);
    }
    if bench.wants("W3 loop") {
        const TURNS: usize = 10_000;
        let pipeline = circle(TURNS as u32);
        let ours = median(21, TURNS * 3, || {
            runtime.block_on(async { assert_eq!(run(&plain, pipeline).await, TURNS * 3 + 2) });
        });
        // A stage of a loop may cost what one of a chain does.
        let target = chained.unwrap_or(0.29);
        bench.record(
            "W3 loop of 10,000 turns over 3 stages",
            "us/stage",
            ours,
            floor,
            target,
        );
    }
}

fn many(bench: &mut Bench) {
    const RUNS: usize = 1_000;
    const STAGES: usize = 10;
    let pipeline = chain(STAGES, "noop");
    let engine = engine();
    let steps: Arc<Vec<Box<dyn Step>>> =
        Arc::new((0..STAGES).map(|_| Box::new(Least) as Box<dyn Step>).collect());
    let next: Arc<Vec<usize>> = Arc::new((1..=STAGES).collect());
    let both = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let mut one_thread = None;
    for (name, runtime) in [
        ("W5 1,000 runs of 10 stages, one thread", single()),
        ("W5m the same, two threads", both),
    ] {
        if !bench.wants(name) {
            continue;
        }
        let floor = median(51, RUNS, || {
            runtime.block_on(async {
                let spawn = |_| {
                    let (steps, next) = (steps.clone(), next.clone());
                    tokio::spawn(async move { least(&steps, &next, None).await })
                };
                let tasks: Vec<_> = (0..RUNS).map(spawn).collect();
                for task in tasks {
                    task.await.expect("the task ends");
                }
            });
        });
        let ours = median(51, RUNS, || {
            runtime.block_on(async {
                let mut waits = Vec::with_capacity(RUNS);
                for _ in 0..RUNS {
                    let run = engine.start(pipeline, Noops).await.expect("the run starts");
                    waits.push(run.wait());
                }
                for wait in waits {
                    assert!(wait.await.expect("the run ends").is_success());
                }
            });
        });
        let ours = 1e6 / ours;
        bench.record(name, "runs/s", ours, 1e6 / floor, one_thread.unwrap_or(180_000.0));
        // A second thread must help.
        one_thread = Some(ours);
    }
}

/// Measures how long a process takes from its start to the first stage of a compiled pipeline, and its memory then.
fn starts(bench: &mut Bench) {
    let program = Path::new(env!("CARGO_BIN_EXE_bench-first-stage"));
    let folder = tempfile::tempdir().expect("a folder");
    let (source, empty) = (folder.path().join("empty.rs"), folder.path().join("empty"));
    std::fs::write(&source, "fn main() {}").expect("a file");
    let mut rustc = Command::new("rustc");
    rustc.arg("-O").arg("-o").arg(&empty).arg(&source);
    assert!(rustc.status().expect("rustc starts").success());
    let start = |program: &Path| {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        1e3 * seconds(|| assert!(command.status().expect("the program starts").success()))
    };
    // Alternate, so that other load of the machine affects both.
    let (mut ours, mut least): (Vec<f64>, Vec<f64>) =
        (0..101).map(|_| (start(program), start(&empty))).unzip();
    let (ours, least) = (middle(&mut ours), middle(&mut least));
    bench.record("W7 process start to first stage", "ms", ours, least, 3.5);
    if let (Some(ours), Some(least)) = (resident(program, "--size"), resident(program, "--idle")) {
        bench.record("W7 resident at the first stage", "MB", ours, least, 6.0);
    }
}

/// Returns the memory size that the program prints, in megabytes.
fn resident(program: &Path, argument: &str) -> Option<f64> {
    let output = Command::new(program).arg(argument).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
