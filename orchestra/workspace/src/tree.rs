//! A worktree of a run, on its own branch.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::GitWorkspaceError;
use crate::location::WorktreeLocation;
use crate::lock::RepositoryLock;
use crate::message::Message;
use crate::open;
use crate::ref_names::{base_ref, head_ref, open_ref};
use crate::repository::Repository;
use crate::sha::Sha;
use crate::watch::Watch;

/// A worktree of a run and the branch that it is on.
///
/// Each operation takes the lock of the repository. It may be killed at any moment; the next operation continues from
/// the state that it finds.
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
/// assert_eq!(tree.ensure(&base, &base).unwrap(), Ensured::Created);
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
    cache: Mutex<TreeCache>,
}

/// The cached state of a handle.
#[derive(Debug, Default)]
pub(crate) struct TreeCache {
    /// The last commit that was returned to the caller.
    pub(crate) at: Option<Sha>,
    /// The commit that the files were equal to when they were last compared.
    pub(crate) clean_commit: Option<Sha>,
    pub(crate) watch: Option<Watch>,
    pub(crate) location: Option<WorktreeLocation>,
}

/// The result of [`Tree::ensure`]: the worktree was created, or existed.
///
/// ```
/// use orchestra_workspace::Ensured;
/// assert_ne!(Ensured::Created, Ensured::Existed);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ensured {
    /// The worktree was created. Its files are those of its branch.
    Created,
    /// The worktree existed, possibly with changes.
    Existed,
}

/// The state of a worktree.
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
    /// `true` if files that git does not ignore differ from the commit.
    pub dirty: bool,
}

/// Work that was set aside.
///
/// ```
/// use orchestra_workspace::SetAside;
/// let commit = "89e6c98d92887913cadf06b2adb97f26cde4849b".parse().unwrap();
/// let work = SetAside { reference: "refs/orchestra/kept/poem/a1b2c3/89e6c98d9288".into(), commit, files: true };
/// assert!(work.files);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// The ref that names the work from now on.
    pub reference: String,
    /// The commit.
    pub commit: Sha,
    /// `true` if the commit holds uncommitted files; `false` if the work was committed already.
    pub files: bool,
}

/// The result of finishing an open merge.
///
/// ```
/// use orchestra_workspace::Finish;
/// let open = "89e6c98d92887913cadf06b2adb97f26cde4849b".parse().unwrap();
/// let finish = Finish::Unresolved { files: vec!["poem.txt".into()], open };
/// assert!(matches!(finish, Finish::Unresolved { files, .. } if files == ["poem.txt"]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// No conflict marker is left; this is the merge commit.
    Merged(Sha),
    /// Conflict markers are left.
    Unresolved {
        /// The files that contain them.
        files: Vec<String>,
        /// The open merge with the files as they are now.
        open: Sha,
    },
}

impl Repository {
    /// Returns a handle of a worktree of a run at a path, on its own branch. Creates nothing yet.
    pub fn tree(&self, path: PathBuf, branch: String) -> Tree {
        Tree::new(self.clone(), path, branch)
    }
}

impl Tree {
    fn new(repository: Repository, path: PathBuf, branch: String) -> Tree {
        Tree {
            repository,
            path,
            branch,
            cache: Mutex::new(TreeCache::default()),
        }
    }

    /// Returns the folder that corresponds to the repository's own folder: the worktree joined with the prefix.
    pub fn root(&self) -> PathBuf {
        self.path.join(self.repository.prefix())
    }

    /// Returns the top folder of the worktree.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Returns the branch of the worktree.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// Returns the repository of the worktree.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Creates the branch at `at` if it does not exist, and the worktree. Repairs whatever a killed process or a person
    /// left.
    ///
    /// # Errors
    ///
    /// Returns an error if a branch of that name exists that no run made, if a commit does not exist, or if the
    /// repository is not writable.
    pub fn ensure(&self, at: &Sha, base: &Sha) -> Result<Ensured, GitWorkspaceError> {
        let repository = &self.repository;
        let lock = repository.lock(&format!("ensure {}", self.path.display()))?;
        repository.unlock_refs(&lock, &self.branch);
        let tip = self.ensure_branch(&lock, at, base)?;
        let ensured = self.ensure_folder(&lock, &tip)?;
        let location = self.location()?;
        self.recover(&lock, &location)?;
        let root = self.root();
        fs::create_dir_all(&root)
            .map_err(|source| GitWorkspaceError::io(repository.name(), &root, source))?;
        self.cache().at = Some(at.clone());
        drop(lock);
        match ensured {
            Ensured::Created => self.init_cache(&location),
            Ensured::Existed => self.refresh_cache(&location),
        }
        Ok(ensured)
    }

    /// Returns the tip of the branch. Creates the branch if it does not exist.
    fn ensure_branch(&self, lock: &RepositoryLock, at: &Sha, base: &Sha) -> Result<Sha, GitWorkspaceError> {
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
                // Write the mark first: a branch without it counts as the user's.
                if mark.as_ref() != Some(base) {
                    repository.set_ref(lock, &base_ref(&self.branch), base, mark.as_ref())?;
                }
                match repository.set_ref(lock, &head_ref(&self.branch), at, None) {
                    Err(GitWorkspaceError::Command { stderr, .. }) => {
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

    fn taken(&self, detail: &str) -> GitWorkspaceError {
        GitWorkspaceError::BranchTaken {
            repository: self.repository.name().to_owned(),
            branch: self.branch.clone(),
            detail: detail.to_owned(),
        }
    }

    /// Returns the state of the worktree. Does not run git if the watch reports no change since the last call.
    ///
    /// # Errors
    ///
    /// Returns an error if the worktree does not exist, or if git cannot be run.
    pub fn state(&self) -> Result<TreeState, GitWorkspaceError> {
        let location = self.location()?;
        if location.is_moving() {
            let (lock, location) = self.begin("state")?;
            drop(lock);
            return self.query_state(&location);
        }
        match self.unchanged_head(&location) {
            Some(head) => Ok(TreeState { head, dirty: false }),
            None => self.query_state(&location),
        }
    }

    /// Returns whether the files or the checked-out commit changed since the last commit that was returned to the
    /// caller.
    ///
    /// # Errors
    ///
    /// Returns an error if the worktree does not exist, or if git cannot be run.
    pub fn changed(&self) -> Result<bool, GitWorkspaceError> {
        let state = self.state()?;
        Ok(state.dirty || self.cache().at.as_ref() != Some(&state.head))
    }

    /// Moves branch and files to a commit. Work beyond it is set aside first; ignored files stay.
    ///
    /// # Errors
    ///
    /// Returns an error if the commit or the worktree does not exist, or if a nested repository cannot be set aside.
    pub fn restore(&self, to: &Sha) -> Result<Vec<SetAside>, GitWorkspaceError> {
        if self.is_certainly_at(to)? {
            self.cache().at = Some(to.clone());
            return Ok(Vec::new());
        }
        let (lock, location) = self.begin("restore")?;
        let repository = &self.repository;
        if !repository.has_commit(to)? {
            return Err(repository.missing(to));
        }
        let set_aside = self.set_aside(&lock, &location, to, None)?;
        self.move_to(&lock, &location, to, to)?;
        drop(lock);
        self.refresh_cache(&location);
        Ok(set_aside)
    }

    /// Commits all changes. The branch also follows commits that others made in the worktree.
    ///
    /// Returns `None` if nothing changed.
    ///
    /// # Errors
    ///
    /// Returns an error if the worktree does not exist, contains a nested repository or a changed submodule, or if git
    /// fails.
    pub fn commit(&self, message: &Message) -> Result<Option<Sha>, GitWorkspaceError> {
        let at = self.cache().at.clone();
        if let Some(at) = at
            && self.is_certainly_at(&at)?
        {
            return Ok(None);
        }
        let (lock, location) = self.begin("commit")?;
        let head = self.head(&location)?;
        let tip = self.repository.tip(&self.branch)?;
        let onto = head
            .commit
            .clone()
            .or_else(|| tip.clone())
            .ok_or_else(|| self.no_head())?;
        let files = self.write_tree(&lock, &location, &onto)?;
        let same = files == self.repository.tree_of(&onto)?;
        let new = if same {
            onto
        } else {
            self.repository
                .write_commit(&files, std::slice::from_ref(&onto), &message.to_text())?
        };
        let before = self.cache().at.clone().or_else(|| tip.clone());
        self.follow(&lock, &location, &head, tip, &new)?;
        drop(lock);
        self.refresh_cache(&location);
        Ok((before.as_ref() != Some(&new)).then_some(new))
    }

    /// Removes the worktree. Uncommitted work is set aside first; the branch stays.
    ///
    /// # Errors
    ///
    /// Returns an error if a nested repository cannot be set aside, or if files cannot be removed.
    pub fn remove(&self) -> Result<Vec<SetAside>, GitWorkspaceError> {
        let lock = self.repository.lock(&format!("remove {}", self.path.display()))?;
        self.repository.unlock_refs(&lock, &self.branch);
        self.cache().watch = None;
        let set_aside = match self.location() {
            Ok(location) => {
                self.recover(&lock, &location)?;
                let tip = self.repository.tip(&self.branch)?;
                let open = self.repository.resolve(&open_ref(&self.branch))?;
                let open = open.map(|open| self.repository.tree_of(&open)).transpose()?;
                let to = tip
                    .or(self.head(&location)?.commit)
                    .ok_or_else(|| self.no_head())?;
                self.set_aside(&lock, &location, &to, open.as_ref())?
            }
            Err(GitWorkspaceError::TreeMissing { .. }) => Vec::new(),
            Err(other) => return Err(other),
        };
        self.discard(&lock)?;
        *self.cache() = TreeCache::default();
        Ok(set_aside)
    }

    /// Checks out an open merge: branch and HEAD at `clean`, the files of `open`. A ref names the open merge once its
    /// files are checked out.
    ///
    /// # Errors
    ///
    /// Returns an error if a commit or the worktree does not exist, or if git fails.
    pub fn open_merge(&self, clean: &Sha, open: &Sha) -> Result<(), GitWorkspaceError> {
        let (lock, location) = self.begin("open merge")?;
        for sha in [clean, open] {
            if !self.repository.has_commit(sha)? {
                return Err(self.repository.missing(sha));
            }
        }
        let files = self.repository.tree_of(open)?;
        self.set_aside(&lock, &location, clean, Some(&files))?;
        self.move_to(&lock, &location, clean, open)?;
        // Create the ref last: whoever finds it takes the present files for the merge.
        self.name_open(&lock, open)
    }

    /// Finishes an open merge with the present files, if no marker is left in the files that conflicted.
    ///
    /// Conflicts without markers, such as a file that one side deleted, are resolved by the present state of the file.
    ///
    /// # Errors
    ///
    /// Returns an error if `open` is not an open merge, if the worktree does not exist, or if git fails.
    pub fn finish_merge(&self, open: &Sha, message: &Message) -> Result<Finish, GitWorkspaceError> {
        let (lock, location) = self.begin("finish merge")?;
        let repository = &self.repository;
        let merge = open::OpenMerge::read(repository, open)?;
        let head = self.head(&location)?;
        let tip = repository.tip(&self.branch)?;
        let onto = head
            .commit
            .clone()
            .or_else(|| tip.clone())
            .ok_or_else(|| self.no_head())?;
        let files = self.write_tree(&lock, &location, &onto)?;
        let mut parents = vec![onto.clone()];
        for parent in &merge.parents {
            if !repository.is_ancestor(parent, &onto)? {
                parents.push(parent.clone());
            }
        }
        let marked = merge.marked(&location.folder);
        if !marked.is_empty() {
            let same = files == repository.tree_of(open)? && merge.parents.first() == Some(&onto);
            let now = if same {
                open.clone()
            } else {
                repository.write_commit(&files, &parents, &merge.text)?
            };
            repository.keep(&lock, &self.branch, open)?;
            self.name_open(&lock, &now)?;
            self.follow(&lock, &location, &head, tip, &onto)?;
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
        // A run that is resumed from before this merge needs the open merge again.
        repository.keep(&lock, &self.branch, open)?;
        self.follow(&lock, &location, &head, tip, &new)?;
        if let Some(there) = repository.resolve(&open_ref(&self.branch))? {
            repository.keep(&lock, &self.branch, &there)?;
            repository.delete_ref(&lock, &open_ref(&self.branch), &there)?;
        }
        drop(lock);
        self.refresh_cache(&location);
        Ok(Finish::Merged(new))
    }

    /// Moves branch and files from one commit to another that was created elsewhere, such as a merge.
    ///
    /// # Errors
    ///
    /// Returns an error if the worktree is not at `from`, or has changes, unless it is at `to` already.
    pub fn advance(&self, from: &Sha, to: &Sha) -> Result<(), GitWorkspaceError> {
        let (lock, location) = self.begin("advance")?;
        if !self.repository.has_commit(to)? {
            return Err(self.repository.missing(to));
        }
        let state = self.query_state(&location)?;
        if state.dirty || (state.head != *from && state.head != *to) {
            let detail = if state.dirty {
                "files were changed".to_owned()
            } else {
                format!("it is at {} instead of {}", state.head.short(), from.short())
            };
            return Err(self.moved(&location, detail));
        }
        for old in self.repository.tip(&self.branch)?.into_iter().chain([state.head]) {
            if !self.repository.is_ancestor(&old, to)? {
                self.repository.keep(&lock, &self.branch, &old)?;
            }
        }
        self.move_to(&lock, &location, to, to)?;
        drop(lock);
        self.refresh_cache(&location);
        Ok(())
    }
}

/// Helpers that the operations share.
impl Tree {
    pub(crate) fn cache(&self) -> MutexGuard<'_, TreeCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock and completes killed operations in the worktree.
    fn begin(&self, operation: &str) -> Result<(RepositoryLock, WorktreeLocation), GitWorkspaceError> {
        let lock = self
            .repository
            .lock(&format!("{operation} {}", self.path.display()))?;
        self.repository.unlock_refs(&lock, &self.branch);
        let location = self.location()?;
        self.recover(&lock, &location)?;
        Ok((lock, location))
    }

    /// Returns whether branch and files are certainly at a commit, without running git.
    fn is_certainly_at(&self, at: &Sha) -> Result<bool, GitWorkspaceError> {
        let location = self.location()?;
        Ok(!location.is_moving()
            && self.unchanged_head(&location).as_ref() == Some(at)
            && self.is_attached(&location))
    }

    /// Creates the ref of the open merge. A merge that was open before gets another ref.
    fn name_open(&self, lock: &RepositoryLock, open: &Sha) -> Result<(), GitWorkspaceError> {
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

    pub(crate) fn moved(&self, location: &WorktreeLocation, detail: String) -> GitWorkspaceError {
        GitWorkspaceError::TreeMoved {
            repository: self.repository.name().to_owned(),
            path: location.folder.clone(),
            detail,
        }
    }

    fn no_head(&self) -> GitWorkspaceError {
        GitWorkspaceError::TreeMoved {
            repository: self.repository.name().to_owned(),
            path: self.path.clone(),
            detail: format!("neither HEAD nor branch `{}` names a commit", self.branch),
        }
    }
}
