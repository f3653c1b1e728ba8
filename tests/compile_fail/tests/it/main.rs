//! Wrong and right uses of the macros, each built by cargo as a user's package.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod agents;
mod children;
mod compiled_conditions;
mod config;
mod handlers;
mod inline;
mod lock;
mod packages;
mod rules;
mod ui;
