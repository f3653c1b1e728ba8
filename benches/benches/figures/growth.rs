//! Growth: many branches, many durable runs that wait, and many runs in one folder.

use std::path::Path;
use std::process::{Command, Stdio};

use orchestra_benches::figure::Curve;
use orchestra_benches::measure::{Bench, median, middle, seconds, single};
use orchestra_benches::pipelines::{Noops, chain, engine, fan, lasting, run};
use orchestra_engine::{Durability, Engine};

pub(crate) fn measure(bench: &mut Bench) {
    if !bench.wants("growth") {
        return;
    }
    branches(bench);
    waiting(bench);
    folders(bench);
}

fn curve(bench: &mut Bench, name: &str, counted: &str, unit: &str, points: Vec<(f64, f64)>) {
    bench.curve(Curve {
        name: name.to_owned(),
        counted: counted.to_owned(),
        unit: unit.to_owned(),
        points,
    });
}

/// Measures blocks of up to 10,000 branches.
fn branches(bench: &mut Bench) {
    let (runtime, engine) = (single(), engine());
    let points = [(100, 51), (1_000, 21), (10_000, 5)].map(|(branches, rounds)| {
        let pipeline = fan(branches, "noop");
        let each = median(rounds, branches, || {
            runtime.block_on(run(&engine, pipeline));
        });
        (branches as f64, each)
    });
    curve(
        bench,
        "Time of a block, by its branches",
        "branches",
        "us/branch",
        points.into(),
    );
}

/// Measures durable runs that wait: how long each takes to start, and the open files of each.
fn waiting(bench: &mut Bench) {
    let pipeline = lasting(
        "digraph wait { node [type=wait]; start [shape=Mdiamond, type=start]; exit [shape=Msquare, type=exit]; \
         start -> a -> exit }"
            .to_owned(),
    );
    let (mut times, mut files) = (Vec::new(), Vec::new());
    for runs in [10_usize, 100, 1_000, 10_000] {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = durable(folder.path());
        let before = open_files();
        let (runtime, mut started) = (single(), Vec::with_capacity(runs));
        let took = seconds(|| {
            runtime.block_on(async {
                for _ in 0..runs {
                    match engine.start(pipeline, Noops).await {
                        Ok(run) => started.push(run),
                        Err(_) => break,
                    }
                }
            });
        });
        // The limit of open files may stop us.
        if started.len() < runs {
            println!(
                "growth: only {} of {runs} durable runs could wait at once",
                started.len()
            );
            break;
        }
        times.push((runs as f64, took * 1e6 / runs as f64));
        files.push((runs as f64, (open_files() - before) as f64 / runs as f64));
        drop(started);
    }
    curve(
        bench,
        "Time to start a durable run, by the runs that wait",
        "runs",
        "us/run",
        times,
    );
    curve(
        bench,
        "Open files of durable runs that wait, by their number",
        "runs",
        "files/run",
        files,
    );
}

/// Measures the command line on folders of up to 10,000 runs: the first `status`, which builds the index, a later one,
/// a whole run, and `cleanup`.
fn folders(bench: &mut Bench) {
    let pipeline = chain(3, "noop");
    let names = [
        "first `status`",
        "later `status`",
        "`run` of a pipeline",
        "`cleanup`",
    ];
    let mut points: [Vec<(f64, f64)>; 4] = Default::default();
    for runs in [100_usize, 1_000, 10_000] {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("runs");
        let (runtime, engine) = (single(), durable(&dir));
        runtime.block_on(async {
            for _ in 0..runs {
                let run = engine.start(pipeline, Noops).await.expect("the run starts");
                assert!(run.wait().await.expect("the run ends").is_success());
            }
        });
        let small = folder.path().join("small.dot");
        std::fs::write(&small, "digraph small { start -> exit }").expect("a file");
        let small = small.to_string_lossy().into_owned();
        let measured = [
            millis(&dir, &["status"]),
            middle(&mut [0; 5].map(|_| millis(&dir, &["status"]))),
            middle(&mut [0; 5].map(|_| millis(&dir, &["run", &small]))),
            millis(&dir, &["cleanup", "--older-than", "0s"]),
        ];
        for (points, measured) in points.iter_mut().zip(measured) {
            points.push((runs as f64, measured));
        }
    }
    for (name, points) in names.into_iter().zip(points) {
        curve(
            bench,
            &format!("Time of the {name}, by the runs in the folder"),
            "runs",
            "ms",
            points,
        );
    }
}

/// Returns an engine that writes runs to a folder, durable against a crash of the process.
fn durable(runs: &Path) -> Engine {
    let builder = Engine::builder().durability(Durability::Process).runs_dir(runs);
    builder.build().expect("the engine is sound")
}

/// Returns how long a command takes, in milliseconds.
fn millis(runs: &Path, arguments: &[&str]) -> f64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-command-line"));
    command
        .args(arguments)
        .arg("--runs")
        .arg(runs)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    1e3 * seconds(|| assert!(command.status().expect("the command starts").success()))
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}
