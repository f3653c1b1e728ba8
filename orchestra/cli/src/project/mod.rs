//! Pipelines and their project: the configuration, its agents and its repositories.

pub(crate) mod agents;
pub(crate) mod asking;
pub(crate) mod files;
pub(crate) mod lock;
pub(crate) mod pages;
pub(crate) mod parameters;
pub(crate) mod pipelines;
pub(crate) mod repositories;
pub(crate) mod root;
pub(crate) mod startable;
#[cfg(feature = "server")]
pub(crate) mod webhooks;
pub(crate) mod workflows;
