//! Deterministic simulation of faults.
//!
//! One seed says everything: which pipeline is run, what its stages, tools and people say, which call of the file system
//! fails or is the last of its process, what survives a loss of power, how the clock jumps. The engine itself is the real
//! one, on a runtime with one thread, with its doors to the world replaced: [`files::SimulatedFiles`],
//! [`clock::SimulatedClock`], and [`stages::Actor`] for handlers, tools and people. What came of a run is held to what the
//! rules say (`orchestra-oracle-tests`) and to what must hold of any run ([`check`]).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod case;
pub mod check;
pub mod clock;
pub mod command;
pub mod disk;
pub mod files;
pub mod model;
pub mod simulation;
pub mod stages;
pub mod world;
