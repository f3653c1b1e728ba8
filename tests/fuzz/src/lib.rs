//! Fuzz targets for everything in Orchestra that reads text or bytes.
//!
//! A [`Target`] is a function of bytes, as `cargo fuzz` has them: it feeds them to a parser and panics where a property
//! does not hold. [`Inputs`] makes the bytes: input number `n` of a seed is always the same, so a failure is reported by
//! target, seed and number, and can be run again; only the targets of run folders begin from a run that is made anew in
//! each process, so that there the file of a failure counts. A third of the inputs are mutations of the files in `corpus/TARGET`,
//! a third come from a generator that knows the grammar, the rest are such texts with mutations, and raw bytes.
//!
//! The suite (`tests/suite.rs`) runs some thousand inputs of each target, and all that ever failed
//! (`regressions/TARGET`). The command runs more:
//!
//! ```text
//! cargo run --release -p orchestra-fuzz-tests -- --inputs 1000000 [--target NAME] [--seed N] [--jobs 2]
//! ```
//!
//! It works in processes of its own with limited memory, so that an overflow of the stack and an endless loop are found
//! as well as a panic, makes a failing input smaller, writes it to `regressions/TARGET` and ends with exit code 1.
//!
//! Properties that hold for every target: no panic (a caught one only of a library), at most [`SLOWEST`] an input, and at
//! most [`MOST_MEMORY`] of memory. Those of a single target are in its documentation.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod attempt;
pub mod generate;
pub mod inputs;
pub mod minimise;
pub mod mutate;
pub mod regressions;
pub mod targets;

pub use attempt::{Failure, attempt};
pub use inputs::Inputs;
pub use orchestra_oracle_tests::random::Random;
pub use targets::{TARGETS, Target};

use std::time::Duration;

/// The longest time that an input may take in a release build.
pub const SLOWEST: Duration = Duration::from_secs(1);

/// The address space of a process of the longer command, in bytes.
pub const MOST_MEMORY: u64 = 4 << 30;
