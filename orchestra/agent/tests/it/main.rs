//! The integration tests of the crate, in one program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answers;
mod cli_backend;
mod confinement;
mod conversations;
mod faults;
mod model_calls;
mod model_recordings;
mod model_requests;
mod over_http;
mod programs;
mod random_outcomes;
mod repositories;
mod stages;
mod support;
mod tools_calls;
mod tools_files;
mod tools_search;
mod tools_stage;
mod tools_support;
