//! A process that runs a range of inputs of one target.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use orchestra_fuzz_tests::minimise::minimise;
use orchestra_fuzz_tests::regressions::keep;
use orchestra_fuzz_tests::{Failure, Inputs, MOST_MEMORY, SLOWEST, Target, attempt};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// An input that takes as long as this is taken for one that never ends.
const HANGS: Duration = Duration::from_secs(10);

/// What a worker tells its parent, a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Told {
    /// This input is next: reported before each, so that the parent knows which one ended the process.
    Next(u64),
    /// An input failed; the file holds it, made smaller.
    Failed {
        number: u64,
        location: String,
        message: String,
        file: String,
    },
    /// An input takes too long; the process ends.
    Hangs(u64),
    /// All is done.
    Done {
        inputs: u64,
        slowest: Duration,
        slowest_number: u64,
        peak_kib: u64,
    },
}

/// How often the parent is reported the number: the reporting of each one would cost more than the inputs.
const REPORT: u64 = 64;

static NUMBER: AtomicU64 = AtomicU64::new(0);
/// When the input began, in milliseconds since the worker did.
static BEGAN: AtomicU64 = AtomicU64::new(u64::MAX);

pub(crate) fn run(targets: &[String], seed: u64, range: &str) -> ExitCode {
    let target = targets.first().and_then(|name| Target::named(name));
    let bounds = range
        .split_once("..")
        .and_then(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
    let (Some(target), Some((first, end))) = (target, bounds) else {
        eprintln!("a worker needs one target and a range");
        return ExitCode::from(2);
    };
    limit_memory();
    let begun = Instant::now();
    thread::spawn(move || watch(begun));
    inputs(target, seed, first, end, begun);
    ExitCode::SUCCESS
}

/// Runs a target on the content of a file.
pub(crate) fn one(targets: &[String], file: &Path) -> ExitCode {
    let target = targets.first().and_then(|name| Target::named(name));
    let (Some(target), Ok(input)) = (target, fs::read(file)) else {
        eprintln!("`--one` needs one target and a file that can be read");
        return ExitCode::from(2);
    };
    limit_memory();
    let begun = Instant::now();
    BEGAN.store(0, Ordering::Relaxed);
    thread::spawn(move || watch(begun));
    match attempt(target, &input, SLOWEST) {
        Ok(took) => {
            println!("it holds, in {took:?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn limit_memory() {
    let limit = Rlimit {
        current: Some(MOST_MEMORY),
        maximum: Some(MOST_MEMORY),
    };
    if let Err(error) = setrlimit(Resource::As, limit) {
        eprintln!("memory is not limited: {error}");
    }
}

fn inputs(target: &'static Target, seed: u64, first: u64, end: u64, begun: Instant) {
    let made = Inputs::new(target);
    let (mut slowest, mut slowest_number) = (Duration::ZERO, first);
    let mut known: Vec<String> = Vec::new();
    // A range of a few inputs is one that ended a process: then each is reported.
    let each = if end - first <= REPORT { 1 } else { REPORT };
    for number in first..end {
        NUMBER.store(number, Ordering::Relaxed);
        if (number - first).is_multiple_of(each) {
            tell(&Told::Next(number));
        }
        let input = made.input(seed, number);
        BEGAN.store(begun.elapsed().as_millis() as u64, Ordering::Relaxed);
        match attempt(target, &input, SLOWEST) {
            Ok(took) if took > slowest => (slowest, slowest_number) = (took, number),
            Ok(_) => {}
            Err(failure) => failed(target, number, &input, &failure, &mut known),
        }
        BEGAN.store(u64::MAX, Ordering::Relaxed);
    }
    tell(&Told::Done {
        inputs: end - first,
        slowest,
        slowest_number,
        peak_kib: peak(),
    });
}

/// Keeps the first input of each place that fails.
fn failed(target: &Target, number: u64, input: &[u8], failure: &Failure, known: &mut Vec<String>) {
    let file = if known.contains(&failure.location) {
        String::new()
    } else {
        known.push(failure.location.clone());
        BEGAN.store(u64::MAX, Ordering::Relaxed);
        let small = minimise(input, &failure.location, |input| {
            attempt(target, input, SLOWEST).err()
        });
        keep(target, &small).map_or_else(|error| error.to_string(), |path| path.display().to_string())
    };
    tell(&Told::Failed {
        number,
        location: failure.location.clone(),
        message: failure.message.chars().take(2_000).collect(),
        file,
    });
}

/// Ends the process when an input never ends.
fn watch(begun: Instant) {
    loop {
        thread::sleep(Duration::from_millis(200));
        let began = BEGAN.load(Ordering::Relaxed);
        let now = begun.elapsed().as_millis() as u64;
        // An attempt that is slow is made three times.
        if began != u64::MAX && now.saturating_sub(began) > 3 * HANGS.as_millis() as u64 {
            tell(&Told::Hangs(NUMBER.load(Ordering::Relaxed)));
            std::process::abort();
        }
    }
}

fn tell(reported: &Told) {
    let mut line = serde_json::to_vec(reported).expect("it is data");
    line.push(b'\n');
    let mut out = io::stdout().lock();
    // A parent that is gone needs no answer; the next line ends this process.
    if out.write_all(&line).and_then(|()| out.flush()).is_err() {
        std::process::abort();
    }
}

/// The largest memory of this process so far, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}
