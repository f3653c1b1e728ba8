//! Execution of blocking functions outside of the threads that run stages.

use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::task::JoinError;

use crate::process::has_thread;
use crate::store::FileSystem;

/// Runs a blocking function. A panic in it is resumed in the caller. Used by generated code.
///
/// A blocking function cannot be stopped: if the stage is cancelled or times out, the function runs to its end and its
/// result is dropped.
#[doc(hidden)]
pub async fn blocking<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> T {
    match beside(function).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(payload) => resume_unwind(payload),
            // The task is only cancelled when the runtime shuts down, and then nobody waits for the result.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Runs a function that works on the files of runs on a blocking thread, because it may wait for a disk. Runs it in
/// place if the files only exist in this process.
///
/// # Errors
/// Returns an error if the function panics or the runtime shuts down.
pub(crate) async fn on_files<T: Send + 'static>(
    files: Arc<dyn FileSystem>,
    function: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    if files.in_process() {
        return Ok(function());
    }
    beside(function).await
}

/// Runs a blocking function on a blocking thread. Runs it in place if the system has no threads left.
///
/// # Errors
/// Returns an error if the function panics or the runtime shuts down.
#[doc(hidden)]
pub async fn beside<T: Send + 'static>(
    function: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    if !has_thread() {
        return Ok(function());
    }
    tokio::task::spawn_blocking(function).await
}
