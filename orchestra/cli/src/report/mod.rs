//! What is printed about pipelines and runs.

pub(crate) mod annotations;
pub(crate) mod branches;
pub(crate) mod comparison;
pub(crate) mod details;
pub(crate) mod diagnostics;
pub(crate) mod finish;
pub(crate) mod progress;
mod rows;
pub(crate) mod schema;
pub(crate) mod session;
pub(crate) mod stages;
