//! W1, W3, W5 and W7: the cost of a stage, a run and a start, compared to their lower bounds.
//!
//! `cargo bench -p orchestra-engine --bench run [NAME-PREFIX]` prints one line of JSON per workload.

#![allow(clippy::expect_used, clippy::exit, clippy::print_stdout)]

mod support;

use std::collections::HashMap;
use std::future::Future;
use std::hint::black_box;
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use orchestra_engine::{
    Engine, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Registry, StageContext, Words,
};
use serde_json::Value;
use support::{Noops, chain, circle, engine, median, print, run, single};

/// The argument with which the benchmark starts itself as a program that runs a pipeline.
const CHILD: &str = "--first-stage";
/// Like [`CHILD`], but the program prints its memory size.
const CHILD_SIZE: &str = "--first-stage-size";
/// The argument with which the program only prints its memory size.
const SIZE: &str = "--size";

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

fn chains(wanted: &dyn Fn(&str) -> bool) {
    const STAGES: usize = 1_000;
    let runtime = single();
    let steps: Vec<Box<dyn Step>> = (0..STAGES).map(|_| Box::new(Least) as Box<dyn Step>).collect();
    let next: Vec<usize> = (1..=STAGES).collect();
    let keys: Vec<String> = (0..STAGES).map(|at| format!("n{at}")).collect();
    let floor = median(101, STAGES, || runtime.block_on(least(&steps, &next, None)));
    let plain = engine();
    let pipeline = chain(STAGES, "noop");
    if wanted("W1") {
        let ours = median(101, STAGES, || {
            runtime.block_on(async { assert_eq!(run(&plain, pipeline).await, STAGES + 2) });
        });
        print("W1 chain of 1,000", "us/stage", ours, floor, 1.0);
    }
    if wanted("W1e") {
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
        print(
            "W1e the same, every event to a callback",
            "us/stage",
            ours,
            floor,
            1.0,
        );
    }
    if wanted("W1k") {
        let pipeline = chain(STAGES, "each");
        let floor = median(101, STAGES, || {
            runtime.block_on(least(&steps, &next, Some(&keys)))
        });
        let ours = median(101, STAGES, || {
            runtime.block_on(async { assert_eq!(run(&plain, pipeline).await, STAGES + 2) });
        });
        print("W1k the same, a new key each stage", "us/stage", ours, floor, 1.0);
    }
    if wanted("W3") {
        const TURNS: usize = 10_000;
        let pipeline = circle(TURNS as u32);
        let ours = median(21, TURNS * 3, || {
            runtime.block_on(async { assert_eq!(run(&plain, pipeline).await, TURNS * 3 + 2) });
        });
        print(
            "W3 loop of 10,000 turns over 3 stages",
            "us/stage",
            ours,
            floor,
            1.0,
        );
    }
}

fn many(wanted: &dyn Fn(&str) -> bool) {
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
    for (name, runtime) in [
        ("W5 1,000 runs of 10 stages, one thread", single()),
        ("W5m the same, two threads", both),
    ] {
        if !wanted(name) {
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
        print(name, "runs/s", 1e6 / ours, 1e6 / floor, 150_000.0);
    }
}

/// A handler that exits the program as soon as a stage starts.
struct Leave;

impl Handler for Leave {
    fn run<'a>(&'a self, _: StageContext) -> HandlerFuture<'a> {
        if std::env::args().any(|argument| argument == CHILD_SIZE) {
            tell_size();
        }
        std::process::exit(0)
    }
}

impl HandlerSet for Leave {
    const KINDS: Kinds = Kinds::List(&[]);

    fn register(self, registry: &mut Registry) {
        let spec = KindSpec {
            kind: "leave",
            fields: &[],
            words: Words::Open,
        };
        registry.add(spec, Arc::new(Leave));
    }
}

fn first_stage() {
    let runtime = single();
    runtime.block_on(async {
        let run = engine()
            .start(&support::constant::TINY, Leave)
            .await
            .expect("the run starts");
        let _ = run.wait().await;
    });
}

/// Returns the memory size that a child process prints, in megabytes.
fn resident(program: &Path, argument: &str) -> Option<f64> {
    let output = Command::new(program).arg(argument).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// Prints the peak resident memory of this process, in megabytes.
fn tell_size() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = most.and_then(|most| most.split_whitespace().next()?.parse::<f64>().ok());
    if let Some(kilobytes) = kilobytes {
        println!("{}", kilobytes / 1_024.0);
    }
}

fn starts() {
    let folder = std::env::temp_dir().join(format!("orchestra-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (source, empty) = (folder.join("empty.rs"), folder.join("empty"));
    std::fs::write(&source, "fn main() {}").expect("a file");
    let built = Command::new("rustc")
        .arg("-O")
        .arg("-o")
        .arg(&empty)
        .arg(&source)
        .status();
    if built.is_ok_and(|status| status.success()) {
        let own = std::env::current_exe().expect("the bench has a path");
        let start = |program: &Path, argument: Option<&str>| {
            let mut command = Command::new(program);
            command.args(argument).stdin(Stdio::null());
            let began = Instant::now();
            assert!(command.status().expect("the program starts").success());
            began.elapsed().as_secs_f64() * 1e3
        };
        // Alternate, so that other load of the machine affects both.
        let mut times: Vec<[f64; 2]> = Vec::new();
        for _ in 0..101 {
            times.push([start(&own, Some(CHILD)), start(&empty, None)]);
        }
        let middle = |at: usize| {
            let mut times: Vec<f64> = times.iter().map(|pair| pair[at]).collect();
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        print("W7 process start to first stage", "ms", middle(0), middle(1), 3.5);
        if let (Some(ours), Some(least)) = (resident(&own, CHILD_SIZE), resident(&own, SIZE)) {
            print("W7 resident at the first stage", "MB", ours, least, 6.0);
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    match arguments.first().map(String::as_str) {
        Some(CHILD | CHILD_SIZE) => return first_stage(),
        Some(SIZE) => return tell_size(),
        _ => {}
    }
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|word| name.starts_with(&**word));
    chains(&wanted);
    many(&wanted);
    if wanted("W7") {
        starts();
    }
}
