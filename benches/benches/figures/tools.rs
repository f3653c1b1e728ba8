//! Tool stages: what one costs beyond a bare shell, and what many at once hold.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use orchestra_benches::measure::{Bench, middle, seconds, single};
use orchestra_benches::pipelines::{chain_of, engine, fan_of};

const STAGES: usize = 100;
const AT_ONCE: usize = 200;

/// Measures in a folder. Returns the time of a stage and of a bare shell.
type Measure = fn(&Path) -> (f64, f64);

pub(crate) fn measure(bench: &mut Bench) {
    // All files are kept until the end, because some file systems create files slowly for some minutes after others
    // were removed: ext4 does not reuse their inodes at first, and searches past them.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let measures: [(&str, Measure); 2] = [
        ("tool: a stage that runs `true`, to a bare `sh -c true`", alone),
        ("tool: the same, in a program that adopts no orphans", elsewhere),
    ];
    for (name, measured) in measures {
        if bench.wants(name) {
            let (ours, bare) = measured(folder.path());
            bench.record(name, "us/stage", ours, bare, bare * 1.3);
        }
    }
    if bench.wants("tool: 200") {
        together(bench);
    }
}

/// The argument with which this program only prints what [`alone`] measures in the folder of the next argument.
pub(crate) const ALONE: &str = "--tools-alone";

/// Measures in a program that has not called `run_as_subreaper`, and so has to search for the processes of each tool.
fn elsewhere(folder: &Path) -> (f64, f64) {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .arg(ALONE)
        .arg(folder.join("elsewhere"))
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("two numbers")
}

/// Measures stages that run `true`, one after the other, in pairs with bare shells. Returns the time of one of each, in
/// microseconds.
pub(crate) fn alone(folder: &Path) -> (f64, f64) {
    let (runtime, engine) = (single(), engine());
    let pipeline = chain_of(STAGES, "shape=parallelogram, tool_command=\"true\"");
    let mut pairs: Vec<(f64, f64)> = (0..11)
        .map(|round| {
            let ours = seconds(|| {
                runtime.block_on(async {
                    let start = engine.start(pipeline, ());
                    let folder = folder.join(format!("run-{round}"));
                    let run = start.run_dir(folder).await.expect("the run starts");
                    let result = run.wait().await.expect("the run ends");
                    assert!(result.is_success(), "{result:?}");
                });
            });
            let bare = seconds(|| {
                for _ in 0..STAGES {
                    let mut shell = Command::new("sh");
                    shell.args(["-c", "true"]).stdin(Stdio::null());
                    // The output of a tool is captured, so that of the bare shell is too.
                    let output = shell.output().expect("the shell starts");
                    assert!(output.status.success());
                }
            });
            (ours * 1e6 / STAGES as f64, bare * 1e6 / STAGES as f64)
        })
        .collect();
    pairs.sort_by(|one, other| (one.0 / one.1).total_cmp(&(other.0 / other.1)));
    pairs[pairs.len() / 2]
}

/// Measures the open files and the threads of this process while many tools run.
fn together(bench: &mut Bench) {
    let pipeline = fan_of(AT_ONCE, "shape=parallelogram, tool_command=\"sleep 0.5\"");
    let before = [count("/proc/self/fd"), count("/proc/self/task")];
    let done = Arc::new(AtomicBool::new(false));
    let most: Arc<[AtomicUsize; 2]> = Arc::default();
    let watcher = {
        let (done, most) = (done.clone(), most.clone());
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                for (most, folder) in most.iter().zip(["/proc/self/fd", "/proc/self/task"]) {
                    most.fetch_max(count(folder), Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        })
    };
    let took = 1e3
        * seconds(|| {
            single().block_on(async {
                let run = engine().start(pipeline, ()).await.expect("the run starts");
                assert!(run.wait().await.expect("the run ends").is_success());
            });
        });
    done.store(true, Ordering::Relaxed);
    watcher.join().expect("the watcher ends");
    let most = [0, 1].map(|at| most[at].load(Ordering::Relaxed).saturating_sub(before[at]) as f64);
    // The lower bound: as many shells without an engine.
    let mut times: Vec<f64> = (0..3).map(|_| 1e3 * seconds(bare)).collect();
    bench.record(
        "tool: 200 stages of 500 ms at once",
        "ms",
        took,
        middle(&mut times),
        None,
    );
    // Two pipes for each tool, and a handle of its process.
    let files = AT_ONCE as f64 * 3.0;
    bench.record(
        "tool: 200 at once, open files",
        "files",
        most[0],
        AT_ONCE as f64 * 2.0,
        files + 32.0,
    );
    // One thread is the watcher of this measurement.
    bench.record("tool: 200 at once, threads", "threads", most[1], None, 16.0);
}

/// Runs as many shells at once, and reads their output.
fn bare() {
    let children: BTreeMap<usize, _> = (0..AT_ONCE)
        .map(|at| {
            let mut shell = Command::new("sh");
            shell
                .args(["-c", "sleep 0.5"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            (at, shell.spawn().expect("the shell starts"))
        })
        .collect();
    for child in children.into_values() {
        assert!(child.wait_with_output().expect("the shell ends").status.success());
    }
}

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}
