//! The commits of a repository: queries, and the creation of commits without a ref.

use crate::error::GitWorkspaceError;
use crate::git::GitCommand;
use crate::repository::Repository;
use crate::sha::Sha;

impl Repository {
    /// Returns the commit that the user has checked out, on a branch or detached.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no commit yet, or if git cannot be run.
    pub fn head(&self) -> Result<Sha, GitWorkspaceError> {
        let none = || GitWorkspaceError::NoCommit {
            repository: self.name().to_owned(),
            path: self.top().to_owned(),
        };
        self.resolve("HEAD^{commit}")?.ok_or_else(none)
    }

    /// Returns whether a commit exists.
    ///
    /// # Errors
    ///
    /// Returns an error if git cannot be run.
    pub fn has_commit(&self, sha: &Sha) -> Result<bool, GitWorkspaceError> {
        if self.commit_cache().existing.contains(sha) {
            return Ok(true);
        }
        let there = self.resolve(&format!("{sha}^{{commit}}"))?.is_some();
        if there {
            self.commit_cache().existing.insert(sha.clone());
        }
        Ok(there)
    }

    /// Returns whether `ancestor` is reachable from `descendant`. Each commit is its own ancestor.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the commits does not exist, or if git cannot be run.
    pub fn is_ancestor(&self, ancestor: &Sha, descendant: &Sha) -> Result<bool, GitWorkspaceError> {
        if ancestor == descendant {
            return Ok(true);
        }
        let pair = (ancestor.clone(), descendant.clone());
        let known = self.commit_cache().ancestors.get(&pair).copied();
        if let Some(is) = known {
            return Ok(is);
        }
        let command = self.command().args([
            "merge-base",
            "--is-ancestor",
            ancestor.as_str(),
            descendant.as_str(),
        ]);
        let output = self.try_run(&command)?;
        let is = match output.status {
            0 => true,
            1 => false,
            _ => return Err(self.error(&command, &output)),
        };
        self.commit_cache().ancestors.insert(pair, is);
        Ok(is)
    }

    /// Returns the tree of a commit.
    pub(crate) fn tree_of(&self, commit: &Sha) -> Result<Sha, GitWorkspaceError> {
        let known = self.commit_cache().trees.get(commit).cloned();
        if let Some(tree) = known {
            return Ok(tree);
        }
        let missing = || self.missing(commit);
        let tree = self.resolve(&format!("{commit}^{{tree}}"))?.ok_or_else(missing)?;
        self.commit_cache().trees.insert(commit.clone(), tree.clone());
        Ok(tree)
    }

    pub(crate) fn missing(&self, commit: &Sha) -> GitWorkspaceError {
        GitWorkspaceError::CommitMissing {
            repository: self.name().to_owned(),
            sha: commit.to_string(),
        }
    }

    /// Returns the parents of a commit.
    pub(crate) fn parents(&self, commit: &Sha) -> Result<Vec<Sha>, GitWorkspaceError> {
        let command = self.command().args([
            "rev-list",
            "--parents",
            "-n",
            "1",
            "--end-of-options",
            commit.as_str(),
        ]);
        let output = self.run(&command)?;
        let text = String::from_utf8_lossy(&output).into_owned();
        let parents = text.split_whitespace().skip(1).map(str::parse);
        parents
            .collect::<Result<_, _>>()
            .map_err(|_| self.unreadable(&command))
    }

    /// Returns the message of a commit.
    pub(crate) fn message_of(&self, commit: &Sha) -> Result<String, GitWorkspaceError> {
        let command = self
            .command()
            .args(["log", "-1", "--format=%B", "--end-of-options", commit.as_str()]);
        Ok(String::from_utf8_lossy(&self.run(&command)?).into_owned())
    }

    /// Writes a commit object, which no ref names yet.
    pub(crate) fn write_commit(
        &self,
        tree: &Sha,
        parents: &[Sha],
        message: &str,
    ) -> Result<Sha, GitWorkspaceError> {
        self.run_sha(&self.commit_command(tree, parents, message))
    }

    /// Like [`write_commit`](Repository::write_commit), but with the date of the newest parent. The merge of the same
    /// commits is therefore the same commit whenever it is computed, so a merge that a person has begun to resolve is
    /// recognised.
    pub(crate) fn write_merge(
        &self,
        tree: &Sha,
        parents: &[Sha],
        message: &str,
    ) -> Result<Sha, GitWorkspaceError> {
        let dates = self
            .command()
            .args(["log", "--no-walk", "--format=%ct"])
            .args(parents.iter().map(Sha::as_str));
        let dates = self.run(&dates)?;
        let dates = String::from_utf8_lossy(&dates).into_owned();
        let newest = dates.lines().filter_map(|line| line.parse::<u64>().ok()).max();
        let date = format!("@{} +0000", newest.unwrap_or_default());
        let command = self
            .commit_command(tree, parents, message)
            .env("GIT_AUTHOR_DATE", &date)
            .env("GIT_COMMITTER_DATE", &date);
        self.run_sha(&command)
    }

    fn commit_command(&self, tree: &Sha, parents: &[Sha], message: &str) -> GitCommand {
        // The message may exceed the maximum length of an argument.
        let words = ["commit-tree", "--no-gpg-sign", tree.as_str(), "-F", "-"];
        let mut command = self.command().args(words).stdin(message);
        for parent in parents {
            command = command.arg("-p").arg(parent.as_str());
        }
        command
    }
}
