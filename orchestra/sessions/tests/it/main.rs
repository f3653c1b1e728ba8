//! The integration tests of the crate, in one program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compare;
mod damage;
mod folders;
mod index;
mod metrics;
mod present;
mod processes;
mod repeats;
mod support;
