//! What all runs of a pipeline have in common: the steps that they may take, and proofs about them.

mod guards;
mod limits;
mod outcomes;
mod possible;
mod presence;
mod requires;
mod state;
mod steps;
mod targets;

pub(crate) use guards::Declared;
pub(crate) use limits::run_limits;
pub use limits::{NodeLimit, RunLimits};
pub(crate) use outcomes::outcomes;
pub use possible::{Exit, ExitStep, PossibleSteps};
pub(crate) use presence::Presence;
pub(crate) use requires::{Path, Required, Requirement, unhandled, violation};
pub(crate) use state::{Entry, Known as KnownValues};
pub(crate) use steps::{End, Steps};
pub use targets::{PathStep, PathTarget};
