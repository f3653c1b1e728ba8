//! The command: many seeds with a summary, or one with its trace.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::simulation::{Report, simulate};
use crate::world::{Counts, lock};

const USAGE: &str = "\
Usage: orchestra-faults [--seeds N] [--first N] [--jobs N] [--stop]
       orchestra-faults --seed N [--trace]

Simulates runs under faults, one a seed. Prints each seed whose run was not as it must be, and how often what happened.
With `--stop` it ends with the first such seed.";

/// What the command is to do.
#[derive(Clone, Debug)]
struct Options {
    first: u64,
    seeds: u64,
    jobs: usize,
    trace: bool,
    stop: bool,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            first: 0,
            seeds: 1_000,
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            trace: false,
            stop: false,
        };
        while let Some(argument) = arguments.next() {
            if argument == "--trace" {
                options.trace = true;
                continue;
            }
            if argument == "--stop" {
                options.stop = true;
                continue;
            }
            let value = arguments
                .next()
                .ok_or_else(|| format!("`{argument}` needs a number\n\n{USAGE}"))?;
            let number: u64 = value.parse().map_err(|_| format!("`{value}` is not a number"))?;
            match argument.as_str() {
                "--seeds" => options.seeds = number,
                "--first" => options.first = number,
                "--jobs" => options.jobs = usize::try_from(number).unwrap_or(1).max(1),
                "--seed" => (options.first, options.seeds) = (number, 1),
                other => return Err(format!("unknown argument `{other}`\n\n{USAGE}")),
            }
        }
        Ok(options)
    }
}

/// Runs the command with the arguments of the program.
pub fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    let begun = Instant::now();
    let summary = simulate_all(
        options.first,
        options.seeds,
        options.jobs,
        options.stop,
        &|report, done| {
            if options.trace {
                println!("{}", report.trace.join("\n"));
            }
            for violation in &report.violations {
                println!("seed {}: {violation}", report.seed);
            }
            if done % 1_000 == 0 {
                eprintln!(
                    "{done} of {} seeds, {:.0} s",
                    options.seeds,
                    begun.elapsed().as_secs_f64()
                );
            }
        },
    );
    println!("{}", table(&summary.counts));
    println!(
        "{} seeds from {}, {} failed, {:.1} s",
        options.seeds,
        options.first,
        summary.failed.len(),
        begun.elapsed().as_secs_f64()
    );
    if summary.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        let seeds: Vec<String> = summary.failed.iter().map(u64::to_string).collect();
        println!("failed: {}", seeds.join(" "));
        ExitCode::FAILURE
    }
}

/// What came of many seeds.
#[derive(Debug, Default)]
pub struct Summary {
    /// How often what happened.
    pub counts: Counts,
    /// The seeds whose runs were not as they must be.
    pub failed: BTreeSet<u64>,
}

/// A seed that takes so long in real time is stuck where no clock is looked at.
const STUCK: Duration = Duration::from_secs(120);

/// Simulates seeds in several threads, with `stop` until one fails; `tell` gets each report, and how many there were.
pub fn simulate_all(
    first: u64,
    seeds: u64,
    jobs: usize,
    stop: bool,
    tell: &(dyn Fn(&Report, u64) + Sync),
) -> Summary {
    let (next, done, running) = (AtomicU64::new(0), AtomicU64::new(0), AtomicUsize::new(jobs));
    let summary = Mutex::new(Summary::default());
    let present: Vec<Mutex<Option<(u64, Instant)>>> = (0..jobs).map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for present in &present {
            let (next, done, running, summary) = (&next, &done, &running, &summary);
            scope.spawn(move || {
                let dir = scratch();
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= seeds {
                        break;
                    }
                    let seed = first.wrapping_add(number);
                    *lock(present) = Some((seed, Instant::now()));
                    let report = contained(seed, dir.path().to_owned());
                    let mut summary = lock(summary);
                    for (what, count) in &report.counts {
                        *summary.counts.entry(what).or_default() += count;
                    }
                    if !report.violations.is_empty() {
                        summary.failed.insert(seed);
                        if stop {
                            next.store(seeds, Ordering::SeqCst);
                        }
                    }
                    tell(&report, done.fetch_add(1, Ordering::SeqCst) + 1);
                }
                *lock(present) = None;
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        // A seed that never ends would hide itself.
        while running.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(20));
            for present in &present {
                if let Some((seed, since)) = *lock(present)
                    && since.elapsed() > STUCK
                {
                    println!("seed {seed}: it does not end in real time");
                    std::process::abort();
                }
            }
        }
    });
    summary.into_inner().unwrap()
}

/// A folder in memory, where the system has such.
pub fn scratch() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.or_else(|_| tempfile::tempdir()).unwrap()
}

/// Simulates a seed; a panic is a violation.
fn contained(seed: u64, root: PathBuf) -> Report {
    let simulated = std::panic::catch_unwind(|| simulate(seed, &root));
    simulated.unwrap_or_else(|panic| {
        for entry in std::fs::read_dir(&root).into_iter().flatten().flatten() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Report {
            seed,
            violations: vec![format!("panic: {}", text.unwrap_or_default())],
            counts: Counts::new(),
            trace: Vec::new(),
        }
    })
}

/// Counts as a table.
pub fn table(counts: &Counts) -> String {
    let rows = counts
        .iter()
        .map(|(what, count)| format!("{what:<32} {count:>12}"));
    rows.collect::<Vec<_>>().join("\n")
}
