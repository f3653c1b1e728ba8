//! Tests of the language server with a scripted client.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;
mod documents;
mod edits;
mod fixes;
mod hints;
mod hostile;
mod labels;
mod life_cycle;
mod names;
mod structure;
