//! The server and the proxy, as other tests use them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod proxy;
mod server;
