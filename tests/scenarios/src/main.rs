//! The `orchestra` program, built for the scenarios.

use std::process::ExitCode;

fn main() -> ExitCode {
    orchestra_cli::main(Vec::new())
}
