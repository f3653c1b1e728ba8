//! Runs of Orchestra on a distributed engine: the same compiled pipeline, on many workers.
//!
//! A run is an object of the durable engine. Each event of its machine is a *turn*: the state is loaded, the message is
//! applied, the state is stored, and what follows is sent. Attempts of stages are executed by workers, with an
//! [`AttemptHost`](orchestra_engine::AttemptHost).
//!
//! # Modules, in reading order
//!
//! - `state`: the state of a run between two turns.
//! - `message`: the messages of a run, and what a turn sends.
//! - `turn`: one turn, without effects of its own.

mod message;
mod state;
mod turn;

pub use message::{Message, Outgoing, Refused, Reply, Report, Sent, Turn};
pub use state::{AttemptQuestion, LiveStage, LiveTimer, PROTOCOL, Phase, Reserved, RunState, Withheld};
pub use turn::{Start, start, turn};
