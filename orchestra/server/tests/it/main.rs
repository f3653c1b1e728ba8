//! Tests of the server by HTTP.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod access;
mod ahead;
mod attacks;
mod changes;
mod compare;
mod events;
mod executions;
mod files;
mod gates;
mod hooks;
mod lifecycle;
mod openapi;
mod raw_requests;
mod requests;
mod stations;
mod submissions;
mod support;
