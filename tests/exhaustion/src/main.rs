//! The `orchestra` program, built for the tests of limits.

use std::process::ExitCode;

fn main() -> ExitCode {
    orchestra_cli::main(Vec::new())
}
