//! Servers in this process and in processes of their own, and the requests of programs.

mod api;
mod crew;
mod program;
mod server;

pub(crate) use api::Api;
pub(crate) use crew::HOSTILE;
pub(crate) use program::Program;
pub(crate) use server::TestServer;

use std::time::{Duration, Instant};

/// Longest wait for something that happens soon.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Waits until something is there.
#[track_caller]
pub(crate) fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < SOON, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
