//! The tokio runtime of the program.

use std::fs::File;
use std::io;

use orchestra_engine::SystemError;
use tokio::runtime::{Builder, Runtime};

use crate::error::{CliError, Exit};

/// Number of file descriptors that the runtime and its signal handlers need.
const FILES: usize = 8;

/// Starts a runtime on the thread of the caller. A program mostly waits for models, tools and disks.
pub(crate) fn runtime() -> Result<Runtime, CliError> {
    build(&mut Builder::new_current_thread())
}

/// Starts a runtime with a thread for each processor, for a worker, which executes many stages at once.
#[cfg(feature = "restate")]
pub(crate) fn parallel_runtime() -> Result<Runtime, CliError> {
    build(&mut Builder::new_multi_thread())
}

fn build(builder: &mut Builder) -> Result<Runtime, CliError> {
    let failed = |error: io::Error| {
        let message = format!("cannot start the runtime: {}", SystemError(&error));
        CliError::usage("runtime", message).exit(Exit::RunFailed)
    };
    // The runtime panics if it cannot get its file descriptors, so try to open as many first.
    let descriptors: Vec<File> = (0..FILES)
        .map(|_| File::open(if cfg!(windows) { "NUL" } else { "/dev/null" }))
        .collect::<io::Result<_>>()
        .map_err(failed)?;
    drop(descriptors);
    builder.enable_all().build().map_err(failed)
}
