//! A work tree of a run, on a branch of its own.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::entry::Place;
use crate::fault::WorkspaceFault;
use crate::lock::RepositoryLock;
use crate::message::Message;
use crate::open;
use crate::refs::{base_ref, head_ref, open_ref};
use crate::repository::{Repository, Sha};
use crate::watch::Watch;

/// A work tree of a run and the branch that it is on.
///
/// Each operation takes the repository's lock, may be killed at any moment, and leaves what the next one can go on with.
///
/// ```
/// use std::sync::Arc;
/// use orchestra_workspace::{Ensured, Git, GitCommand, Message, Repository, SystemGit};
/// let folder = tempfile::tempdir().unwrap();
/// let user = folder.path().join("backend");
/// std::fs::create_dir(&user).unwrap();
/// let git = Arc::new(SystemGit::find().unwrap());
/// for words in [&["init", "-q"][..], &["commit", "-q", "--allow-empty", "-m", "start"]] {
///     git.run(&GitCommand::new(&user).args(words)).unwrap();
/// }
/// let repository = Repository::open(git, "backend", &user).unwrap();
/// let base = repository.head().unwrap();
///
/// let tree = repository.tree(folder.path().join("trees/session/backend"), "orchestra/poem/a1b2c3".into());
/// assert_eq!(tree.ensure(&base, &base).unwrap(), Ensured::Made);
/// std::fs::write(tree.root().join("poem.txt"), "roses").unwrap();
/// let message = Message { summary: "write: a poem".into(), ..Message::default() };
/// let commit = tree.commit(&message).unwrap().unwrap();
/// assert_eq!(tree.commit(&message).unwrap(), None);
/// assert_eq!(repository.tip("orchestra/poem/a1b2c3").unwrap(), Some(commit));
/// assert_eq!(repository.head().unwrap(), base);
/// ```
#[derive(Debug)]
pub struct Tree {
    repository: Repository,
    path: PathBuf,
    branch: String,
    known: Mutex<Known>,
}

/// What a handle remembers.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The commit that the caller was told of last.
    pub(crate) at: Option<Sha>,
    /// The commit that the files were equal to when the watch was quiet last.
    pub(crate) settled: Option<Sha>,
    pub(crate) watch: Option<Watch>,
    pub(crate) place: Option<Place>,
}

/// Whether a tree was made or was there.
///
/// ```
/// use orchestra_workspace::Ensured;
/// assert_ne!(Ensured::Made, Ensured::WasThere);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ensured {
    /// It was made, so its files are those of its branch.
    Made,
    /// It was there, with whatever is in it.
    WasThere,
}

/// How a tree stands.
///
/// ```
/// use orchestra_workspace::TreeState;
/// let head = "89e6c98d92887913cadf06b2adb97f26cde4849b".parse().unwrap();
/// assert!(!TreeState { head, dirty: false }.dirty);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeState {
    /// The commit that is checked out.
    pub head: Sha,
    /// Whether files that git does not ignore differ from it.
    pub dirty: bool,
}

/// Work that was set aside.
///
/// ```
/// use orchestra_workspace::Kept;
/// let commit = "89e6c98d92887913cadf06b2adb97f26cde4849b".parse().unwrap();
/// let kept = Kept { reference: "refs/orchestra/kept/poem/a1b2c3/89e6c98d9288".into(), commit, files: true };
/// assert!(kept.files);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The ref that names it from now on.
    pub reference: String,
    /// The commit.
    pub commit: Sha,
    /// Whether it holds files that were not committed; else they were commits.
    pub files: bool,
}

/// How a merge that was open ended.
///
/// ```
/// use orchestra_workspace::Finish;
/// let open = "89e6c98d92887913cadf06b2adb97f26cde4849b".parse().unwrap();
/// let finish = Finish::Unresolved { files: vec!["poem.txt".into()], open };
/// assert!(matches!(finish, Finish::Unresolved { files, .. } if files == ["poem.txt"]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// No marker is left; this is the merge.
    Merged(Sha),
    /// Markers are left.
    Unresolved {
        /// The files that hold them.
        files: Vec<String>,
        /// The open merge with the files as they are now.
        open: Sha,
    },
}

impl Tree {
    pub(crate) fn new(repository: Repository, path: PathBuf, branch: String) -> Tree {
        Tree {
            repository,
            path,
            branch,
            known: Mutex::new(Known::default()),
        }
    }

    /// The folder that the repository's own folder corresponds to: the tree, and the prefix below it.
    pub fn root(&self) -> PathBuf {
        self.path.join(self.repository.prefix())
    }

    /// The top of the tree.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The branch that it is on.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// The repository that it is of.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Makes the branch at `at`, where there is none, and the tree; mends whatever a killed process or a person left.
    ///
    /// # Errors
    ///
    /// If a branch of that name is there that no run made, a commit is not there, or nothing can be written.
    pub fn ensure(&self, at: &Sha, base: &Sha) -> Result<Ensured, WorkspaceFault> {
        let repository = &self.repository;
        let lock = repository.lock(&format!("ensure {}", self.path.display()))?;
        repository.unlock_refs(&lock, &self.branch);
        let tip = self.ensure_branch(&lock, at, base)?;
        let ensured = self.ensure_folder(&lock, &tip)?;
        let place = self.place()?;
        self.heal(&lock, &place)?;
        let root = self.root();
        fs::create_dir_all(&root).map_err(|source| WorkspaceFault::io(repository.name(), &root, source))?;
        self.known().at = Some(at.clone());
        drop(lock);
        match ensured {
            Ensured::Made => self.settle_new(&place),
            Ensured::WasThere => self.settle(&place),
        }
        Ok(ensured)
    }

    /// The branch's tip; the branch is made if there is none.
    fn ensure_branch(&self, lock: &RepositoryLock, at: &Sha, base: &Sha) -> Result<Sha, WorkspaceFault> {
        let repository = &self.repository;
        let mark = repository.resolve(&base_ref(&self.branch))?;
        match (repository.tip(&self.branch)?, mark) {
            (Some(tip), Some(_)) => Ok(tip),
            (Some(_), None) => Err(self.taken("a branch of that name is there that no run made")),
            (None, mark) => {
                for sha in [at, base] {
                    if !repository.has_commit(sha)? {
                        return Err(repository.missing(sha));
                    }
                }
                // The mark comes first: a branch without it would be the user's.
                if mark.as_ref() != Some(base) {
                    repository.set_ref(lock, &base_ref(&self.branch), base, mark.as_ref())?;
                }
                match repository.set_ref(lock, &head_ref(&self.branch), at, None) {
                    Err(WorkspaceFault::Command { stderr, .. }) => {
                        let _ = repository.delete_ref(lock, &base_ref(&self.branch), base);
                        let reason = stderr.lines().last().unwrap_or_default();
                        Err(self.taken(&format!("git says `{}`", reason.trim_start_matches("fatal: "))))
                    }
                    Err(other) => Err(other),
                    Ok(()) => Ok(at.clone()),
                }
            }
        }
    }

    fn taken(&self, detail: &str) -> WorkspaceFault {
        WorkspaceFault::BranchTaken {
            repository: self.repository.name().to_owned(),
            branch: self.branch.clone(),
            detail: detail.to_owned(),
        }
    }

    /// How the tree stands. Where nothing happened since the last look, git is not asked.
    ///
    /// # Errors
    ///
    /// If the tree is not there, or git cannot be run.
    pub fn state(&self) -> Result<TreeState, WorkspaceFault> {
        let place = self.place()?;
        if place.is_moving() {
            let (lock, place) = self.begin("state")?;
            drop(lock);
            return self.look(&place);
        }
        match self.quiet(&place) {
            Some(head) => Ok(TreeState { head, dirty: false }),
            None => self.look(&place),
        }
    }

    /// Whether anything changed since the commit that the caller was told of last: files, or what is checked out.
    ///
    /// # Errors
    ///
    /// If the tree is not there, or git cannot be run.
    pub fn changed(&self) -> Result<bool, WorkspaceFault> {
        let state = self.state()?;
        Ok(state.dirty || self.known().at.as_ref() != Some(&state.head))
    }

    /// Brings branch and files to a commit. What is beyond it is set aside first; ignored files stay.
    ///
    /// # Errors
    ///
    /// If the commit or the tree is not there, or a repository inside the tree could not be set aside.
    pub fn restore(&self, to: &Sha) -> Result<Vec<Kept>, WorkspaceFault> {
        if self.is_settled(to)? {
            self.known().at = Some(to.clone());
            return Ok(Vec::new());
        }
        let (lock, place) = self.begin("restore")?;
        let repository = &self.repository;
        if !repository.has_commit(to)? {
            return Err(repository.missing(to));
        }
        let kept = self.set_aside(&lock, &place, to, None)?;
        self.move_to(&lock, &place, to, to)?;
        drop(lock);
        self.settle(&place);
        Ok(kept)
    }

    /// Commits all that changed. Commits that somebody else made in the tree count: the branch follows them.
    ///
    /// Gives nothing if nothing changed at all.
    ///
    /// # Errors
    ///
    /// If the tree is not there, holds a repository of its own or a changed submodule, or git fails.
    pub fn commit(&self, message: &Message) -> Result<Option<Sha>, WorkspaceFault> {
        let at = self.known().at.clone();
        if let Some(at) = at
            && self.is_settled(&at)?
        {
            return Ok(None);
        }
        let (lock, place) = self.begin("commit")?;
        let head = self.head(&place)?;
        let tip = self.repository.tip(&self.branch)?;
        let onto = head
            .commit
            .clone()
            .or_else(|| tip.clone())
            .ok_or_else(|| self.no_head())?;
        let files = self.write_tree(&lock, &place, &onto)?;
        let same = files == self.repository.tree_of(&onto)?;
        let new = if same {
            onto
        } else {
            self.repository
                .write_commit(&files, std::slice::from_ref(&onto), &message.to_text())?
        };
        let before = self.known().at.clone().or_else(|| tip.clone());
        self.follow(&lock, &place, &head, tip, &new)?;
        drop(lock);
        self.settle(&place);
        Ok((before.as_ref() != Some(&new)).then_some(new))
    }

    /// Removes the tree. What was not committed is set aside first; the branch stays.
    ///
    /// # Errors
    ///
    /// If a repository inside the tree could not be set aside, or files cannot be removed.
    pub fn remove(&self) -> Result<Vec<Kept>, WorkspaceFault> {
        let lock = self.repository.lock(&format!("remove {}", self.path.display()))?;
        self.repository.unlock_refs(&lock, &self.branch);
        self.known().watch = None;
        let kept = match self.place() {
            Ok(place) => {
                self.heal(&lock, &place)?;
                let tip = self.repository.tip(&self.branch)?;
                let open = self.repository.resolve(&open_ref(&self.branch))?;
                let open = open.map(|open| self.repository.tree_of(&open)).transpose()?;
                let to = tip.or(self.head(&place)?.commit).ok_or_else(|| self.no_head())?;
                self.set_aside(&lock, &place, &to, open.as_ref())?
            }
            Err(WorkspaceFault::TreeMissing { .. }) => Vec::new(),
            Err(other) => return Err(other),
        };
        self.discard(&lock)?;
        *self.known() = Known::default();
        Ok(kept)
    }

    /// Checks an open merge out: branch and HEAD at `clean`, the files those of `open`, which a ref names once they are there.
    ///
    /// # Errors
    ///
    /// If a commit or the tree is not there, or git fails.
    pub fn open_merge(&self, clean: &Sha, open: &Sha) -> Result<(), WorkspaceFault> {
        let (lock, place) = self.begin("open merge")?;
        for sha in [clean, open] {
            if !self.repository.has_commit(sha)? {
                return Err(self.repository.missing(sha));
            }
        }
        let files = self.repository.tree_of(open)?;
        self.set_aside(&lock, &place, clean, Some(&files))?;
        self.move_to(&lock, &place, clean, open)?;
        // Last: whoever finds the name takes the files as they are for the merge.
        self.name_open(&lock, open)
    }

    /// Ends an open merge with the files as they are, if no marker is left in those that conflicted.
    ///
    /// Conflicts without markers, such as a file that one side deleted, are decided by how the file stands now.
    ///
    /// # Errors
    ///
    /// If it is no open merge, the tree is not there, or git fails.
    pub fn finish_merge(&self, open: &Sha, message: &Message) -> Result<Finish, WorkspaceFault> {
        let (lock, place) = self.begin("finish merge")?;
        let repository = &self.repository;
        let note = open::Note::read(repository, open)?;
        let head = self.head(&place)?;
        let tip = repository.tip(&self.branch)?;
        let onto = head
            .commit
            .clone()
            .or_else(|| tip.clone())
            .ok_or_else(|| self.no_head())?;
        let files = self.write_tree(&lock, &place, &onto)?;
        let mut parents = vec![onto.clone()];
        for parent in &note.parents {
            if !repository.is_ancestor(parent, &onto)? {
                parents.push(parent.clone());
            }
        }
        let marked = note.marked(&place.folder);
        if !marked.is_empty() {
            let same = files == repository.tree_of(open)? && note.parents.first() == Some(&onto);
            let now = if same {
                open.clone()
            } else {
                repository.write_commit(&files, &parents, &note.text)?
            };
            repository.keep(&lock, &self.branch, open)?;
            self.name_open(&lock, &now)?;
            self.follow(&lock, &place, &head, tip, &onto)?;
            return Ok(Finish::Unresolved {
                files: marked,
                open: now,
            });
        }
        let new = if parents.len() == 1 && files == repository.tree_of(&onto)? {
            onto
        } else {
            repository.write_commit(&files, &parents, &message.to_text())?
        };
        // A run that goes on from before this merge needs the open one again.
        repository.keep(&lock, &self.branch, open)?;
        self.follow(&lock, &place, &head, tip, &new)?;
        if let Some(there) = repository.resolve(&open_ref(&self.branch))? {
            repository.keep(&lock, &self.branch, &there)?;
            repository.delete_ref(&lock, &open_ref(&self.branch), &there)?;
        }
        drop(lock);
        self.settle(&place);
        Ok(Finish::Merged(new))
    }

    /// Brings branch and files from one commit to another that was made elsewhere, such as a merge.
    ///
    /// # Errors
    ///
    /// If the tree is not at `from`, or has changes, unless it is at `to` already.
    pub fn advance(&self, from: &Sha, to: &Sha) -> Result<(), WorkspaceFault> {
        let (lock, place) = self.begin("advance")?;
        if !self.repository.has_commit(to)? {
            return Err(self.repository.missing(to));
        }
        let state = self.look(&place)?;
        if state.dirty || (state.head != *from && state.head != *to) {
            let detail = if state.dirty {
                "files were changed".to_owned()
            } else {
                format!("it is at {} instead of {}", state.head.short(), from.short())
            };
            return Err(self.moved(&place, detail));
        }
        for old in self.repository.tip(&self.branch)?.into_iter().chain([state.head]) {
            if !self.repository.is_ancestor(&old, to)? {
                self.repository.keep(&lock, &self.branch, &old)?;
            }
        }
        self.move_to(&lock, &place, to, to)?;
        drop(lock);
        self.settle(&place);
        Ok(())
    }
}

/// What the operations share.
impl Tree {
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, and the tree without what a killed operation left in it.
    fn begin(&self, operation: &str) -> Result<(RepositoryLock, Place), WorkspaceFault> {
        let lock = self
            .repository
            .lock(&format!("{operation} {}", self.path.display()))?;
        self.repository.unlock_refs(&lock, &self.branch);
        let place = self.place()?;
        self.heal(&lock, &place)?;
        Ok((lock, place))
    }

    /// Whether branch and files are at a commit for sure, without asking git.
    fn is_settled(&self, at: &Sha) -> Result<bool, WorkspaceFault> {
        let place = self.place()?;
        Ok(!place.is_moving() && self.quiet(&place).as_ref() == Some(at) && self.is_attached(&place))
    }

    /// Names the open merge; one that was open before stays kept.
    fn name_open(&self, lock: &RepositoryLock, open: &Sha) -> Result<(), WorkspaceFault> {
        let name = open_ref(&self.branch);
        let there = self.repository.resolve(&name)?;
        if there.as_ref() == Some(open) {
            return Ok(());
        }
        if let Some(there) = &there {
            self.repository.keep(lock, &self.branch, there)?;
        }
        self.repository.set_ref(lock, &name, open, there.as_ref())
    }

    pub(crate) fn moved(&self, place: &Place, detail: String) -> WorkspaceFault {
        WorkspaceFault::TreeMoved {
            repository: self.repository.name().to_owned(),
            path: place.folder.clone(),
            detail,
        }
    }

    fn no_head(&self) -> WorkspaceFault {
        WorkspaceFault::TreeMoved {
            repository: self.repository.name().to_owned(),
            path: self.path.clone(),
            detail: format!("neither HEAD nor branch `{}` names a commit", self.branch),
        }
    }
}
