//! The `orchestra` program, for the workloads on folders of many runs.

use std::process::ExitCode;

fn main() -> ExitCode {
    orchestra_cli::main(Vec::new())
}
