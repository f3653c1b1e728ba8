//! The integration tests of the crate, in one program.

#![allow(clippy::unwrap_used, clippy::panic)]

mod dot;
mod pictures;
