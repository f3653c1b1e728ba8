//! The persistence of runs.

mod checkpoint;
mod commit;
mod commit_log;
mod durability;
mod error;
mod files;
mod folder;
mod journal;
mod layout;
mod line;
mod lines;
mod manifest;
mod obstacle;
mod opening;
mod owner;
mod ownership;
mod read;
mod run_store;
mod sealed;
mod stage_file;
mod stages;
mod temporary;
#[cfg(test)]
pub(crate) mod tests;
mod view;

pub use checkpoint::{Checkpoint, RecordedOutcome};
pub(crate) use checkpoint::{checkpoint_name, checkpoint_number};
pub use durability::Durability;
pub use error::StoreError;
pub(crate) use files::system;
pub use files::{Access, FileSystem, OpenFile, SystemFiles};
pub(crate) use folder::{FolderStore, Opened, StoreOptions};
pub(crate) use journal::Journal;
pub(crate) use layout::{ARTIFACT_INDEX, ARTIFACTS, CHECKPOINT, EVENTS, JOURNAL, MANIFEST};
pub(crate) use line::{AROUND, Position, scan};
pub use manifest::{Manifest, PinnedSource, ReplayedFrom};
pub(crate) use manifest::{PROTOCOL, RunIdentity, SCHEMA};
pub(crate) use opening::OpenOptions;
pub use owner::Owner;
#[cfg(unix)]
pub(crate) use owner::host;
#[cfg(unix)]
pub(crate) use ownership::present as present_owner;
pub(crate) use run_store::{Commit, RunStore, Synced};
pub use stage_file::StageFile;
pub(crate) use stage_file::{FileEnds, StageFolder};
pub use stages::stage_folder_name;
pub(crate) use temporary::TemporaryFolder;
pub use view::{EventLine, RunFolder};
