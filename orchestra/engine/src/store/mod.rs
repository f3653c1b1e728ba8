//! The persistence of runs.

mod checkpoint;
mod children;
mod commit;
mod commit_log;
mod durability;
mod error;
mod event_line;
mod event_reader;
mod export_target;
mod files;
mod folder;
mod guard;
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
mod removal;
mod run_folder;
mod run_store;
mod sealed;
mod stage_file;
mod stages;
mod temporary;
#[cfg(test)]
pub(crate) mod tests;

pub use checkpoint::{Checkpoint, RecordedOutcome};
pub(crate) use checkpoint::{checkpoint_name, checkpoint_number};
pub use durability::Durability;
pub use error::StoreError;
pub use event_line::EventLine;
pub use event_reader::{EventCursor, EventReader};
pub(crate) use export_target::{ExportTarget, present_copy};
pub(crate) use files::system;
pub use files::{Access, FileSystem, OpenFile, SystemFiles};
pub(crate) use folder::{FolderStore, Opened, StoreOptions};
pub(crate) use journal::Journal;
pub use layout::RunFile;
pub(crate) use layout::{
    ARTIFACT_INDEX, ARTIFACTS, BRANCHES, CHECKPOINT, EVENTS, JOURNAL, MANIFEST, VISITS, child_folder,
    stages_after,
};
pub(crate) use line::{AROUND, Position, scan};
pub use manifest::{Manifest, PinnedSource, ReplayedFrom};
pub(crate) use manifest::{PROTOCOL, RunIdentity, SCHEMA};
pub(crate) use opening::OpenOptions;
pub use owner::Owner;
#[cfg(unix)]
pub(crate) use owner::host;
#[cfg(unix)]
pub(crate) use ownership::present as present_owner;
pub use run_folder::RunFolder;
pub(crate) use run_store::{Commit, RunStore, Synced};
pub use stage_file::StageFile;
pub(crate) use stage_file::{FileEnds, StageFolder};
pub use stages::stage_folder_name;
pub(crate) use temporary::TemporaryFolder;
