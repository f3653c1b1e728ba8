//! The run of an Orchestra pipeline as a pure state machine: events in, effects out.

mod context;
mod outcome;

pub use context::Context;
pub use outcome::{FailureCategory, Outcome, Status};
