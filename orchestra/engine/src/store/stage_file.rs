//! The files of stages.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A file that the engine stores for a stage (rule D2).
///
/// ```
/// assert_eq!(orchestra_engine::StageFile::Status.name(), "status.json");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StageFile {
    /// The outcome.
    Status,
    /// The prompt of a model stage, or the question of a human one.
    Prompt,
    /// The response of a model, or the answer of a person.
    Response,
    /// The standard output of a tool.
    ToolOutput,
    /// The standard error of a tool.
    ToolError,
    /// The conversation with a model, in the format of its backend.
    Conversation,
}

impl StageFile {
    /// Returns the name of the file.
    pub const fn name(self) -> &'static str {
        match self {
            StageFile::Status => "status.json",
            StageFile::Prompt => "prompt.md",
            StageFile::Response => "response.md",
            StageFile::ToolOutput => "tool_output.txt",
            StageFile::ToolError => "tool_stderr.txt",
            StageFile::Conversation => "conversation.json",
        }
    }
}

/// The owner of stage files: a node, and its branch if several branches run the same node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StageFolder<'a> {
    /// The node.
    pub(crate) node: &'a str,
    /// The branch. Empty if only one path runs the node.
    pub(crate) branch: &'a str,
}

impl<'a> From<&'a str> for StageFolder<'a> {
    fn from(node: &'a str) -> StageFolder<'a> {
        StageFolder { node, branch: "" }
    }
}

/// The two ends of a file. The head is the whole file if no bytes are missing.
pub(crate) struct FileEnds {
    pub(crate) path: PathBuf,
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
    /// The number of bytes between the ends.
    pub(crate) missing: u64,
}

impl FileEnds {
    /// Returns the ends of a text in memory.
    pub(crate) fn of_bytes(bytes: &[u8], most: usize) -> FileEnds {
        let (head, rest) = if bytes.len() > most {
            bytes.split_at(most / 2)
        } else {
            (bytes, &[][..])
        };
        let missing = rest.len().saturating_sub(most - most / 2);
        FileEnds {
            path: PathBuf::new(),
            head: head.to_vec(),
            tail: rest.get(missing..).unwrap_or_default().to_vec(),
            missing: missing as u64,
        }
    }
}
