//! The branches of a repository: queries, and the deletion of branches that runs made.

use crate::error::GitWorkspaceError;
use crate::lock::RepositoryLock;
use crate::ref_names::{base_ref, head_ref, open_ref};
use crate::repository::Repository;
use crate::sha::Sha;

impl Repository {
    /// Returns whether a branch exists.
    ///
    /// # Errors
    ///
    /// Returns an error if git cannot be run.
    pub fn branch_exists(&self, branch: &str) -> Result<bool, GitWorkspaceError> {
        Ok(self.resolve(&head_ref(branch))?.is_some())
    }

    /// Returns the commit of a branch, or `None` if the branch does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if git cannot be run.
    pub fn tip(&self, branch: &str) -> Result<Option<Sha>, GitWorkspaceError> {
        self.resolve(&head_ref(branch))
    }

    /// Deletes a merged branch that a run made, with the refs beside it. Succeeds if the branch does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if no run made the branch, if it is checked out, or if it has commits that `into` lacks.
    pub fn delete_branch(&self, branch: &str, into: &Sha) -> Result<(), GitWorkspaceError> {
        let lock = self.lock(&format!("delete branch {branch}"))?;
        self.unlock_refs(&lock, branch);
        if let Some(tip) = self.tip(branch)? {
            if self.resolve(&base_ref(branch))?.is_none() {
                return Err(GitWorkspaceError::NotOurs {
                    repository: self.name().to_owned(),
                    branch: branch.to_owned(),
                });
            }
            if !self.is_ancestor(&tip, into)? {
                return Err(GitWorkspaceError::NotMerged {
                    repository: self.name().to_owned(),
                    branch: branch.to_owned(),
                    into: into.short().to_owned(),
                });
            }
            self.delete_branch_locked(&lock, branch, &tip)?;
        }
        self.delete_beside(&lock, branch)
    }

    /// Deletes the branch itself, unless it is checked out in a worktree.
    pub(crate) fn delete_branch_locked(
        &self,
        lock: &RepositoryLock,
        branch: &str,
        tip: &Sha,
    ) -> Result<(), GitWorkspaceError> {
        let in_use = self
            .worktrees()?
            .into_iter()
            .find(|tree| tree.branch.as_deref() == Some(branch) && tree.path.exists());
        if let Some(tree) = in_use {
            return Err(GitWorkspaceError::BranchInUse {
                repository: self.name().to_owned(),
                branch: branch.to_owned(),
                path: tree.path,
            });
        }
        self.delete_ref(lock, &head_ref(branch), tip)
    }

    /// Deletes the refs that mark a branch as made by a run. Must be called after the branch was deleted, because an
    /// unmarked branch counts as the user's.
    pub(crate) fn delete_beside(&self, lock: &RepositoryLock, branch: &str) -> Result<(), GitWorkspaceError> {
        for name in [open_ref(branch), base_ref(branch)] {
            if let Some(sha) = self.resolve(&name)? {
                self.delete_ref(lock, &name, &sha)?;
            }
        }
        Ok(())
    }
}
