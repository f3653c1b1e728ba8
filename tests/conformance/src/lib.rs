//! One suite for all drivers of runs: the engine, turns in memory with crashes, and workers of a Restate server.
//!
//! A [`Case`](case::Case) is a random graph with a script of its stages and people. Each [`Driver`](driver::Driver) runs
//! it, and the [`Ended`](ended::Ended) that come out must be equal.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod case;
pub mod chaos;
pub mod driver;
pub mod embedded;
pub mod ended;
pub mod fleet;
pub mod log;
pub mod memory;
pub mod remote;
pub mod workers;
