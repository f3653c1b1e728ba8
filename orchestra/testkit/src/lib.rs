//! Pipelines in ordinary tests.

mod check;
#[cfg(feature = "simulation")]
mod clock;
mod coverage;
mod error;
#[cfg(feature = "simulation")]
mod run;
mod script;
#[cfg(feature = "simulation")]
mod simulation;
#[cfg(feature = "simulation")]
mod story;

pub use check::{answered_gate, check_answer, check_script, gate_question, scripted_answer};
#[cfg(feature = "simulation")]
pub use clock::FakeClock;
pub use coverage::{Coverage, CoveredEdge};
pub use error::ScriptError;
#[cfg(feature = "simulation")]
pub use run::SimulationRun;
pub use script::{read_script, read_script_file};
#[cfg(feature = "simulation")]
pub use simulation::{NodeOf, Simulation, SimulationError};
