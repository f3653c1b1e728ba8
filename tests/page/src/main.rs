//! The `orchestra` program, built for the tests that kill it or give it a model.

use std::process::ExitCode;

fn main() -> ExitCode {
    orchestra_cli::main(Vec::new())
}
