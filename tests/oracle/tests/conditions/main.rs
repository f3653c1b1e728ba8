//! The condition language: every operator, key, type and diagnostic, and the second reading of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod control_flow;
mod diagnostics;
mod keys;
mod random;
mod support;
mod syntax;
mod values;
