//! The handlers of a program: what they are, and the check that they meet the requirements of a pipeline.

pub(crate) mod binding;
pub(crate) mod declared_values;
pub(crate) mod from_stage;
pub(crate) mod handler;
pub(crate) mod handler_set;
pub(crate) mod kinds;
pub(crate) mod registry;
pub(crate) mod requirements;
pub(crate) mod resolved;
pub(crate) mod verify;
mod violations;
mod violations_text;
