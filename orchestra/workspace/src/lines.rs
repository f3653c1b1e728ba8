//! The trees of the lines of one run: brought to where they are to stand, committed, taken away. All of it waits for git.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fault::WorkspaceFault;
use crate::message::Message;
use crate::repository::{Repository, Sha};
use crate::snapshot::{Head, SavedHead, SavedHeads};
use crate::tree::{Ensured, Finish, Tree};

/// The main line of a run.
pub(crate) const SESSION: &str = "session";

/// A repository of a run.
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) repository: Repository,
    /// The commit from which the run began.
    pub(crate) base: Sha,
    /// The branch of the main line.
    pub(crate) branch: String,
}

impl Slot {
    /// The branch of a line. That of the main line and those of others stand beside each other: git cannot have one
    /// below the other. No name of a run's branches holds a dot.
    pub(crate) fn branch_of(&self, line: &str) -> String {
        match line {
            SESSION => self.branch.clone(),
            line => format!("{}.{line}", self.branch),
        }
    }
}

/// The lines of a run that have trees, and what is known of them.
pub(crate) struct Lines {
    /// The folder of the run's trees.
    pub(crate) folder: PathBuf,
    pub(crate) slots: Vec<Slot>,
    lines: Mutex<HashMap<String, Arc<Line>>>,
    /// Says to others that the run is under way, for as long as this process holds it.
    mark: Mutex<Option<File>>,
}

/// A line with a tree in each repository.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) trees: Vec<Tree>,
    known: Mutex<Known>,
}

/// What this process knows of a line's trees.
#[derive(Default)]
pub(crate) struct Known {
    /// Where they stand; nothing before they were looked at.
    pub(crate) heads: Option<Vec<Head>>,
    /// Whether they hold what somebody did between stages.
    unsettled: bool,
}

/// What came of committing.
#[derive(Default)]
pub(crate) struct Committed {
    /// The files in which conflict markers are left.
    pub(crate) left: Vec<String>,
    /// The repositories that stand at a commit which does not follow from the one before, in words.
    pub(crate) turned_back: Vec<String>,
}

/// Where a line is to stand when a stage begins.
pub(crate) struct Wanted {
    /// Its snapshot, or the commits from which the run began; nothing where it goes on as it is.
    pub(crate) heads: Option<Vec<Head>>,
    /// Whether what is there beyond that does not count.
    pub(crate) starts_over: bool,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Line {
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.known().heads.is_some()
    }
}

impl Lines {
    pub(crate) fn new(folder: PathBuf, slots: Vec<Slot>) -> Lines {
        Lines {
            folder,
            slots,
            lines: Mutex::default(),
            mark: Mutex::default(),
        }
    }

    /// The line of a name.
    pub(crate) fn line(&self, name: &str) -> Arc<Line> {
        let mut lines = lock(&self.lines);
        let line = lines.entry(name.to_owned()).or_insert_with(|| {
            let trees = self.slots.iter().map(|slot| {
                let path = self.folder.join(name).join(&slot.name);
                slot.repository.tree(path, slot.branch_of(name))
            });
            Arc::new(Line {
                name: name.to_owned(),
                trees: trees.collect(),
                known: Mutex::default(),
            })
        });
        line.clone()
    }

    /// Whether a line has trees, from this process or an earlier one.
    pub(crate) fn has_trees(&self, name: &str) -> bool {
        self.folder.join(name).is_dir()
    }

    /// The commits from which the run began.
    pub(crate) fn bases(&self) -> Vec<Head> {
        self.slots.iter().map(|slot| Head::at(&slot.base)).collect()
    }

    /// The folder in which stages of a line work that name no repository: that of the only one, or what holds all.
    pub(crate) fn root(&self, line: &Line) -> PathBuf {
        match &line.trees[..] {
            [tree] => tree.root(),
            _ => self.folder.join(&line.name),
        }
    }

    /// Brings the trees of a line to where they are to stand.
    pub(crate) fn prepare(
        &self,
        line: &Line,
        around: &[String],
        wanted: &Wanted,
    ) -> Result<(), WorkspaceFault> {
        let mut known = line.known();
        match (&known.heads, &wanted.heads) {
            (Some(_), None) if !wanted.starts_over => return Ok(()),
            (Some(heads), Some(wanted_heads)) if !wanted.starts_over && heads == wanted_heads => {
                return Ok(());
            }
            _ => {}
        }
        hide(&self.folder)?;
        self.mark()?;
        // Behind the mark, since an empty folder of a run that is not under way is removed.
        fs::create_dir_all(&self.folder).map_err(|source| WorkspaceFault::Folder {
            path: self.folder.clone(),
            source,
        })?;
        let mut heads = Vec::with_capacity(self.slots.len());
        let mut unsettled = false;
        for (at, (slot, tree)) in self.slots.iter().zip(&line.trees).enumerate() {
            let head = match &wanted.heads {
                Some(heads) => heads.get(at).cloned(),
                None => self.present(line, around, at)?,
            };
            let head = head.unwrap_or_else(|| Head::at(&slot.base));
            let (head, foreign) = self.bring(slot, tree, &head, wanted)?;
            unsettled |= foreign;
            heads.push(head);
        }
        *known = Known {
            heads: Some(heads),
            unsettled,
        };
        Ok(())
    }

    /// Says that the run is under way.
    fn mark(&self) -> Result<(), WorkspaceFault> {
        let mut mark = lock(&self.mark);
        if mark.is_none() {
            let path = mark_of(&self.folder);
            let opened = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path);
            let file = opened.map_err(|source| WorkspaceFault::Folder { path, source })?;
            // Where nobody can lock, nobody can be told either.
            let _ = file.try_lock();
            *mark = Some(file);
        }
        Ok(())
    }

    /// Where a tree stands that no snapshot speaks of: as it is, or as that of the nearest line around it.
    fn present(&self, line: &Line, around: &[String], at: usize) -> Result<Option<Head>, WorkspaceFault> {
        if self.has_trees(&line.name)
            && let Some(tree) = line.trees.get(at)
            && tree.exists()
        {
            return Ok(Some(Head::at(&tree.state()?.head)));
        }
        let nearest = around.iter().find(|name| self.has_trees(name));
        match nearest.map(|name| self.line(name)) {
            Some(line) => match line.trees.get(at) {
                Some(tree) if tree.exists() => Ok(Some(Head::at(&tree.state()?.head))),
                _ => Ok(None),
            },
            None => Ok(None),
        }
    }

    /// Brings one tree to where it is to stand; says whether it holds what somebody did between stages.
    fn bring(
        &self,
        slot: &Slot,
        tree: &Tree,
        wanted: &Head,
        how: &Wanted,
    ) -> Result<(Head, bool), WorkspaceFault> {
        if !slot.repository.has_commit(&wanted.sha)? {
            return Err(slot.repository.missing(&wanted.sha));
        }
        let ensured = tree.ensure(&wanted.sha, &slot.base)?;
        let state = tree.state()?;
        let same = state.head == wanted.sha;
        let beyond = !same && slot.repository.is_ancestor(&wanted.sha, &state.head)?;
        // Files without a change hold no merge, whatever a ref says.
        let underway = ensured == Ensured::WasThere && state.dirty;
        let fits = beyond || (same && (wanted.merging.is_none() || underway));
        if fits && !how.starts_over {
            let foreign = beyond || (state.dirty && wanted.merging.is_none());
            let head = Head {
                sha: state.head,
                ..wanted.clone()
            };
            return Ok((head, foreign));
        }
        if !same || state.dirty {
            tree.restore(&wanted.sha)?;
        }
        if let Some(open) = &wanted.merging {
            tree.open_merge(&wanted.sha, open)?;
        }
        Ok((wanted.clone(), false))
    }

    /// Commits what was changed in the trees of a line, or finishes the merge that is open in them.
    pub(crate) fn commit(&self, line: &Line, message: &Message) -> Result<Committed, WorkspaceFault> {
        let mut known = line.known();
        let unsettled = known.unsettled;
        let Some(heads) = &mut known.heads else {
            return Ok(Committed::default());
        };
        let before = heads.clone();
        let mut committed = self.commit_all(line, heads, unsettled, message)?;
        for ((slot, before), now) in self.slots.iter().zip(&before).zip(heads.iter()) {
            if !slot.repository.is_ancestor(&before.sha, &now.sha)? {
                committed.turned_back.push(format!(
                    "`{}` was at {} and is at {}, which does not follow from it; what is left out is kept under \
                     refs/orchestra/kept/{}",
                    slot.name,
                    before.sha.short(),
                    now.sha.short(),
                    slot.branch_of(&line.name)
                ));
            }
        }
        known.unsettled = false;
        Ok(committed)
    }

    fn commit_all(
        &self,
        line: &Line,
        heads: &mut [Head],
        unsettled: bool,
        message: &Message,
    ) -> Result<Committed, WorkspaceFault> {
        let trees = || self.slots.iter().zip(&line.trees);
        if heads.iter().any(|head| head.merging.is_some()) {
            let mut left = Vec::new();
            for ((slot, tree), head) in trees().zip(heads.iter()) {
                if let Some(open) = &head.merging {
                    let files = tree.unresolved(open)?;
                    left.extend(files.into_iter().map(|file| format!("{}: {file}", slot.name)));
                }
            }
            // All repositories or none: one that is resolved waits for the others.
            for ((_, tree), head) in trees().zip(heads.iter_mut()) {
                match &head.merging {
                    Some(open) if left.is_empty() => {
                        if let Finish::Merged(sha) = tree.finish_merge(open, message)? {
                            *head = Head::at(&sha);
                        }
                    }
                    // What is resolved here waits in the files; what is not is kept as it is now.
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
            if (unsettled || tree.changed()?)
                && let Some(sha) = tree.commit(message)?
            {
                head.sha = sha;
            }
        }
        Ok(Committed::default())
    }

    /// Where a line stands, to be kept with it; it names all repositories.
    pub(crate) fn saved(&self, line: &Line) -> Option<SavedHeads> {
        let known = line.known();
        let heads = known.heads.as_ref()?;
        let saved = self.slots.iter().zip(heads).map(|(slot, head)| {
            let saved = SavedHead {
                git_sha: head.sha.clone(),
                branch: slot.branch_of(&line.name),
                merging: head.merging.clone(),
                before: head.before.clone(),
            };
            (slot.name.clone(), saved)
        });
        Some(saved.collect())
    }

    /// Takes away the trees of a line and of those below it; what was not committed is committed first.
    pub(crate) fn close(&self, name: &str, message: &Message) -> Result<(), WorkspaceFault> {
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

    /// Takes away all trees of the run.
    pub(crate) fn close_all(
        &self,
        message: &Message,
        last: &str,
        stood: Option<&[Head]>,
    ) -> Result<(), WorkspaceFault> {
        let mut first = Ok(());
        for name in self.names_on_disk() {
            let stood = stood.filter(|_| name == last);
            let closed = self.close_one(&name, message, stood);
            first = first.and(closed);
        }
        // It is empty, unless something in it is not ours.
        let _ = fs::remove_dir(&self.folder);
        let _ = fs::remove_file(mark_of(&self.folder));
        for slot in &self.slots {
            let forgotten = self.forget_branches(slot);
            first = first.and(forgotten);
        }
        first
    }

    /// `stood` says where its trees stood last, for a process that did not look at them.
    fn close_one(&self, name: &str, message: &Message, stood: Option<&[Head]>) -> Result<(), WorkspaceFault> {
        let line = self.line(name);
        let mut known = line.known();
        let heads = known
            .heads
            .take()
            .or(stood.map(<[Head]>::to_vec))
            .unwrap_or_default();
        let mut first = Ok(());
        let open = self.is_merging(name)?;
        for (at, (slot, tree)) in self.slots.iter().zip(&line.trees).enumerate() {
            if !tree.exists() {
                continue;
            }
            // A merge that nobody finished is taken back in all repositories; what was done to it is set aside.
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

    /// Deletes the branches of lines that are merged into that of the main line; the others stay for the user.
    fn forget_branches(&self, slot: &Slot) -> Result<(), WorkspaceFault> {
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

    /// The lines that have trees on the disk, those within others first.
    fn names_on_disk(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_by_key(|name| (std::cmp::Reverse(name.len()), name.clone()));
        names
    }
}

/// The file that a run holds while it is under way, beside the folder of its trees.
fn mark_of(folder: &Path) -> PathBuf {
    folder.with_added_extension("lock")
}

/// Whether a process has a run under way.
pub(crate) fn is_open(worktrees: &Path, run: &str) -> bool {
    let file = File::open(mark_of(&worktrees.join(run)));
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Removes the marks of runs that have no trees any more, with their empty folders: a process that was frozen makes both
/// anew when it goes on behind the end of the run.
pub(crate) fn forget_marks(worktrees: &Path) {
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
        // One that holds something stays.
        let _ = fs::remove_dir(&folder);
        if !folder.exists() {
            let _ = fs::remove_file(path);
        }
    }
}

/// Makes the folder around that of a run's trees, and keeps the trees out of what git tells the user of their own work tree,
/// in case they lie in it.
fn hide(folder: &Path) -> Result<(), WorkspaceFault> {
    let fault = |path: &Path| {
        let path = path.to_owned();
        move |source| WorkspaceFault::Folder { path, source }
    };
    let Some(worktrees) = folder.parent() else {
        return Ok(());
    };
    fs::create_dir_all(worktrees).map_err(fault(worktrees))?;
    let ours = match worktrees.parent() {
        Some(around) if around.file_name().is_some_and(|name| name == ".orchestra") => around,
        _ => worktrees,
    };
    let ignore = ours.join(".gitignore");
    if !ignore.exists() {
        fs::write(&ignore, "*\n").map_err(fault(&ignore))?;
    }
    Ok(())
}
