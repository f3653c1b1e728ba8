//! The run and its stages: the state that all parts of a run share, and what its stages see of it.

mod artifacts;
pub(crate) mod attempts;
pub(crate) mod authority;
pub(crate) mod engine_folders;
mod files;
pub(crate) mod history;
pub(crate) mod hosted_text;
pub(crate) mod model_output;
pub(crate) mod port;
mod questions;
pub(crate) mod requests;
pub(crate) mod reservation;
pub(crate) mod settings;
mod shared_nodes;
pub(crate) mod sink;
pub(crate) mod stage;
pub(crate) mod stage_files;
pub(crate) mod stage_question;
pub(crate) mod stage_text;
pub(crate) mod state;
pub(crate) mod steering;
mod stop;
pub(crate) mod stored_text;
mod usage;
pub(crate) mod workplace;
pub(crate) mod workspace;
mod write_failure;
