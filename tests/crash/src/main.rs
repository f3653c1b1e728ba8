//! A process of the crash tests: does what its argument says, and says on standard output what came of it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

use std::process::ExitCode;

use orchestra_crash_tests::job::Job;

fn main() -> ExitCode {
    let job = std::env::args().nth(1).unwrap();
    let job: Job = serde_json::from_str(&job).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (report, code) = runtime.block_on(job.run());
    println!("\n{report}");
    ExitCode::from(code)
}
