//! The layout of a run folder: the names of its files and folders (rule D2).

use std::path::{Path, PathBuf};

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
/// The description of the owner of the run, which keeps the file locked.
pub(crate) const OWNER_LOCK: &str = "owner.lock";
/// The folder of the earlier visits of a stage. No stage file has this name.
pub(crate) const VISITS: &str = "visits";
/// The folder of the branches that run a stage. No stage file has this name.
pub(crate) const BRANCHES: &str = "branches";
/// The beginning of the names of the folders with the stages after a restart.
const RESTART: &str = "restart-";
/// The name of a child's run folder in the folder of its stage. A repeated attempt has a numbered folder of its own.
const CHILD: &str = "child";

/// A file that the engine stores for a run (rule D2).
///
/// ```
/// use std::path::Path;
/// use orchestra_engine::RunFile;
/// assert_eq!(RunFile::Events.name(), "events.jsonl");
/// assert_eq!(RunFile::Events.path("runs/nightly"), Path::new("runs/nightly/events.jsonl"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunFile {
    /// The description of the run.
    Manifest,
    /// The latest state of the run.
    Checkpoint,
    /// The records of the run.
    Journal,
    /// The events of the run.
    Events,
    /// The description of the owner of the run.
    OwnerLock,
}

impl RunFile {
    /// Returns the name of the file.
    pub const fn name(self) -> &'static str {
        match self {
            RunFile::Manifest => MANIFEST,
            RunFile::Checkpoint => CHECKPOINT,
            RunFile::Journal => JOURNAL,
            RunFile::Events => EVENTS,
            RunFile::OwnerLock => OWNER_LOCK,
        }
    }

    /// Returns the path of the file in a run folder.
    pub fn path(self, run_folder: impl AsRef<Path>) -> PathBuf {
        run_folder.as_ref().join(self.name())
    }
}

/// Returns the folder that contains the stage folders after some restarts. Before the first, it is the run folder.
pub(crate) fn stages_after(run_folder: &Path, restarts: u32) -> PathBuf {
    match restarts {
        0 => run_folder.to_owned(),
        restarts => run_folder.join(format!("{RESTART}{restarts}")),
    }
}

/// Returns whether a folder of this name contains the stage folders after a restart.
pub(super) fn is_restart(name: &str) -> bool {
    name.starts_with(RESTART)
}

/// Returns the run folder of the child that an attempt of a stage starts.
pub(crate) fn child_folder(stage_folder: &Path, attempt: u32) -> PathBuf {
    match attempt {
        1 => stage_folder.join(CHILD),
        attempt => stage_folder.join(format!("{CHILD}-{attempt}")),
    }
}

/// Returns whether a folder of this name in the folder of a stage is the run folder of a child.
pub(super) fn is_child(name: &str) -> bool {
    let number = name.strip_prefix(CHILD);
    number.is_some_and(|number| number.is_empty() || number.starts_with('-'))
}
