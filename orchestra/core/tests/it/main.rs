//! The integration tests of the crate, in one program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod choices;
mod explore;
mod goal_gates;
mod human;
mod lists;
mod machine;
mod manager;
mod parallel;
mod questions;
mod retries;
mod retry_run;
mod support;
