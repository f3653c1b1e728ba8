//! The longer command: many inputs of all targets, in processes of their own.

#![allow(clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

mod parent;
mod table;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Runs fuzz targets for long, and prints a table of them.
#[derive(Parser)]
#[command(name = "orchestra-fuzz")]
struct Arguments {
    /// Inputs of each target; slow targets take a share of it, which the table shows.
    #[arg(long, default_value_t = 1_000_000)]
    inputs: u64,
    /// Only these targets; all unless given.
    #[arg(long)]
    target: Vec<String>,
    /// The seed of the inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many processes run at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Runs inputs of one target in this process and reports to the parent, as `FIRST..END`.
    #[arg(long, hide = true)]
    worker: Option<String>,
    /// Runs one target on the content of a file, in this process.
    #[arg(long)]
    one: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match (&arguments.worker, &arguments.one) {
        (Some(range), _) => worker::run(&arguments.target, arguments.seed, range),
        (None, Some(file)) => worker::one(&arguments.target, file),
        (None, None) => parent::run(&arguments),
    }
}
