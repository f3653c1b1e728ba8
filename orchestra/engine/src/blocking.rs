//! Functions that do not give way run beside the engine's own threads.

use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::task::JoinError;

use crate::process::has_thread;
use crate::store::FileSystem;

/// Runs a function that does not give way; a panic in it goes on in the caller. Used by generated code.
///
/// A function cannot be stopped from outside: when the stage is cancelled or out of time, the function runs to its
/// end, but nobody waits for it.
#[doc(hidden)]
pub async fn blocking<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> T {
    match beside(function).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(payload) => resume_unwind(payload),
            // Only the end of the whole runtime cancels the task, and then nobody waits for an answer.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Runs a function that works on the files of runs away from the threads that run stages, because it may wait for a disk;
/// in place where the files exist in this process alone.
///
/// # Errors
/// The function panicked, or the runtime was shut down.
pub(crate) async fn on_files<T: Send + 'static>(
    files: Arc<dyn FileSystem>,
    function: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    if files.in_process() {
        return Ok(function());
    }
    beside(function).await
}

/// Runs a function that does not give way on a thread for such; in place where the system has no more threads.
///
/// # Errors
/// The function panicked, or the runtime was shut down.
#[doc(hidden)]
pub async fn beside<T: Send + 'static>(
    function: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    if !has_thread() {
        return Ok(function());
    }
    tokio::task::spawn_blocking(function).await
}
