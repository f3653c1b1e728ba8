//! Compares two sets of figures: `bench-compare BEFORE AFTER`. Each is a file that the benchmarks wrote, or their saved
//! output.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command prints its table"
)]

use std::path::Path;
use std::process::ExitCode;

use orchestra_benches::compare;
use orchestra_benches::figure::Results;

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let [before, after] = files.as_slice() else {
        eprintln!("usage: bench-compare BEFORE AFTER");
        return ExitCode::from(2);
    };
    let read = |file: &str| Results::read(Path::new(file));
    match read(before).and_then(|before| Ok((before, read(after)?))) {
        Ok((before, after)) => {
            println!("{}", compare::table(&before, &after));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
