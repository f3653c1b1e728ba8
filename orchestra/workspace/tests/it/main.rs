//! The integration tests of the crate, in one program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cleanup;
mod common;
mod crash;
mod kills;
mod lives;
mod merge;
mod pair;
mod random_merges;
mod refusals;
mod runs;
mod situations;
mod takeover;
mod tree;
