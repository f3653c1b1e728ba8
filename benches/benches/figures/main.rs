//! All figures: what Orchestra needs, beside the physical limit and the target of each. See the library of this package.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a program that measures prints its figures, and fails by panicking"
)]

mod branches;
mod durable;
mod expansion;
mod growth;
mod load;
mod redaction;
mod repository;
mod server;
mod stages;
mod tools;

use std::path::Path;
use std::process::{Command, ExitCode};

use orchestra_benches::figure::{Curve, Figure};
use orchestra_benches::measure::Bench;
use orchestra_engine::process::{raise_file_limit, run_as_subreaper};

fn main() -> ExitCode {
    // As in the program `orchestra`.
    raise_file_limit();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [tools::ALONE, folder] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        println!("{}", serde_json::json!(tools::alone(Path::new(folder))));
        return ExitCode::SUCCESS;
    }
    run_as_subreaper(false, || {
        measure();
        ExitCode::SUCCESS
    })
}

fn measure() {
    let mut bench = Bench::from_arguments();
    stages::measure(&mut bench);
    branches::measure(&mut bench);
    // Before the workloads that remove many files.
    tools::measure(&mut bench);
    durable::measure(&mut bench);
    memory(&mut bench);
    editor(&mut bench);
    load::measure(&mut bench);
    growth::measure(&mut bench);
    server::measure(&mut bench);
    redaction::measure(&mut bench);
    repository::measure(&mut bench);
    expansion::measure(&mut bench);
    bench.finish(Path::new(env!("CARGO_TARGET_TMPDIR")).join("../figures.json"));
}

/// Adds the figures of the program that counts memory.
fn memory(bench: &mut Bench) {
    let workloads = [
        "memory",
        "W1 allocations",
        "W3 memory",
        "W4 allocations",
        "W4c ",
        "W5 allocations",
        "W5 memory",
    ];
    program(bench, env!("CARGO_BIN_EXE_bench-memory"), "memory", &workloads);
}

/// Adds the figures of the program that edits a pipeline.
fn editor(bench: &mut Bench) {
    let workloads = ["editor", "E1 ", "E2 ", "E3 "];
    program(bench, env!("CARGO_BIN_EXE_bench-editor"), "editor", &workloads);
}

/// Adds the figures and curves that a program prints, if one of its workloads is wanted; with the word for all of them,
/// all.
fn program(bench: &mut Bench, program: &str, all: &str, workloads: &[&str]) {
    if !workloads.iter().any(|workload| bench.wants(workload)) {
        return;
    }
    let output = Command::new(program).output().expect("the program starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Ok(figure) = serde_json::from_str::<Figure>(line) {
            if bench.wants(&figure.name) || bench.wants(all) {
                bench.add(figure);
            }
        } else if let Ok(curve) = serde_json::from_str::<Curve>(line) {
            bench.curve(curve);
        }
    }
}
