//! `orchestra-soak` runs a mixed load for as long as it is reported: loops, branches, retries, gates, sub-pipelines, models
//! that break, hostile tools, git repositories. It kills, pauses, interrupts, freezes and takes over runs at random, and
//! checks at the end of each run, and of each round of runs, that nothing was lost, done twice, or left behind.
//!
//! ```text
//! cargo run -p orchestra-soak -- --for 30m --jobs 2 --report soak.md
//! cargo run -p orchestra-soak -- --seed 7 --only git --for 5m
//! ```
//!
//! The program is `orchestra` too: it starts itself under that name, so it needs no other program to be built.
//! `--program` names another one. What a seed fixes is the plan of each run (its scenario, its disturbances, their
//! times) and the faults of the model; how the processes interleave is up to the machine.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command of its own prints"
)]

mod check;
mod engine;
mod model;
mod observe;
mod report;
mod round;
mod run;
mod scenario;
mod server;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::report::Report;

/// The name under which this program is `orchestra`.
const PROGRAM: &str = "orchestra";

/// Runs a mixed load, disturbs it at random, and checks what it leaves.
#[derive(Clone, Debug, Parser)]
#[command(name = "orchestra-soak")]
struct Options {
    /// How long new runs are begun, such as `30m`; each scenario runs at least once
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = duration)]
    time: Duration,
    /// How many runs go at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    jobs: usize,
    /// The seed of the plans and of the model's faults
    #[arg(long, value_name = "N", default_value_t = 20_261_122)]
    seed: u64,
    /// Run this scenario alone
    #[arg(long, value_name = "SCENARIO")]
    only: Option<String>,
    /// Write the report to this file too
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The `orchestra` to run, instead of the one that is built in
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

fn duration(text: &str) -> Result<Duration, String> {
    orchestra_graph::parse_duration(text).ok_or_else(|| "expected a duration such as `60s` or `30m`".into())
}

fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    match Path::new(&name).file_name().and_then(|name| name.to_str()) {
        Some(PROGRAM) => orchestra_cli::main(Vec::new()),
        Some(engine::NAME) => engine::main(),
        _ => match soak(&Options::parse()) {
            Ok(report) => {
                if report.failures.is_empty() {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::FAILURE
                }
            }
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::from(2)
            }
        },
    }
}

/// Runs rounds until the time is over; prints the report.
fn soak(options: &Options) -> Result<Report, String> {
    if let Some(only) = &options.only
        && !scenario::SCENARIOS.iter().any(|scenario| scenario.name == only)
    {
        let names: Vec<&str> = scenario::SCENARIOS.iter().map(|scenario| scenario.name).collect();
        return Err(format!(
            "there is no scenario `{only}`; there are {}",
            names.join(", ")
        ));
    }
    let itself = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let folder = tempfile::Builder::new()
        .prefix("orchestra-soak-")
        .tempdir()
        .map_err(|error| format!("cannot make a folder: {error}"))?;
    println!("seed {}, in {}", options.seed, folder.path().display());
    let begun = Instant::now();
    let end = begun + options.time;
    let mut report = Report::new(options.seed);
    let engine = engine::LongLived::start(&itself, &folder.path().join("engine"))?;
    let mut number = 0;
    while number == 0 || Instant::now() < end && report.failures.is_empty() {
        let round = round::Round::new(number, folder.path(), &itself, options)?;
        round.run(end, &mut report);
        number += 1;
    }
    report.engine = engine.end();
    report.failures.extend(report.engine.failures());
    report.took = begun.elapsed();
    let text = report.markdown();
    println!("{text}");
    if let Some(file) = &options.report {
        std::fs::write(file, &text).map_err(|error| format!("cannot write `{}`: {error}", file.display()))?;
    }
    if !report.failures.is_empty() {
        let kept = folder.keep();
        eprintln!("kept: {}", kept.display());
    }
    Ok(report)
}
