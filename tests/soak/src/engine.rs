//! One engine in one process that runs pipelines one after the other and side by side, as a long-lived service would.
//! What it uses must not grow.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use orchestra_crash_tests::clock::FastClock;
use orchestra_crash_tests::log::Log;
use orchestra_crash_tests::processes::Use;
use orchestra_crash_tests::shapes::shape;
use orchestra_crash_tests::stages::{Act, Echo, interviewer};
use orchestra_engine::{Durability, Engine, RunStatus, SharedPipeline};
use serde_json::{Value, json};

/// The name under which this program is that process.
pub(crate) const NAME: &str = "orchestra-soak-engine";

/// The pipelines that it runs side by side.
const SHAPES: [&str; 7] = [
    "chain", "retries", "parallel", "gates", "children", "restart", "long",
];

/// It rests between two lots, so that others have the machine too.
const REST: Duration = Duration::from_millis(30);

/// After so many lots it tells what it uses.
const LOTS: u64 = 10;

/// What the memory may grow by, in KiB, beside a tenth of it: what the allocator keeps for later.
const SLACK: u64 = 8 * 1024;

/// So many threads more are no growth: the runtime keeps those that did blocking work for ten seconds.
const PASSING: u64 = 8;

/// A listener closes just behind the end of its run, in a thread of its own; so long a sample waits for that.
const SETTLE: Duration = Duration::from_secs(10);

/// The first sample has none to compare itself with, and waits for this long.
const FIRST: Duration = Duration::from_millis(500);

/// How often it looks meanwhile.
const LOOK: Duration = Duration::from_millis(5);

/// What the process used over time, with how many runs it had made.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    taken: Vec<(u64, Use)>,
    error: Option<String>,
}

impl Samples {
    /// The sample from which on it must not grow: the most of the first quarter.
    pub(crate) fn warm(&self) -> Option<(u64, Use)> {
        let first = self.taken.get(..self.taken.len().div_ceil(4))?;
        let mut most = *first.first()?;
        for (_, used) in first {
            most.1.raise(*used);
        }
        Some(most)
    }

    /// The last sample.
    pub(crate) fn last(&self) -> Option<(u64, Use)> {
        self.taken.last().copied()
    }

    /// What does not hold.
    pub(crate) fn failures(&self) -> Vec<String> {
        let mut failures: Vec<String> = self.error.iter().cloned().collect();
        let (Some((_, warm)), Some((runs, last))) = (self.warm(), self.last()) else {
            failures.push("the long-lived engine reported nothing".to_owned());
            return failures;
        };
        let grown = last.memory > warm.memory + warm.memory / 10 + SLACK
            || last.descriptors > warm.descriptors
            || last.threads > warm.threads + PASSING;
        if grown {
            failures.push(format!(
                "the long-lived engine grows: {warm:?} when it was warm, {last:?} after {runs} runs; {:?}",
                self.taken
            ));
        }
        failures
    }
}

/// The process, seen from outside.
pub(crate) struct LongLived {
    child: Child,
    reader: JoinHandle<Samples>,
}

impl LongLived {
    /// Starts it over a folder.
    pub(crate) fn start(itself: &Path, folder: &Path) -> Result<LongLived, String> {
        let mut command = Command::new(itself);
        command
            .arg0(NAME)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot start the engine: {error}"))?;
        let output = child.stdout.take().ok_or("the engine has no output")?;
        let reader = std::thread::spawn(move || {
            let mut samples = Samples::default();
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let reported: Value = serde_json::from_str(&line).unwrap_or_default();
                let number = |name: &str| reported[name].as_u64();
                let used = || {
                    Some(Use {
                        memory: number("memory")?,
                        descriptors: number("descriptors")?,
                        threads: number("threads")?,
                    })
                };
                match (number("runs"), used()) {
                    (Some(runs), Some(used)) => samples.taken.push((runs, used)),
                    _ => samples.error = Some(format!("the long-lived engine: {line}")),
                }
            }
            samples
        });
        Ok(LongLived { child, reader })
    }

    /// Ends it; gives what it used.
    pub(crate) fn end(mut self) -> Samples {
        drop(self.child.stdin.take());
        let mut samples = self.reader.join().unwrap_or_default();
        match self.child.wait() {
            Ok(status) if status.success() => {}
            Ok(status) => samples.error = Some(format!("the long-lived engine left with {status}")),
            Err(error) => samples.error = Some(error.to_string()),
        }
        samples
    }
}

/// The process itself: runs until its standard input ends.
pub(crate) fn main() -> ExitCode {
    let folder = std::env::args_os().nth(1).unwrap_or_default();
    let (sender, ends) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(sender);
    });
    let over = move || ends.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(serve(Path::new(&folder), &over)),
        Err(error) => Err(error.to_string()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{}", json!({ "error": error }));
            ExitCode::FAILURE
        }
    }
}

/// Runs lots of pipelines with one engine.
async fn serve(folder: &Path, over: &impl Fn() -> bool) -> Result<(), String> {
    let runs_dir = folder.join("runs");
    std::fs::create_dir_all(&runs_dir).map_err(|error| error.to_string())?;
    let log = Log::open(Path::new("/dev/null"), 0);
    let engine = Engine::builder()
        .clock(FastClock::new())
        .durability(Durability::Process)
        .runs_dir(&runs_dir)
        .backend(Echo(log.clone()))
        .interviewer(interviewer())
        .build()
        .map_err(|error| error.to_string())?;
    let act = Act::new(log, false);
    let pipelines: Vec<SharedPipeline> = SHAPES
        .iter()
        .map(|name| SharedPipeline::from(shape(name).pipeline()))
        .collect();
    let (mut runs, mut lot) = (0_u64, 0);
    let mut rest = None;
    while !over() {
        let mut going = Vec::new();
        for pipeline in &pipelines {
            let run = engine.start(pipeline.clone(), act.clone()).seed(runs);
            going.push(run.await.map_err(|error| error.to_string())?);
            runs += 1;
        }
        for run in going {
            let result = run.wait().await.map_err(|error| error.to_string())?;
            if result.status != RunStatus::Success {
                return Err(format!("{}: {:?}", result.run_id, result.failure));
            }
            if let Some(folder) = &result.run_dir {
                std::fs::remove_dir_all(folder).map_err(|error| error.to_string())?;
            }
        }
        lot += 1;
        if lot % LOTS == 0
            && let Some(used) = settled(rest).await
        {
            rest = Some(used.descriptors);
            let line = json!({
                "runs": runs, "memory": used.memory, "descriptors": used.descriptors, "threads": used.threads,
            });
            println!("{line}");
            let _ = std::io::stdout().flush();
        }
        tokio::time::sleep(REST).await;
    }
    Ok(())
}

/// Returns what this process uses when no run goes, with the fewest descriptors that were seen; sooner when they are as
/// few as they were before.
async fn settled(before: Option<u64>) -> Option<Use> {
    let itself = std::process::id();
    let began = Instant::now();
    let mut least = Use::of_process(itself)?;
    let limit = before.map_or(FIRST, |_| SETTLE);
    while before.is_none_or(|before| least.descriptors > before) && began.elapsed() < limit {
        tokio::time::sleep(LOOK).await;
        let used = Use::of_process(itself)?;
        if used.descriptors < least.descriptors {
            least = used;
        }
    }
    Some(least)
}
