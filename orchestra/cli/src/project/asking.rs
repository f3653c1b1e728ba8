//! The model stages that ask a person.

/// The model stages of a pipeline that ask a person.
#[derive(Debug, Default)]
pub(crate) struct AskingStages {
    /// The stages in which a person talks with the model.
    pub(crate) talking: Vec<String>,
    /// The stages whose agent asks for permission, or whose MCP servers may ask. What they offer is known only then.
    pub(crate) permitting: Vec<String>,
}
