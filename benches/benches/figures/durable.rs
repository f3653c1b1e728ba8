//! W2, W5d and W8: the cost of durable stages compared to that of the disk itself, and the cost of resuming a long run.
//!
//! Everything is written below the temporary folder of the system, so `TMPDIR` selects the measured disk.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use orchestra_benches::figure::Curve;
use orchestra_benches::measure::{Bench, middle, single};
use orchestra_benches::pipelines::{Noops, chain, circle, lasting};
use orchestra_engine::{Durability, Engine, RunStatus};
use orchestra_graph::Pipeline;
use serde_json::{Map, Value};

pub(crate) fn measure(bench: &mut Bench) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    steps(dir.path(), bench);
    many(dir.path(), bench);
    long_runs(dir.path(), bench);
}

/// The size in bytes of a record of a small stage.
const RECORD: usize = 300;

fn engine(level: Durability) -> Engine {
    let builder = Engine::builder().durability(level);
    builder.build().expect("the engine is sound")
}

/// Runs a pipeline in a new folder. Returns the time in seconds.
fn timed(engine: &Engine, pipeline: &'static Pipeline, folder: &Path, ballast: Option<&Value>) -> f64 {
    let runtime = single();
    let began = Instant::now();
    runtime.block_on(async {
        let mut start = engine.start(pipeline, Noops).run_dir(folder);
        for (key, value) in ballast.and_then(Value::as_object).into_iter().flatten() {
            start = start.param(key, value.clone());
        }
        let result = start.await.expect("the run starts").wait().await;
        assert!(result.expect("the run ends").is_success());
    });
    began.elapsed().as_secs_f64()
}

/// Measures one append and data sync in preallocated space, in microseconds.
fn synced_append(dir: &Path, times: usize) -> f64 {
    let file = reserved(&dir.join("limit"), times);
    let record = [b'x'; RECORD];
    let began = Instant::now();
    for at in 0..times {
        write_at(&file, &record, (at * RECORD) as u64);
        file.sync_data().expect("the disk syncs");
    }
    began.elapsed().as_secs_f64() * 1e6 / times as f64
}

/// Measures one append, in microseconds.
fn plain_append(dir: &Path, times: usize) -> f64 {
    let mut file = File::create(dir.join("plain")).expect("a file");
    let record = [b'x'; RECORD];
    let began = Instant::now();
    for _ in 0..times {
        file.write_all(&record).expect("the disk writes");
    }
    began.elapsed().as_secs_f64() * 1e6 / times as f64
}

/// Creates a file with preallocated space for records.
fn reserved(path: &Path, records: usize) -> File {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path);
    let file = file.expect("a file");
    #[cfg(unix)]
    {
        let size = (records * RECORD) as u64;
        let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size);
    }
    file.sync_all().expect("the disk syncs");
    let _ = records;
    file
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) {
    use std::os::unix::fs::FileExt;
    file.write_all_at(bytes, at).expect("the disk writes");
}

#[cfg(not(unix))]
fn write_at(mut file: &File, bytes: &[u8], _: u64) {
    file.write_all(bytes).expect("the disk writes");
}

/// Returns a context of 1 MB: 1,000 values of about 1 kB.
fn megabyte() -> Value {
    let text = "a line of some text, with \"quotes\" and\nmore ".repeat(23);
    let values = (0..1_000).map(|at| (format!("ballast.{at}"), Value::String(text.clone())));
    Value::Object(values.collect::<Map<_, _>>())
}

fn steps(dir: &Path, bench: &mut Bench) {
    const STAGES: usize = 1_000;
    let [pipeline, filed] = ["noop", "filed"].map(|kind| chain(STAGES, kind));
    let [full, process] = [Durability::Full, Durability::Process].map(engine);
    let mut number = 0;
    let mut folder = || {
        number += 1;
        dir.join(format!("run-{number}"))
    };
    let per_stage = |seconds: f64, stages: usize| seconds * 1e6 / stages as f64;
    // Measure in pairs and compare their ratios, because the speed of the disk changes from second to second.
    let mut paired = |pipeline: &'static Pipeline, ballast: Option<&Value>| {
        let mut pairs: Vec<(f64, f64)> = (0..11)
            .map(|_| {
                let limit = synced_append(dir, STAGES);
                (
                    per_stage(timed(&full, pipeline, &folder(), ballast), STAGES),
                    limit,
                )
            })
            .collect();
        pairs.sort_by(|one, other| (one.0 / one.1).total_cmp(&(other.0 / other.1)));
        pairs[pairs.len() / 2]
    };
    // The target of the workloads with a status file each: three times those without.
    let mut without_files = None;
    if bench.wants("W2f ") || bench.wants("W2fs ") {
        let (ours, limit) = paired(pipeline, None);
        without_files = Some(ours);
        bench.record(
            "W2f chain of 1,000, every stage durable",
            "us/stage",
            ours,
            limit,
            limit * 1.1,
        );
    }
    if bench.wants("W2fs ") {
        let (ours, limit) = paired(filed, None);
        bench.record(
            "W2fs the same, a status file each",
            "us/stage",
            ours,
            limit,
            without_files.map(|ours| ours * 3.0),
        );
    }
    if bench.wants("W2c ") {
        let ballast = megabyte();
        let (ours, limit) = paired(pipeline, Some(&ballast));
        bench.record(
            "W2c as W2f, with 1 MB of context",
            "us/stage",
            ours,
            limit,
            limit * 1.3 * 1.3,
        );
    }
    let mut target = 3.0;
    for (name, pipeline) in [
        ("W2p the same, durable against a crash of the process", pipeline),
        ("W2ps the same, a status file each", filed),
    ] {
        if bench.wants(name) {
            let limit = plain_append(dir, 100_000);
            let mut all: Vec<f64> = (0..21)
                .map(|_| per_stage(timed(&process, pipeline, &folder(), None), STAGES))
                .collect();
            let ours = middle(&mut all);
            bench.record(name, "us/stage", ours, limit, target);
            target = ours * 3.0;
        }
    }
    if bench.wants("W2g ") {
        let mut points = Vec::new();
        for (turns, rounds) in [(333, 5), (3_333, 3), (33_333, 1)] {
            let pipeline = circle(turns);
            let mut all: Vec<f64> = (0..rounds)
                .map(|_| {
                    let folder = folder();
                    let seconds = timed(&process, pipeline, &folder, None);
                    fs::remove_dir_all(&folder).expect("the folder goes");
                    per_stage(seconds, turns as usize * 3)
                })
                .collect();
            points.push((f64::from(turns * 3), middle(&mut all)));
        }
        let limit = points[0].1;
        for (at, name) in [
            (1, "W2g loop of 10,000 stages"),
            (2, "W2g loop of 100,000 stages"),
        ] {
            bench.record(name, "us/stage", points[at].1, limit, limit * 1.1);
        }
        bench.curve(Curve {
            name: "Time of a durable run, by its stages".to_owned(),
            counted: "stages".to_owned(),
            unit: "us/stage".to_owned(),
            points,
        });
    }
}

/// Measures many durable runs at once. The result is the cost of a step, without that of starting and ending a run.
fn many(dir: &Path, bench: &mut Bench) {
    const RUNS: usize = 1_000;
    if !bench.wants("W5d ") {
        return;
    }
    let [short, long] = [10, 110].map(|stages| chain(stages, "noop"));
    let mut figures = Vec::new();
    for round in 0..3 {
        let seconds = [short, long].map(|pipeline| {
            let runs = dir.join(format!("many-{round}-{}", pipeline.nodes.len()));
            let engine = Engine::builder()
                .runs_dir(&runs)
                .build()
                .expect("the engine is sound");
            let runtime = single();
            let began = Instant::now();
            runtime.block_on(async {
                let mut waits = Vec::with_capacity(RUNS);
                for at in 0..RUNS {
                    let start = engine.start(pipeline, Noops).run_id(format!("run-{at}"));
                    waits.push(start.await.expect("the run starts").wait());
                }
                for wait in waits {
                    assert!(wait.await.expect("the run ends").is_success());
                }
            });
            let seconds = began.elapsed().as_secs_f64();
            drop(runtime);
            fs::remove_dir_all(&runs).expect("the folder goes");
            seconds
        });
        figures.push((seconds[1] - seconds[0]) * 1e6 / (RUNS * 100) as f64);
    }
    // The lower bound: the records of one step of each run, written and synced together.
    let file = reserved(&dir.join("group"), RUNS * 100);
    let batch = vec![b'x'; RECORD * RUNS];
    let began = Instant::now();
    for round in 0..100 {
        write_at(&file, &batch, (round * batch.len()) as u64);
        file.sync_data().expect("the disk syncs");
    }
    let limit = began.elapsed().as_secs_f64() * 1e6 / (RUNS * 100) as f64;
    bench.record(
        "W5d a step of one of 1,000 runs, durable",
        "us/step",
        middle(&mut figures),
        limit,
        3.0,
    );
}

/// Measures how long it takes to resume a run with 10,000 finished stages.
fn long_runs(dir: &Path, bench: &mut Bench) {
    if !bench.wants("W8 ") {
        return;
    }
    let pipeline = long_then_wait();
    let folder = dir.join("long");
    let engine = engine(Durability::Process);
    let runtime = single();
    runtime.block_on(async {
        let run = engine
            .start(pipeline, Noops)
            .run_dir(&folder)
            .await
            .expect("the run starts");
        let mut events = run.events();
        while let Some(event) = events.recv().await {
            if event.seq > 40_000 {
                break;
            }
        }
        run.pause("long enough");
        assert_eq!(run.wait().await.expect("the run stops").status, RunStatus::Paused);
    });
    let journal = folder.join("journal.jsonl");
    let limit = {
        let mut all: Vec<f64> = (0..21)
            .map(|_| {
                let began = Instant::now();
                let text = fs::read(&journal).expect("the journal is there");
                let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                let records = lines.map(|line| serde_json::from_slice::<Value>(line).expect("JSON"));
                assert!(records.count() >= 10_000);
                began.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        middle(&mut all)
    };
    let resume = |checkpoint: bool| {
        let mut all: Vec<f64> = (0..11)
            .map(|_| {
                if !checkpoint {
                    fs::remove_file(folder.join("checkpoint.json")).expect("the checkpoint is there");
                }
                runtime.block_on(async {
                    let began = Instant::now();
                    let run = engine
                        .resume(&folder, pipeline, Noops)
                        .await
                        .expect("the run goes on");
                    let took = began.elapsed().as_secs_f64() * 1e3;
                    run.pause("again");
                    run.wait().await.expect("the run stops");
                    took
                })
            })
            .collect();
        middle(&mut all)
    };
    let whole = resume(false);
    bench.record(
        "W8 resume of 10,000 stages from the journal alone",
        "ms",
        whole,
        limit,
        limit * 2.0,
    );
    let snapshot = resume(true);
    bench.record("W8s the same, with a checkpoint", "ms", snapshot, limit, 3.0);
}

/// Returns a pipeline with a loop of 10,000 stages before a stage that waits.
fn long_then_wait() -> &'static Pipeline {
    lasting(
        "digraph long {
            graph [max_node_visits=1000000]
            node [type=turn]
            start [shape=Mdiamond, type=start]
            exit [shape=Msquare, type=exit]
            last [type=wait]
            start -> a -> b
            b -> last [condition=\"context.turn=5000\"]
            b -> a
            last -> exit
        }"
        .to_owned(),
    )
}
