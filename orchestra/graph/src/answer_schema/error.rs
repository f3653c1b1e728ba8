//! The error of a text that is not the schema of an answer.

use std::fmt;

/// The reason why a text is not the schema of an answer.
///
/// ```
/// use orchestra_graph::AnswerSchema;
/// let error = AnswerSchema::parse(r#"{"type": "object", "properties": {"a": {"type": "txt"}}}"#).unwrap_err();
/// assert_eq!(error.pointer, "/properties/a/type");
/// assert_eq!(error.to_string(), "`#/properties/a/type`: unknown type `txt`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaError {
    /// The JSON pointer to the mistake; empty for the schema as a whole.
    pub pointer: String,
    /// The description of the mistake.
    pub message: String,
    /// The way to fix it.
    pub help: String,
}

impl SchemaError {
    pub(super) fn new(
        pointer: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> SchemaError {
        SchemaError {
            pointer: pointer.into(),
            message: message.into(),
            help: help.into(),
        }
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => f.write_str(&self.message),
            pointer => write!(f, "`#{pointer}`: {}", self.message),
        }
    }
}

impl std::error::Error for SchemaError {}
