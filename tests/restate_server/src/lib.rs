//! Support for tests on a Restate server.
//!
//! ```
//! use orchestra_restate_server_tests::server_or_skip;
//!
//! let Some(program) = server_or_skip("the example of the crate") else {
//!     return;
//! };
//! assert!(program.is_file());
//! ```

mod install;

pub use install::server_or_skip;
