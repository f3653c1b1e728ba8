//! What all runs of a pipeline have in common: the steps that they may take, and proofs of assertions about them.

mod requires;
mod steps;

pub(crate) use requires::{Path, Required, Requirement, unhandled, violation};
pub(crate) use steps::Steps;
