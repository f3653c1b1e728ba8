//! The persistence of runs.

mod checkpoint;
mod commit;
mod commit_log;
mod error;
mod files;
mod folder;
mod journal;
mod line;
mod lines;
mod manifest;
mod obstacle;
mod opening;
mod owner;
mod sealed;
mod stages;
mod temporary;
#[cfg(test)]
pub(crate) mod tests;
mod view;

use std::future::Future;
#[cfg(unix)]
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use serde::{Deserialize, Serialize};

pub use checkpoint::{Checkpoint, RecordedOutcome};
pub(crate) use checkpoint::{checkpoint_name, checkpoint_number};
pub use error::StoreError;
pub(crate) use files::system;
pub use files::{Access, FileSystem, OpenFile, SystemFiles};
pub(crate) use folder::{FolderStore, Opened, StoreOptions};
pub(crate) use journal::Journal;
pub(crate) use line::{AROUND, Position, scan};
pub use manifest::{Manifest, PinnedSource, ReplayedFrom};
pub(crate) use manifest::{PROTOCOL, RunIdentity, SCHEMA};
pub(crate) use opening::OpenOptions;
pub use owner::Owner;
#[cfg(unix)]
pub(crate) use owner::{host, present as present_owner};
pub use stages::stage_folder_name;
pub(crate) use temporary::TemporaryFolder;
pub use view::{EventLine, RunFolder};

use crate::event::RunEvent;

/// The description of the run.
pub(crate) const MANIFEST: &str = "manifest.json";
/// The latest state of the run.
pub(crate) const CHECKPOINT: &str = "checkpoint.json";
/// The records of the run.
pub(crate) const JOURNAL: &str = "journal.jsonl";
/// The folder of the artifacts, and their index.
pub(crate) const ARTIFACTS: &str = "artifacts";
pub(crate) const ARTIFACT_INDEX: &str = "index.jsonl";
/// The events of the run.
pub(crate) const EVENTS: &str = "events.jsonl";

/// The kind of crash that the records of a run survive (rules D1, D3).
///
/// ```
/// use orchestra_engine::Durability;
/// assert_eq!(Durability::default(), Durability::Full);
/// assert_eq!(serde_json::to_string(&Durability::Process)?, r#""process""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Durability {
    /// A loss of power: a stage counts as done when its record is on the disk.
    #[default]
    Full,
    /// The end of the process, but not a loss of power: a stage counts as done when the operating system has its
    /// record.
    Process,
    /// No crash: there is no journal. A run can only be resumed after a pause or its end.
    None,
}

/// The persistence of one run (Attractor 5.6, rule D2). The run and its stages make one call at a time.
pub(crate) trait RunStore: Send + Sync + 'static {
    /// Returns the folder of the run.
    fn folder(&self) -> &Path;

    /// Stores the manifest, which makes the folder a run.
    fn manifest(&self, manifest: &Manifest) -> Result<(), StoreError>;

    /// Returns the identity that the files of the run refer to. Returns `None` if they have no identity.
    fn identity(&self) -> Option<RunIdentity> {
        None
    }

    /// Returns whether there is a journal. Without one, records are discarded.
    fn keeps_journal(&self) -> bool;

    /// Writes a record to the journal without waiting for the disk. Returns the position after it.
    fn append(&self, record: &[u8]) -> Result<Position, StoreError>;

    /// Makes the records so far durable as required. The caller must not act on them before this has succeeded.
    fn sync(&self) -> Result<Synced, StoreError>;

    /// Checks that no other process has taken over the run (rule D5).
    fn check_ownership(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the lock files whose names are removed when another process takes over the run or a parent run. They are
    /// open as long as this value lives.
    #[cfg(unix)]
    fn locks(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// Writes the record of a state that the journal had lost, makes it durable, and removes the checkpoint that
    /// contained the state, because its position is not in the journal.
    fn restored(&self, record: &[u8]) -> Result<Position, StoreError> {
        self.append(record)
    }

    /// Returns the position of the next record.
    fn position(&self) -> Position;

    /// Returns whether the journal has outgrown the latest checkpoint.
    fn wants_checkpoint(&self) -> bool;

    /// Stores an event. Others see it after [`flush`](RunStore::flush).
    fn event(&self, event: &RunEvent) -> Result<(), StoreError>;

    /// Writes the stored events to the operating system.
    fn flush(&self) -> Result<(), StoreError>;

    /// Replaces the checkpoint. If this succeeds, the new one is durable. If it fails, the old one is intact.
    fn checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), StoreError>;

    /// Restarts the run (rule R9): the following stages are stored in `restart-N`.
    fn restarted(&self, restart: u32) -> Result<(), StoreError>;

    /// Prepares the store of a resumed run after this number of restarts.
    fn resumed(&self, restarts: u32) -> Result<(), StoreError> {
        match restarts {
            0 => Ok(()),
            restarts => self.restarted(restarts),
        }
    }

    /// Returns the folder of a stage. Creates it if it is missing, and moves the files of an earlier visit to
    /// `visits/N`.
    fn stage(&self, stage_folder: StageFolder<'_>, visit: u32) -> Result<PathBuf, StoreError>;

    /// Returns whether the files of a visit were moved to `visits/N`, because a later visit has begun.
    fn is_aside(&self, stage_folder: StageFolder<'_>, visit: u32) -> bool;

    /// Returns whether a visit has left its outcome in the folder of the stage.
    fn has_status(&self, stage_folder: StageFolder<'_>, visit: u32) -> bool;

    /// Returns whether a stage has a folder, of any visit.
    fn has_folder(&self, stage_folder: StageFolder<'_>) -> bool;

    /// Returns whether the folder of a stage was opened for this visit.
    fn is_open(&self, stage_folder: StageFolder<'_>, visit: u32) -> bool;

    /// Writes a file of a stage.
    fn write(&self, stage_folder: StageFolder<'_>, file: StageFile, bytes: &[u8]) -> Result<(), StoreError>;

    /// Reads a file of a stage. Returns `None` if it is missing.
    fn read(&self, stage_folder: StageFolder<'_>, file: StageFile) -> Result<Option<Vec<u8>>, StoreError>;

    /// Reads the two ends of a file of a visit, `most` bytes in total. Returns `None` if it is missing.
    fn recall(
        &self,
        stage_folder: StageFolder<'_>,
        visit: u32,
        file: StageFile,
        most: usize,
    ) -> Option<FileEnds>;

    /// Takes the paths of conflicting files and folders that were moved aside since the last call.
    fn take_moved(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Removes a file of a stage if it exists.
    fn remove(&self, stage_folder: StageFolder<'_>, file: StageFile) -> Result<(), StoreError>;

    /// Makes the stored data durable and releases the ownership. This process writes nothing more.
    fn close(&self) -> Result<(), StoreError>;
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

/// The result of a request to make records durable.
pub(crate) enum Synced {
    /// They are durable.
    Done,
    /// They are durable when this future completes.
    Later(Commit),
}

/// A future that completes when records are durable.
pub(crate) type Commit = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

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

/// A file that the engine stores for a stage (rule D2).
///
/// ```
/// assert_eq!(orchestra_engine::StageFile::Status.name(), "status.json");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
