//! The `orchestra` program, built for the tests that start it from an editor.

use std::process::ExitCode;

fn main() -> ExitCode {
    orchestra_cli::main(Vec::new())
}
