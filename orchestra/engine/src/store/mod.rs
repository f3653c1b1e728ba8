//! Where a run is kept.

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
pub use manifest::{Manifest, PinnedPipeline, ReplayedFrom};
pub(crate) use manifest::{PROTOCOL, RunIdentity, SCHEMA};
pub(crate) use opening::OpenOptions;
pub use owner::Owner;
#[cfg(unix)]
pub(crate) use owner::{host, present as present_owner};
pub use stages::stage_folder_name;
pub(crate) use temporary::TemporaryFolder;
pub use view::{EventLine, RunFolder};

use crate::event::RunEvent;

/// What the run is.
pub(crate) const MANIFEST: &str = "manifest.json";
/// Its latest state.
pub(crate) const CHECKPOINT: &str = "checkpoint.json";
/// Its records.
pub(crate) const JOURNAL: &str = "journal.jsonl";
/// The folder of its artifacts, and what names them.
pub(crate) const ARTIFACTS: &str = "artifacts";
pub(crate) const ARTIFACT_INDEX: &str = "index.jsonl";
/// Its events.
pub(crate) const EVENTS: &str = "events.jsonl";

/// What a run's records survive (rules D1, D3).
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
    /// A loss of power: a stage counts as done when the disk has its record.
    #[default]
    Full,
    /// The end of the process, but not a loss of power: a stage counts as done when the system has its record.
    Process,
    /// Nothing: there is no journal. A run can go on only from a pause or an end.
    None,
}

/// Keeps one run (Attractor 5.6, rule D2). Calls come one at a time from the run, and from its stages.
pub(crate) trait RunStore: Send + Sync + 'static {
    /// The folder of the run.
    fn folder(&self) -> &Path;

    /// Keeps what the run is: from here on it is one.
    fn manifest(&self, manifest: &Manifest) -> Result<(), StoreError>;

    /// Returns what the files of the run name it by; `None` where nothing says which run they are of.
    fn identity(&self) -> Option<RunIdentity> {
        None
    }

    /// Whether there is a journal; where not, records go nowhere.
    fn keeps_journal(&self) -> bool;

    /// Writes a record to the journal, but does not wait for the disk; gives the position behind it.
    fn append(&self, record: &[u8]) -> Result<Position, StoreError>;

    /// Makes the records so far as durable as they are to be. Not before this has succeeded may anything be done that
    /// follows from them.
    fn sync(&self) -> Result<Synced, StoreError>;

    /// Whether nobody has taken the run over (rule D5).
    fn still_mine(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The files whose names are moved away when somebody takes the run over, or one around it; open as long as this lives.
    #[cfg(unix)]
    fn locks(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// Writes the record of a state that the journal had lost, makes it durable, and removes the checkpoint that knew it,
    /// whose place is not in the journal.
    fn restored(&self, record: &[u8]) -> Result<Position, StoreError> {
        self.append(record)
    }

    /// Where the next record will be.
    fn position(&self) -> Position;

    /// Whether the journal has outgrown the latest checkpoint.
    fn wants_checkpoint(&self) -> bool;

    /// Keeps an event; others see it after [`flush`](RunStore::flush).
    fn event(&self, event: &RunEvent) -> Result<(), StoreError>;

    /// Hands the events that are kept to the system.
    fn flush(&self) -> Result<(), StoreError>;

    /// Replaces the checkpoint: when this returns, the new one is durable; when it fails, the old one is intact.
    fn checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), StoreError>;

    /// The run begins anew (rule R9): what follows is kept in `restart-N`.
    fn restarted(&self, restart: u32) -> Result<(), StoreError>;

    /// The run goes on, after so many restarts.
    fn resumed(&self, restarts: u32) -> Result<(), StoreError> {
        match restarts {
            0 => Ok(()),
            restarts => self.restarted(restarts),
        }
    }

    /// The folder of a stage, made where it is missing; what an earlier visit left is moved to `visits/N`.
    fn stage(&self, place: StagePlace<'_>, visit: u32) -> Result<PathBuf, StoreError>;

    /// Whether what a visit left was moved to `visits/N`: a later one has begun.
    fn is_aside(&self, place: StagePlace<'_>, visit: u32) -> bool;

    /// Whether a visit has left its outcome in the folder of the stage.
    fn has_status(&self, place: StagePlace<'_>, visit: u32) -> bool;

    /// Whether a stage has a folder, of whatever visit.
    fn has_folder(&self, place: StagePlace<'_>) -> bool;

    /// Whether the folder of a stage was opened for this visit.
    fn is_open(&self, place: StagePlace<'_>, visit: u32) -> bool;

    /// Writes a file of a stage.
    fn write(&self, place: StagePlace<'_>, file: StageFile, bytes: &[u8]) -> Result<(), StoreError>;

    /// Reads a file of a stage; `None` where there is none.
    fn read(&self, place: StagePlace<'_>, file: StageFile) -> Result<Option<Vec<u8>>, StoreError>;

    /// Reads the two ends of a file that a visit left, `most` bytes in all; `None` where there is none.
    fn recall(&self, place: StagePlace<'_>, visit: u32, file: StageFile, most: usize) -> Option<FileEnds>;

    /// Takes the paths of what stood in the way of files and folders of stages, and was moved aside since the last call.
    fn take_moved(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Removes a file of a stage, if it is there.
    fn remove(&self, place: StagePlace<'_>, file: StageFile) -> Result<(), StoreError>;

    /// Nothing more will be written in this process: what is kept is made durable, and others may own the run.
    fn close(&self) -> Result<(), StoreError>;
}

/// The two ends of a file; the head is all of it where nothing is missing.
pub(crate) struct FileEnds {
    pub(crate) path: PathBuf,
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
    /// How many bytes are between them.
    pub(crate) missing: u64,
}

impl FileEnds {
    /// The ends of a text in memory.
    pub(crate) fn of_bytes(bytes: &[u8], most: usize) -> FileEnds {
        let (head, rest) = match bytes.len() > most {
            true => bytes.split_at(most / 2),
            false => (bytes, &[][..]),
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

/// What came of the wish that records be durable.
pub(crate) enum Synced {
    /// They are.
    Done,
    /// They will be when this is.
    Later(Commit),
}

/// Records on their way to the disk.
pub(crate) type Commit = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// Which stage files belong to: a node, and the branch where several branches run the same node.
///
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StagePlace<'a> {
    /// The node.
    pub(crate) node: &'a str,
    /// The branch; empty where the node is run by one alone.
    pub(crate) branch: &'a str,
}

impl<'a> From<&'a str> for StagePlace<'a> {
    fn from(node: &'a str) -> StagePlace<'a> {
        StagePlace { node, branch: "" }
    }
}

/// A file that the engine keeps for a stage (rule D2).
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
    /// What a tool wrote to its standard output.
    ToolOutput,
    /// What a tool wrote to its standard error.
    ToolError,
    /// The conversation with a model, in the form of its backend.
    Conversation,
}

impl StageFile {
    /// The file's name.
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
