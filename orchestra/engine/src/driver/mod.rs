//! The driver: executes the effects of the machine and applies the resulting events to it, in one task per run.

mod action;
pub(crate) mod attempt;
mod commit;
mod drive;
mod emission;
mod emit;
mod files;
mod folder_watch;
pub(crate) mod limits;
mod pending;
mod questions;
pub(crate) mod recovery;
mod replay;
mod stages;
pub(crate) mod state;
mod stopping;
mod time;
