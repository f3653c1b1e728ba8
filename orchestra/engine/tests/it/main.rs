//! The integration tests of the crate, in one program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod artifacts;
mod artifacts_damaged;
mod asleep;
mod children_support;
mod command_values;
mod contracts;
mod control;
mod events;
mod export;
mod fan_in;
mod flow;
mod folder;
mod gates;
mod handlers;
mod host;
mod interview;
mod journal;
mod long_stages;
mod lost_records;
mod manager;
mod manager_steering;
mod offline;
mod outputs;
mod parallel;
mod planted;
mod requirements;
mod resume;
mod secrets;
mod state_at;
mod subpipeline;
#[path = "../support/mod.rs"]
mod support;
mod tampered;
mod tool;
mod usage;
mod workspace;
