//! Support for tests on a Restate server: the installed server, and a proxy that breaks connections.
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
mod proxy;

pub use install::server_or_skip;
pub use proxy::{Counts, FaultProxy, Faults};
