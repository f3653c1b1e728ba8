//! The integration tests of the crate, in one program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod configuration;
mod fallbacks;
mod fixes;
mod mcp;
mod order;
mod resolution;
mod rules;
mod schema;
mod templates;
mod webhooks;
