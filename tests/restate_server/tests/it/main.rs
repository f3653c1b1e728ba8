//! The server, as other tests use it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod server;
