//! Queries and checks of repositories and worktrees.

use std::path::PathBuf;

use crate::error::GitWorkspaceError;
use crate::git_path::os_path;
use crate::open::OpenMerge;
use crate::ref_names::open_ref;
use crate::repository::Repository;
use crate::sha::Sha;
use crate::tree::Tree;

/// A worktree that git knows.
#[derive(Debug)]
pub(crate) struct Worktree {
    pub(crate) path: PathBuf,
    pub(crate) branch: Option<String>,
}

impl Repository {
    /// Checks that branches and commits can be created in the repository.
    ///
    /// # Errors
    ///
    /// Returns an error if the repository is not writable, or if another process works in it for too long.
    pub fn check_writable(&self) -> Result<(), GitWorkspaceError> {
        self.lock("look").map(drop)
    }

    /// Returns the branches whose names match a pattern, with their commits. `*` matches any characters except `/`.
    ///
    /// # Errors
    ///
    /// Returns an error if git cannot be run.
    pub fn branches_like(&self, pattern: &str) -> Result<Vec<(String, Sha)>, GitWorkspaceError> {
        let pattern = format!("refs/heads/{pattern}");
        let format = "--format=%(objectname) %(refname:lstrip=2)";
        let output = self.run(&self.command().args(["for-each-ref", format, &pattern]))?;
        let text = String::from_utf8_lossy(&output);
        let named = text.lines().filter_map(|line| line.split_once(' '));
        named
            .map(|(sha, name)| Ok((name.to_owned(), sha.parse()?)))
            .collect()
    }

    /// Returns all worktrees, the user's first.
    pub(crate) fn worktrees(&self) -> Result<Vec<Worktree>, GitWorkspaceError> {
        let output = self.run(&self.command().args(["worktree", "list", "--porcelain", "-z"]))?;
        let mut trees: Vec<Worktree> = Vec::new();
        for line in output.split(|byte| *byte == 0) {
            if let Some(path) = line.strip_prefix(b"worktree ") {
                trees.push(Worktree {
                    path: os_path(path),
                    branch: None,
                });
            } else if let (Some(branch), Some(tree)) =
                (line.strip_prefix(b"branch refs/heads/"), trees.last_mut())
            {
                tree.branch = Some(String::from_utf8_lossy(branch).into_owned());
            }
        }
        Ok(trees)
    }

    /// Deletes the ref of the open merge of a branch. The commit gets another ref, for a run that is resumed from an
    /// earlier point.
    pub(crate) fn end_merge(&self, branch: &str) -> Result<(), GitWorkspaceError> {
        let name = open_ref(branch);
        if self.resolve(&name)?.is_none() {
            return Ok(());
        }
        let lock = self.lock(&format!("end merge of {branch}"))?;
        if let Some(open) = self.resolve(&name)? {
            self.keep(&lock, branch, &open)?;
            self.delete_ref(&lock, &name, &open)?;
        }
        Ok(())
    }

    /// Returns the commit that holds the open merge of a branch, or `None` if no merge is open.
    ///
    /// # Errors
    ///
    /// Returns an error if git cannot be run.
    pub fn open_merge_of(&self, branch: &str) -> Result<Option<Sha>, GitWorkspaceError> {
        self.resolve(&open_ref(branch))
    }
}

impl Tree {
    /// Returns whether the worktree exists.
    pub fn exists(&self) -> bool {
        self.location().is_ok()
    }

    /// Returns the files of an open merge that still contain markers.
    ///
    /// # Errors
    ///
    /// Returns an error if `open` is not an open merge, or if the worktree does not exist.
    pub fn unresolved(&self, open: &Sha) -> Result<Vec<String>, GitWorkspaceError> {
        let merge = OpenMerge::read(self.repository(), open)?;
        Ok(merge.marked(&self.location()?.folder))
    }
}
