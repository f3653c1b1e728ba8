//! Attractor's checklists, in one program: a file for each section.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod conditions;
mod control_flow;
mod execution;
mod goal_gates;
mod handlers;
mod humans;
mod list;
mod on_server;
mod parity;
mod parsing;
mod retries;
mod smoke;
mod state;
mod stylesheet;
mod transforms;
mod validation;
