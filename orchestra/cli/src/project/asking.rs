//! The model stages that ask a person.

/// The model stages of a pipeline that ask a person.
#[derive(Debug, Default)]
pub(crate) struct AskingStages {
    /// The stages in which a person talks with the model.
    pub(crate) talking: Vec<String>,
    /// The stages whose agent asks for permission. What it offers is known only when it asks.
    pub(crate) permitting: Vec<String>,
}
