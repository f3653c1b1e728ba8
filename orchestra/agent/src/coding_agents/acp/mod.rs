//! Coding agents that speak the Agent Client Protocol (version 1): JSON-RPC messages, one in each line.
//!
//! The agent is told that this client offers neither files nor terminals, so it uses its own tools. What it asks
//! permission for is decided by the backend's `permissions`.

mod connection;
mod permission;
mod session;
mod updates;

pub(super) use session::{AcpError, AcpStage, run};
