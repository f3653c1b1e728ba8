//! The worktrees of the execution paths of one run: preparing, committing and removing them. Everything here blocks on
//! git.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::GitWorkspaceError;
use crate::message::Message;
use crate::repository::Repository;
use crate::sha::Sha;
use crate::snapshot::{Head, SavedHead, SavedHeads};
use crate::tree::{Ensured, Finish, Tree};

/// The id of the main execution path of a run.
pub(crate) const SESSION: &str = "session";

/// A repository of a run.
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) repository: Repository,
    /// The commit from which the run started.
    pub(crate) base: Sha,
    /// The branch of the main path.
    pub(crate) branch: String,
}

impl Slot {
    /// Returns the branch of an execution path. The branches of all paths are siblings, because git cannot create a
    /// branch below another one. Branch names of runs never contain a dot, so the names cannot collide.
    pub(crate) fn branch_of(&self, path: &str) -> String {
        match path {
            SESSION => self.branch.clone(),
            path => format!("{}.{path}", self.branch),
        }
    }
}

/// The execution paths of a run that have worktrees, and their state.
pub(crate) struct RunWorktrees {
    /// The folder of the worktrees of the run.
    pub(crate) folder: PathBuf,
    pub(crate) slots: Vec<Slot>,
    worktrees: Mutex<HashMap<String, Arc<PathWorktrees>>>,
    /// The lock that marks the run as active while this process holds it.
    mark: Mutex<Option<File>>,
}

/// The worktrees of one execution path, one for each repository.
pub(crate) struct PathWorktrees {
    pub(crate) name: String,
    pub(crate) trees: Vec<Tree>,
    state: Mutex<PathState>,
}

/// The state of the worktrees of an execution path as far as this process knows it.
#[derive(Default)]
pub(crate) struct PathState {
    /// The commits that are checked out; `None` until the worktrees were prepared.
    pub(crate) heads: Option<Vec<Head>>,
    /// `true` if the worktrees contain changes that were made between stages.
    has_changes: bool,
}

/// The result of committing.
#[derive(Default)]
pub(crate) struct Committed {
    /// The files that still contain conflict markers.
    pub(crate) left: Vec<String>,
    /// Messages about the repositories whose new commit does not descend from the previous one.
    pub(crate) discarded: Vec<String>,
}

/// The state that the worktrees of a path must have when a stage begins.
pub(crate) struct TargetState {
    /// The commits of the snapshot, or the commits from which the run started; `None` to continue from the present
    /// state.
    pub(crate) heads: Option<Vec<Head>>,
    /// `true` if changes beyond `heads` are set aside.
    pub(crate) starts_over: bool,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PathWorktrees {
    pub(crate) fn state(&self) -> MutexGuard<'_, PathState> {
        lock(&self.state)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.state().heads.is_some()
    }
}

impl RunWorktrees {
    pub(crate) fn new(folder: PathBuf, slots: Vec<Slot>) -> RunWorktrees {
        RunWorktrees {
            folder,
            slots,
            worktrees: Mutex::default(),
            mark: Mutex::default(),
        }
    }

    /// Returns the worktrees of the execution path with this id.
    pub(crate) fn of_path(&self, name: &str) -> Arc<PathWorktrees> {
        let mut worktrees = lock(&self.worktrees);
        let path = worktrees.entry(name.to_owned()).or_insert_with(|| {
            let trees = self.slots.iter().map(|slot| {
                let path = self.folder.join(name).join(&slot.name);
                slot.repository.tree(path, slot.branch_of(name))
            });
            Arc::new(PathWorktrees {
                name: name.to_owned(),
                trees: trees.collect(),
                state: Mutex::default(),
            })
        });
        path.clone()
    }

    /// Returns whether a path has worktrees, created by this process or an earlier one.
    pub(crate) fn has_trees(&self, name: &str) -> bool {
        self.folder.join(name).is_dir()
    }

    /// Returns the commits from which the run started.
    pub(crate) fn bases(&self) -> Vec<Head> {
        self.slots.iter().map(|slot| Head::at(&slot.base)).collect()
    }

    /// Returns the working directory of stages that name no repository: the worktree of the only repository, or the
    /// folder that contains all worktrees of the path.
    pub(crate) fn root(&self, path: &PathWorktrees) -> PathBuf {
        match &path.trees[..] {
            [tree] => tree.root(),
            _ => self.folder.join(&path.name),
        }
    }

    /// Brings the worktrees of a path to the target state.
    pub(crate) fn prepare(
        &self,
        path: &PathWorktrees,
        outer: &[String],
        target: &TargetState,
    ) -> Result<(), GitWorkspaceError> {
        let mut state = path.state();
        match (&state.heads, &target.heads) {
            (Some(_), None) if !target.starts_over => return Ok(()),
            (Some(heads), Some(target_heads)) if !target.starts_over && heads == target_heads => {
                return Ok(());
            }
            _ => {}
        }
        create_hidden(&self.folder)?;
        self.mark()?;
        // Take the mark first: `sweep` removes empty folders of runs that are not active.
        fs::create_dir_all(&self.folder).map_err(|source| GitWorkspaceError::Folder {
            path: self.folder.clone(),
            source,
        })?;
        let mut heads = Vec::with_capacity(self.slots.len());
        let mut has_changes = false;
        for (at, (slot, tree)) in self.slots.iter().zip(&path.trees).enumerate() {
            let head = match &target.heads {
                Some(heads) => heads.get(at).cloned(),
                None => self.present_head(path, outer, at)?,
            };
            let head = head.unwrap_or_else(|| Head::at(&slot.base));
            let (head, is_changed) = self.prepare_tree(slot, tree, &head, target.starts_over)?;
            has_changes |= is_changed;
            heads.push(head);
        }
        *state = PathState {
            heads: Some(heads),
            has_changes,
        };
        Ok(())
    }

    /// Marks the run as active.
    fn mark(&self) -> Result<(), GitWorkspaceError> {
        let mut mark = lock(&self.mark);
        if mark.is_none() {
            let path = mark_of(&self.folder);
            let opened = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path);
            let file = opened.map_err(|source| GitWorkspaceError::Folder { path, source })?;
            // If locking is not supported here, other processes cannot see the mark either.
            let _ = file.try_lock();
            *mark = Some(file);
        }
        Ok(())
    }

    /// Returns the commit of a worktree that is not part of any snapshot: its present commit, or that of the nearest
    /// outer path.
    fn present_head(
        &self,
        path: &PathWorktrees,
        outer: &[String],
        at: usize,
    ) -> Result<Option<Head>, GitWorkspaceError> {
        if self.has_trees(&path.name)
            && let Some(tree) = path.trees.get(at)
            && tree.exists()
        {
            return Ok(Some(Head::at(&tree.state()?.head)));
        }
        let nearest = outer.iter().find(|name| self.has_trees(name));
        match nearest.map(|name| self.of_path(name)) {
            Some(path) => match path.trees.get(at) {
                Some(tree) if tree.exists() => Ok(Some(Head::at(&tree.state()?.head))),
                _ => Ok(None),
            },
            None => Ok(None),
        }
    }

    /// Brings one worktree to the target state. Also returns whether it contains changes that were made between stages.
    fn prepare_tree(
        &self,
        slot: &Slot,
        tree: &Tree,
        target: &Head,
        starts_over: bool,
    ) -> Result<(Head, bool), GitWorkspaceError> {
        if !slot.repository.has_commit(&target.sha)? {
            return Err(slot.repository.missing(&target.sha));
        }
        let ensured = tree.ensure(&target.sha, &slot.base)?;
        let state = tree.state()?;
        let same = state.head == target.sha;
        let beyond = !same && slot.repository.is_ancestor(&target.sha, &state.head)?;
        // Unchanged files contain no open merge, even if a ref names one.
        let underway = ensured == Ensured::Existed && state.dirty;
        let fits = beyond || (same && (target.merging.is_none() || underway));
        if fits && !starts_over {
            let is_changed = beyond || (state.dirty && target.merging.is_none());
            let head = Head {
                sha: state.head,
                ..target.clone()
            };
            return Ok((head, is_changed));
        }
        if !same || state.dirty {
            tree.restore(&target.sha)?;
        }
        if let Some(open) = &target.merging {
            tree.open_merge(&target.sha, open)?;
        }
        Ok((target.clone(), false))
    }

    /// Commits the changes in the worktrees of a path, or finishes the merge that is open in them.
    pub(crate) fn commit(
        &self,
        path: &PathWorktrees,
        message: &Message,
    ) -> Result<Committed, GitWorkspaceError> {
        let mut state = path.state();
        let has_changes = state.has_changes;
        let Some(heads) = &mut state.heads else {
            return Ok(Committed::default());
        };
        let before = heads.clone();
        let mut committed = self.commit_all(path, heads, has_changes, message)?;
        for ((slot, before), now) in self.slots.iter().zip(&before).zip(heads.iter()) {
            if !slot.repository.is_ancestor(&before.sha, &now.sha)? {
                committed.discarded.push(format!(
                    "`{}` was at {} and is at {}, which does not follow from it; what is left out is kept under \
                     refs/orchestra/kept/{}",
                    slot.name,
                    before.sha.short(),
                    now.sha.short(),
                    slot.branch_of(&path.name)
                ));
            }
        }
        state.has_changes = false;
        Ok(committed)
    }

    fn commit_all(
        &self,
        path: &PathWorktrees,
        heads: &mut [Head],
        has_changes: bool,
        message: &Message,
    ) -> Result<Committed, GitWorkspaceError> {
        let trees = || self.slots.iter().zip(&path.trees);
        if heads.iter().any(|head| head.merging.is_some()) {
            let mut left = Vec::new();
            for ((slot, tree), head) in trees().zip(heads.iter()) {
                if let Some(open) = &head.merging {
                    let files = tree.unresolved(open)?;
                    left.extend(files.into_iter().map(|file| format!("{}: {file}", slot.name)));
                }
            }
            // All repositories or none: a resolved repository waits for the others.
            for ((_, tree), head) in trees().zip(heads.iter_mut()) {
                match &head.merging {
                    Some(open) if left.is_empty() => {
                        if let Finish::Merged(sha) = tree.finish_merge(open, message)? {
                            *head = Head::at(&sha);
                        }
                    }
                    // A resolved merge waits in the files; an unresolved one is stored as it is now.
                    Some(open) if !tree.unresolved(open)?.is_empty() => {
                        if let Finish::Unresolved { open, .. } = tree.finish_merge(open, message)? {
                            head.merging = Some(open);
                        }
                    }
                    Some(_) => {}
                    None => {
                        if let Some(sha) = tree.commit(message)? {
                            head.sha = sha;
                        }
                    }
                }
            }
            if left.is_empty() {
                heads.iter_mut().for_each(|head| head.before = None);
            }
            return Ok(Committed {
                left,
                ..Committed::default()
            });
        }
        for ((_, tree), head) in trees().zip(heads.iter_mut()) {
            if (has_changes || tree.changed()?)
                && let Some(sha) = tree.commit(message)?
            {
                head.sha = sha;
            }
        }
        Ok(Committed::default())
    }

    /// Returns the snapshot of a path, which covers all repositories. Returns `None` if the worktrees were not
    /// prepared.
    pub(crate) fn saved(&self, path: &PathWorktrees) -> Option<SavedHeads> {
        let state = path.state();
        let heads = state.heads.as_ref()?;
        let saved = self.slots.iter().zip(heads).map(|(slot, head)| {
            let saved = SavedHead {
                git_sha: head.sha.clone(),
                branch: slot.branch_of(&path.name),
                merging: head.merging.clone(),
                before: head.before.clone(),
            };
            (slot.name.clone(), saved)
        });
        Some(saved.collect())
    }

    /// Removes the worktrees of a path and of the paths below it. Commits uncommitted changes first.
    pub(crate) fn close(&self, name: &str, message: &Message) -> Result<(), GitWorkspaceError> {
        let below = format!("{name}+");
        let mut first = Ok(());
        for name in self.names_on_disk() {
            if name == *below.trim_end_matches('+') || name.starts_with(&below) {
                let closed = self.close_one(&name, message, None);
                first = first.and(closed);
            }
        }
        first
    }

    /// Removes all worktrees of the run.
    pub(crate) fn close_all(
        &self,
        message: &Message,
        last: &str,
        last_heads: Option<&[Head]>,
    ) -> Result<(), GitWorkspaceError> {
        let mut first = Ok(());
        for name in self.names_on_disk() {
            let heads = if name == last { last_heads } else { None };
            let closed = self.close_one(&name, message, heads);
            first = first.and(closed);
        }
        // Fails if the folder contains foreign files, which must stay.
        let _ = fs::remove_dir(&self.folder);
        let _ = fs::remove_file(mark_of(&self.folder));
        for slot in &self.slots {
            let deleted = self.delete_merged_branches(slot);
            first = first.and(deleted);
        }
        first
    }

    /// Removes the worktrees of one path. `last_heads` holds their last known commits, for a process that did not
    /// prepare them.
    fn close_one(
        &self,
        name: &str,
        message: &Message,
        last_heads: Option<&[Head]>,
    ) -> Result<(), GitWorkspaceError> {
        let path = self.of_path(name);
        let mut state = path.state();
        let heads = state
            .heads
            .take()
            .or(last_heads.map(<[Head]>::to_vec))
            .unwrap_or_default();
        let mut first = Ok(());
        let open = self.is_merging(name)?;
        for (at, (slot, tree)) in self.slots.iter().zip(&path.trees).enumerate() {
            if !tree.exists() {
                continue;
            }
            // An unfinished merge is undone in all repositories; its changes are set aside.
            let closed = match heads.get(at).and_then(|head| head.before.as_ref()) {
                Some(before) => tree.restore(before).map(drop),
                None if open => Ok(()),
                None => tree.commit(message).map(drop),
            };
            let closed = closed.and_then(|()| tree.remove().map(drop));
            first = first.and(closed.and_then(|()| slot.repository.end_merge(tree.branch())));
        }
        let _ = fs::remove_dir(self.folder.join(name));
        first
    }

    /// Deletes the branches of paths that are merged into the branch of the main path. The others stay for the user.
    fn delete_merged_branches(&self, slot: &Slot) -> Result<(), GitWorkspaceError> {
        let Some(into) = slot.repository.tip(&slot.branch)? else {
            return Ok(());
        };
        for (branch, tip) in slot.repository.branches_like(&format!("{}.*", slot.branch))? {
            if slot.repository.is_ancestor(&tip, &into)? {
                slot.repository.delete_branch(&branch, &into)?;
            }
        }
        Ok(())
    }

    /// Returns the ids of the paths that have worktrees on disk, inner paths first.
    fn names_on_disk(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_by_key(|name| (std::cmp::Reverse(name.len()), name.clone()));
        names
    }
}

/// Returns the path of the lock file of an active run, which is a sibling of the folder of its worktrees.
fn mark_of(folder: &Path) -> PathBuf {
    folder.with_added_extension("lock")
}

/// Returns whether a process is executing a run.
pub(crate) fn is_open(worktrees: &Path, run: &str) -> bool {
    let file = File::open(mark_of(&worktrees.join(run)));
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Removes the marks and the empty folders of runs that have no worktrees any more. A process that was suspended
/// creates both again if it resumes after the end of the run.
pub(crate) fn remove_stale_marks(worktrees: &Path) {
    for entry in fs::read_dir(worktrees).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(run) = name.and_then(|name| name.strip_suffix(".lock")) else {
            continue;
        };
        if is_open(worktrees, run) {
            continue;
        }
        let folder = worktrees.join(run);
        // Fails if the folder is not empty.
        let _ = fs::remove_dir(&folder);
        if !folder.exists() {
            let _ = fs::remove_file(path);
        }
    }
}

/// Creates the parent of the folder of a run's worktrees, and adds a `.gitignore` so that the worktrees do not show up
/// in the `git status` of a user's worktree that contains them.
fn create_hidden(folder: &Path) -> Result<(), GitWorkspaceError> {
    let error = |path: &Path| {
        let path = path.to_owned();
        move |source| GitWorkspaceError::Folder { path, source }
    };
    let Some(worktrees) = folder.parent() else {
        return Ok(());
    };
    fs::create_dir_all(worktrees).map_err(error(worktrees))?;
    let hidden = match worktrees.parent() {
        Some(parent) if parent.file_name().is_some_and(|name| name == ".orchestra") => parent,
        _ => worktrees,
    };
    let ignore = hidden.join(".gitignore");
    if !ignore.exists() {
        fs::write(&ignore, "*\n").map_err(error(&ignore))?;
    }
    Ok(())
}
