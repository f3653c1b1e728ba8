//! The location of a worktree: its folder and its entry in the common git folder.

use std::path::PathBuf;

use crate::git::GitCommand;

/// The folder of a worktree and its entry in the common git folder.
#[derive(Debug, Clone)]
pub(crate) struct WorktreeLocation {
    pub(crate) folder: PathBuf,
    pub(crate) entry: PathBuf,
}

impl WorktreeLocation {
    /// Returns a command that runs in the worktree. It names both paths explicitly, because a damaged `.git` file could
    /// point to the user's own worktree.
    pub(crate) fn command(&self) -> GitCommand {
        GitCommand::new(&self.folder)
            .env("GIT_DIR", &self.entry)
            .env("GIT_WORK_TREE", &self.folder)
    }

    /// Returns the file in which an operation that moves branch and files records its target while it runs.
    pub(crate) fn moving(&self) -> PathBuf {
        self.entry.join("orchestra-moving")
    }

    pub(crate) fn is_moving(&self) -> bool {
        self.moving().exists()
    }
}
