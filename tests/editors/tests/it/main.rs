//! The language server in real editors. A machine without an editor skips its tests, unless it is a CI machine.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod neovim;
mod support;
mod vscode;
