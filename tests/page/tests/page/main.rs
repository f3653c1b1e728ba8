//! The page of the server in Chromium: its modules, its screens, and people and programs at the same run.
//!
//! One browser serves all tests, one after the other. A machine without it skips them, unless it is a CI machine.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod browser;
mod flows;
mod modules;
mod support;
