//! What a run asks of repositories and trees before it does anything to them.

use crate::fault::WorkspaceFault;
use crate::open::Note;
use crate::refs::open_ref;
use crate::repository::{Repository, Sha};
use crate::tree::Tree;

impl Repository {
    /// Whether branches and commits can be made in it.
    ///
    /// # Errors
    ///
    /// If nothing can be written there, or another process works in it for too long.
    pub fn check_writable(&self) -> Result<(), WorkspaceFault> {
        self.lock("look").map(drop)
    }

    /// The branches whose names match a pattern in which `*` stands for any characters but `/`, with their commits.
    ///
    /// # Errors
    ///
    /// If git cannot be run.
    pub fn branches_like(&self, pattern: &str) -> Result<Vec<(String, Sha)>, WorkspaceFault> {
        let pattern = format!("refs/heads/{pattern}");
        let format = "--format=%(objectname) %(refname:lstrip=2)";
        let output = self.run(&self.command().args(["for-each-ref", format, &pattern]))?;
        let text = String::from_utf8_lossy(&output);
        let named = text.lines().filter_map(|line| line.split_once(' '));
        named
            .map(|(sha, name)| Ok((name.to_owned(), sha.parse()?)))
            .collect()
    }

    /// Forgets the open merge of a branch; its commit stays kept, for a run that goes on from before.
    pub(crate) fn end_merge(&self, branch: &str) -> Result<(), WorkspaceFault> {
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

    /// The commit that holds the open merge of a branch, if one is open.
    ///
    /// # Errors
    ///
    /// If git cannot be run.
    pub fn open_merge_of(&self, branch: &str) -> Result<Option<Sha>, WorkspaceFault> {
        self.resolve(&open_ref(branch))
    }
}

impl Tree {
    /// Whether it is there.
    pub fn exists(&self) -> bool {
        self.place().is_ok()
    }

    /// The files of an open merge in which markers are left.
    ///
    /// # Errors
    ///
    /// If it is no open merge, or the tree is not there.
    pub fn unresolved(&self, open: &Sha) -> Result<Vec<String>, WorkspaceFault> {
        let note = Note::read(self.repository(), open)?;
        Ok(note.marked(&self.place()?.folder))
    }
}
