//! The `orchestra` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    orchestra_cli::main(Vec::new())
}
