//! One input, run: a panic, and too long a time, are failures with a message.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{Duration, Instant};

use crate::targets::Target;

/// Why an input failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where: the place of the panic in the sources, or the name of the bound. Equal places count as one fault.
    pub location: String,
    /// The message of the panic, or what was measured.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

/// The place of the failure of an input that took too long.
pub const TOO_SLOW: &str = "too slow";

thread_local! {
    /// The first panic since the input began, while one runs on this thread.
    static PANIC: RefCell<Option<Option<Failure>>> = const { RefCell::new(None) };
}

/// Runs a target on an input, and gives the time that it took.
///
/// # Errors
/// The target panicked (also where it caught a panic of its own), or took longer than `limit` three times in a row.
pub fn attempt(target: &Target, input: &[u8], limit: Duration) -> Result<Duration, Failure> {
    let mut fastest = once(target, input)?;
    // A machine that does other things is no fault of the input.
    for _ in 0..2 {
        if fastest <= limit {
            break;
        }
        fastest = fastest.min(once(target, input)?);
    }
    if fastest > limit {
        return Err(Failure {
            location: TOO_SLOW.to_owned(),
            message: format!(
                "an input of {} bytes took {fastest:?}, and may take {limit:?}",
                input.len()
            ),
        });
    }
    Ok(fastest)
}

fn once(target: &Target, input: &[u8]) -> Result<Duration, Failure> {
    listen();
    PANIC.set(Some(None));
    let begun = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let took = begun.elapsed();
    let seen = PANIC.take().flatten();
    match (seen, result) {
        // A fault of a library that is caught and becomes an error is no fault of ours.
        (Some(failure), Ok(())) if failure.location.contains("/registry/src/") => Ok(took),
        (Some(failure), _) => Err(failure),
        (None, Ok(())) => Ok(took),
        (None, Err(_)) => Err(Failure {
            location: "unknown".to_owned(),
            message: "a panic without a message".to_owned(),
        }),
    }
}

/// Has panics of inputs kept instead of printed; those of other threads are printed as ever.
fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let ours = PANIC.with_borrow_mut(|kept| {
                let Some(kept) = kept else { return false };
                let location = info.location().map_or_else(String::new, ToString::to_string);
                let message = info.payload_as_str().unwrap_or("no message").to_owned();
                kept.get_or_insert(Failure { location, message });
                true
            });
            if !ours {
                before(info);
            }
        }));
    });
}
