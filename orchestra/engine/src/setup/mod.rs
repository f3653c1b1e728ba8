//! What a run needs before it begins: the settings of the engine, its handlers, and the sources of its pipeline.

pub(crate) mod children;
pub(crate) mod initial_context;
pub(crate) mod pinned_source;
pub(crate) mod resolve;
pub(crate) mod settings;
