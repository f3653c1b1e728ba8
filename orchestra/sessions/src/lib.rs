//! The index of Orchestra's runs: what ran, when, by which way and at which cost.
//!
//! A [`SessionIndex`] answers for all runs of a folder, those of other processes and of crashed ones included. The truth
//! is in the run folders; the index is made from them and can be made anew at any time.

mod database;
mod error;
mod fold;
mod folders;
mod gate;
mod index;
mod private;
mod query;
mod rows;
mod store;
mod tables;

pub use error::SessionError;
pub use index::SessionIndex;
pub use rows::{
    NodeTotals, Page, RunFilter, Session, SessionStatus, StageRow, StageState, ToolCallRow, TransitionRow,
};
