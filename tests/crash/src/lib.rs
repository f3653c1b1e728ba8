//! Runs in processes of their own that are killed, frozen, raced and starved, and what must be left of them.
//!
//! `orchestra-crash-runner` is a program that runs a [pipeline](shapes) through the public face of the engine, over a
//! [file system](files) that kills it at a given call. The tests start it, look at what it leaves, and start it again.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking"
)]

pub mod clock;
pub mod compare;
pub mod files;
pub mod harness;
pub mod job;
pub mod log;
pub mod processes;
pub mod shapes;
pub mod stages;
