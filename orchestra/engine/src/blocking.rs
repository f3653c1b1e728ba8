//! Handlers that are plain functions run beside the engine's own threads.

use std::panic::resume_unwind;

/// Runs a function that does not give way; a panic in it goes on in the caller. Used by generated code.
///
/// A function cannot be stopped from outside: when the stage is cancelled or out of time, the function runs to its
/// end, but nobody waits for it.
#[doc(hidden)]
pub async fn blocking<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(function).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(payload) => resume_unwind(payload),
            // Only the end of the whole runtime cancels the task, and then nobody waits for an answer.
            Err(_) => std::future::pending().await,
        },
    }
}
