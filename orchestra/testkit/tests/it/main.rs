//! The integration tests of the crate, in one program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod children;
mod compiled;
mod coverage;
mod paths;
mod scripts;
mod simulation;
mod time;
