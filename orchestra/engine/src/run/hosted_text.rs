//! The texts of stages of a run that another process keeps.

use serde::{Deserialize, Serialize};

use crate::store::StageFile;

/// A text that a visit of a node stored, such as its response.
///
/// ```
/// use orchestra_engine::{HostedText, StageFile};
/// let text = HostedText::new("build#1", StageFile::Response, "It compiles.");
/// assert_eq!(text.record, "build#1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HostedText {
    /// The record of the visit, such as `fan#1:left/build#2`.
    pub record: String,
    /// The file that holds the text in a run folder.
    pub file: StageFile,
    /// The text, without secrets.
    pub text: String,
}

impl HostedText {
    /// Creates a text.
    pub fn new(record: impl Into<String>, file: StageFile, text: impl Into<String>) -> HostedText {
        HostedText {
            record: record.into(),
            file,
            text: text.into(),
        }
    }
}
