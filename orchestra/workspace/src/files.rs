//! The content of a worktree: its HEAD, its files as git objects, and operations that move both.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::GitWorkspaceError;
use crate::git_path::os_path;
use crate::location::WorktreeLocation;
use crate::lock::RepositoryLock;
use crate::ref_names::head_ref;
use crate::sha::Sha;
use crate::tree::{SetAside, Tree, TreeState};
use crate::watch::Watch;

/// Time limit of commands that read or write all files.
const ALL_FILES_TIMEOUT: Duration = Duration::from_secs(600);

/// The files beside HEAD that belong to a merge, rebase, cherry-pick, revert or bisection in progress.
const OPERATIONS: &[&str] = &[
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "MERGE_RR",
    "AUTO_MERGE",
    "SQUASH_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "MERGE_AUTOSTASH",
    "BISECT_LOG",
    "BISECT_START",
    "BISECT_NAMES",
    "BISECT_TERMS",
    "BISECT_EXPECTED_REV",
    "sequencer",
    "rebase-merge",
    "rebase-apply",
];

/// The branch and commit of HEAD.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// The full name of the branch; `None` if HEAD is detached.
    pub(crate) branch: Option<String>,
    /// The commit; `None` if the branch has no commit.
    pub(crate) commit: Option<Sha>,
}

impl Tree {
    /// Reads HEAD, from git's files if possible, otherwise by running git.
    pub(crate) fn head(&self, location: &WorktreeLocation) -> Result<Head, GitWorkspaceError> {
        if let Some((branch, commit)) = self.quick_head(location) {
            return Ok(Head {
                branch,
                commit: Some(commit),
            });
        }
        let repository = self.repository();
        let name = repository.try_run(&location.command().args(["symbolic-ref", "--quiet", "HEAD"]))?;
        let text = String::from_utf8_lossy(&name.stdout).trim().to_owned();
        let branch = (name.status == 0).then_some(text);
        let commit = repository.try_run(&location.command().args([
            "rev-parse",
            "--verify",
            "--quiet",
            "HEAD^{commit}",
        ]))?;
        let commit = match commit.status {
            0 => String::from_utf8_lossy(&commit.stdout).trim().parse().ok(),
            _ => None,
        };
        Ok(Head { branch, commit })
    }

    /// Reads HEAD without running git. Works if the branch is a loose ref in the usual format.
    fn quick_head(&self, location: &WorktreeLocation) -> Option<(Option<String>, Sha)> {
        let text = fs::read_to_string(location.entry.join("HEAD")).ok()?;
        match text.trim_end().strip_prefix("ref: ") {
            Some(name) => {
                let commit = fs::read_to_string(self.repository().common().join(name)).ok()?;
                Some((Some(name.to_owned()), commit.trim_end().parse().ok()?))
            }
            None => Some((None, text.trim_end().parse().ok()?)),
        }
    }

    /// Returns whether HEAD is attached to the branch of the worktree.
    pub(crate) fn is_attached(&self, location: &WorktreeLocation) -> bool {
        self.head(location)
            .is_ok_and(|head| head.branch == Some(head_ref(self.branch())))
    }

    /// Returns the checked-out commit if the watch is certain that no file differs from it.
    pub(crate) fn unchanged_head(&self, location: &WorktreeLocation) -> Option<Sha> {
        let (_, head) = self.quick_head(location)?;
        let mut cache = self.cache();
        if cache.clean_commit.as_ref() != Some(&head) {
            return None;
        }
        if cache.watch.as_mut().is_some_and(Watch::is_quiet) {
            return Some(head);
        }
        cache.clean_commit = None;
        None
    }

    /// Determines the state of the worktree with git. The watch starts first: it sees the later changes, and git sees
    /// the earlier ones.
    pub(crate) fn query_state(&self, location: &WorktreeLocation) -> Result<TreeState, GitWorkspaceError> {
        let repository = self.repository();
        self.cache().clean_commit = None;
        let list = [
            "ls-files",
            "-z",
            "--others",
            "--ignored",
            "--exclude-standard",
            "--directory",
        ];
        let ignored = repository.run(&location.command().args(list).timeout(ALL_FILES_TIMEOUT))?;
        let folders = ignored
            .split(|byte| *byte == 0)
            .filter_map(|path| path.strip_suffix(b"/"));
        let folders = folders.map(|path| location.folder.join(os_path(path))).collect();
        {
            let mut cache = self.cache();
            let watch = cache.watch.take().or_else(|| Watch::start(&location.folder));
            cache.watch = watch.and_then(|watch| watch.cover(&location.folder, &folders));
        }
        let dirty = !self.status(location)?.is_empty() || self.filled_submodule(location)?.is_some();
        let head = self.head(location)?.commit;
        let head = head.ok_or_else(|| self.moved(location, "HEAD names no commit".to_owned()))?;
        if !dirty {
            self.cache().clean_commit = Some(head.clone());
        }
        Ok(TreeState { head, dirty })
    }

    /// Updates the cache so that the next query needs no git command. Ignores errors, which the next query will
    /// report.
    pub(crate) fn refresh_cache(&self, location: &WorktreeLocation) {
        let _ = self.query_state(location);
    }

    /// Does the same for a worktree that was just created: all its files were written by git, and none is ignored.
    pub(crate) fn init_cache(&self, location: &WorktreeLocation) {
        let head = self.quick_head(location).map(|(_, head)| head);
        let watch = Watch::start(&location.folder);
        let watch = watch.and_then(|watch| watch.cover(&location.folder, &HashSet::new()));
        let mut cache = self.cache();
        cache.clean_commit = if watch.is_some() { head } else { None };
        cache.watch = watch;
    }

    fn status(&self, location: &WorktreeLocation) -> Result<Vec<u8>, GitWorkspaceError> {
        let words = [
            "status",
            "--porcelain=v2",
            "-z",
            "--untracked-files=normal",
            "--ignore-submodules=none",
        ];
        // Let git refresh the index, so that files are not read again each time.
        let command = location
            .command()
            .env("GIT_OPTIONAL_LOCKS", "1")
            .args(words)
            .arg("--no-renames");
        self.repository().run(&command.timeout(ALL_FILES_TIMEOUT))
    }

    /// Writes all files that are not ignored to a tree object and updates the index.
    pub(crate) fn write_tree(
        &self,
        lock: &RepositoryLock,
        location: &WorktreeLocation,
        onto: &Sha,
    ) -> Result<Sha, GitWorkspaceError> {
        let repository = self.repository();
        if let Some(path) = self.changed_submodule(location)? {
            return Err(self.nested(&location.folder.join(path)));
        }
        let add = location
            .command()
            .args(["add", "--all", "--sparse", "--", "."])
            .setting("core.safecrlf=false");
        let add = add.timeout(ALL_FILES_TIMEOUT).holding(lock.file());
        let output = repository.try_run(&add)?;
        if output.status != 0 {
            let nested = output.stderr.split("error: '").nth(1).and_then(|rest| {
                let (path, rest) = rest.split_once("' does not have a commit checked out")?;
                rest.starts_with('\n').then(|| location.folder.join(path))
            });
            return Err(nested.map_or_else(|| repository.error(&add, &output), |path| self.nested(&path)));
        }
        let tree = repository.run_sha(&location.command().arg("write-tree").holding(lock.file()))?;
        let old = repository.tree_of(onto)?;
        if tree != old
            && let Some(path) = self.new_gitlink(&old, &tree)?
        {
            repository.run(
                &location
                    .command()
                    .args(["reset", "-q"])
                    .timeout(ALL_FILES_TIMEOUT)
                    .holding(lock.file()),
            )?;
            return Err(self.nested(&location.folder.join(path)));
        }
        Ok(tree)
    }

    /// Returns a submodule whose commit or content was changed, or whose empty folder was filled.
    fn changed_submodule(&self, location: &WorktreeLocation) -> Result<Option<PathBuf>, GitWorkspaceError> {
        for entry in self.status(location)?.split(|byte| *byte == 0) {
            let words: Vec<&[u8]> = entry.splitn(9, |byte| *byte == b' ').collect();
            let (Some(kind), Some(sub), Some(path)) = (words.first(), words.get(2), words.get(8)) else {
                continue;
            };
            if matches!(*kind, b"1" | b"2") && sub.starts_with(b"S") && *sub != b"S..." {
                return Ok(Some(os_path(path)));
            }
        }
        self.filled_submodule(location)
    }

    /// Returns a submodule that is not checked out but whose folder contains files. Git does not report those.
    fn filled_submodule(&self, location: &WorktreeLocation) -> Result<Option<PathBuf>, GitWorkspaceError> {
        let list = location
            .command()
            .args(["ls-files", "-z", "--stage"])
            .timeout(ALL_FILES_TIMEOUT);
        let list = self.repository().run(&list)?;
        let links = list
            .split(|byte| *byte == 0)
            .filter(|line| line.starts_with(b"160000 "));
        for path in links.filter_map(|line| line.splitn(2, |byte| *byte == b'\t').nth(1)) {
            let folder = location.folder.join(os_path(path));
            let filled = fs::read_dir(&folder).is_ok_and(|mut list| list.next().is_some());
            if filled && !folder.join(".git").exists() {
                return Ok(Some(os_path(path)));
            }
        }
        Ok(None)
    }

    /// Returns a nested repository that would become a submodule, or a submodule whose commit would change.
    fn new_gitlink(&self, old: &Sha, new: &Sha) -> Result<Option<PathBuf>, GitWorkspaceError> {
        let command = self
            .repository()
            .command()
            .args(["diff-tree", "-r", "-z", "--raw", "--no-renames"]);
        let output = self.repository().run(
            &command
                .args([old.as_str(), new.as_str()])
                .timeout(ALL_FILES_TIMEOUT),
        )?;
        let mut parts = output.split(|byte| *byte == 0);
        while let (Some(change), Some(path)) = (parts.next(), parts.next()) {
            let mode = change.split(|byte| *byte == b' ').nth(1);
            if mode == Some(b"160000") {
                return Ok(Some(os_path(path)));
            }
        }
        Ok(None)
    }

    /// Creates refs for everything in the worktree that is not contained in `to`: first the files, then the commits.
    /// The tree `known` needs no ref.
    pub(crate) fn set_aside(
        &self,
        lock: &RepositoryLock,
        location: &WorktreeLocation,
        to: &Sha,
        known: Option<&Sha>,
    ) -> Result<Vec<SetAside>, GitWorkspaceError> {
        let repository = self.repository();
        let head = self.head(location)?.commit;
        let tip = repository.tip(self.branch())?;
        let onto = head.clone().or_else(|| tip.clone()).unwrap_or_else(|| to.clone());
        let mut set_aside: Vec<SetAside> = Vec::new();
        if self.unchanged_head(location).as_ref() != Some(&onto) {
            let files = self.write_tree(lock, location, &onto)?;
            let named = known == Some(&files)
                || repository.tree_of(&onto)? == files
                || repository.tree_of(to)? == files;
            if !named {
                let text = format!("orchestra: files of {} that were set aside\n", self.branch());
                let commit = repository.write_commit(&files, std::slice::from_ref(&onto), &text)?;
                let reference = repository.keep(lock, self.branch(), &commit)?;
                set_aside.push(SetAside {
                    reference,
                    commit,
                    files: true,
                });
            }
        }
        let returned = self.cache().at.clone();
        for commit in [head, tip, returned].into_iter().flatten() {
            let mut held = repository.is_ancestor(&commit, to)?;
            for other in &set_aside {
                held = held || repository.is_ancestor(&commit, &other.commit)?;
            }
            if !held {
                let reference = repository.keep(lock, self.branch(), &commit)?;
                set_aside.push(SetAside {
                    reference,
                    commit,
                    files: false,
                });
            }
        }
        Ok(set_aside)
    }

    /// Moves the branch to the commit of HEAD and attaches HEAD to the branch. Old commits get a ref.
    pub(crate) fn follow(
        &self,
        lock: &RepositoryLock,
        location: &WorktreeLocation,
        head: &Head,
        tip: Option<Sha>,
        new: &Sha,
    ) -> Result<(), GitWorkspaceError> {
        let repository = self.repository();
        let returned = self.cache().at.clone();
        for old in [&tip, &returned].into_iter().flatten() {
            if !repository.is_ancestor(old, new)? {
                repository.keep(lock, self.branch(), old)?;
            }
        }
        if tip.as_ref() != Some(new) {
            repository.set_ref(lock, &head_ref(self.branch()), new, tip.as_ref())?;
        }
        if head.branch != Some(head_ref(self.branch())) {
            self.attach(lock, location)?;
        }
        self.end_operations(lock, location)?;
        self.cache().at = Some(new.clone());
        Ok(())
    }

    /// Moves branch and HEAD to one commit and the files to those of another. The caller has set aside all other work.
    pub(crate) fn move_to(
        &self,
        lock: &RepositoryLock,
        location: &WorktreeLocation,
        to: &Sha,
        files: &Sha,
    ) -> Result<(), GitWorkspaceError> {
        let repository = self.repository();
        self.cache().clean_commit = None;
        let note = location.moving();
        let new = location.entry.join("orchestra-moving.new");
        fs::write(&new, format!("{to} {files}\n")).map_err(|source| self.io(&new, source))?;
        fs::rename(&new, &note).map_err(|source| self.io(&note, source))?;
        let tip = repository.tip(self.branch())?;
        if tip.as_ref() != Some(to) {
            repository.set_ref(lock, &head_ref(self.branch()), to, tip.as_ref())?;
        }
        if !self.is_attached(location) {
            self.attach(lock, location)?;
        }
        self.end_operations(lock, location)?;
        let all = |words: &[&str]| {
            location
                .command()
                .args(words)
                .timeout(ALL_FILES_TIMEOUT)
                .holding(lock.file())
        };
        repository.run(&all(&["reset", "--hard", "--quiet", to.as_str()]))?;
        repository.run(&all(&["clean", "-f", "-d", "-q"]))?;
        if files != to {
            repository.run(&all(&["read-tree", "--reset", "-u", files.as_str()]))?;
        }
        let root = self.root();
        fs::create_dir_all(&root).map_err(|source| self.io(&root, source))?;
        fs::remove_file(&note).map_err(|source| self.io(&note, source))?;
        self.cache().at = Some(to.clone());
        Ok(())
    }

    /// Completes an operation in the worktree that was killed.
    pub(crate) fn recover(
        &self,
        lock: &RepositoryLock,
        location: &WorktreeLocation,
    ) -> Result<(), GitWorkspaceError> {
        self.unlock_tree(lock, location);
        let note = location.moving();
        let Ok(text) = fs::read_to_string(&note) else {
            return Ok(());
        };
        let mut words = text.split_whitespace().map(str::parse::<Sha>);
        let (Some(Ok(to)), Some(Ok(files))) = (words.next(), words.next()) else {
            return fs::remove_file(&note).map_err(|source| self.io(&note, source));
        };
        let known = self.repository().tree_of(&files)?;
        // Somebody may have worked here since then.
        self.set_aside(lock, location, &to, Some(&known))?;
        self.move_to(lock, location, &to, &files)
    }

    /// Removes git's lock files that a killed command left in the entry of the worktree.
    pub(crate) fn unlock_tree(&self, lock: &RepositoryLock, location: &WorktreeLocation) {
        for name in ["index.lock", "HEAD.lock"] {
            let path = location.entry.join(name);
            if path.exists() {
                lock.unlock(&path);
            }
        }
    }

    /// Aborts a merge, rebase or similar operation that was left open. Its autostash gets a ref.
    fn end_operations(
        &self,
        lock: &RepositoryLock,
        location: &WorktreeLocation,
    ) -> Result<(), GitWorkspaceError> {
        for stash in [
            "MERGE_AUTOSTASH",
            "rebase-merge/autostash",
            "rebase-apply/autostash",
        ] {
            let stash = fs::read_to_string(location.entry.join(stash)).ok();
            if let Some(sha) = stash.and_then(|text| text.trim().parse().ok())
                && self.repository().has_commit(&sha)?
            {
                self.repository().keep(lock, self.branch(), &sha)?;
            }
        }
        for name in OPERATIONS {
            let path: &Path = &location.entry.join(name);
            let Ok(kind) = fs::symlink_metadata(path) else {
                continue;
            };
            let removed = if kind.is_dir() {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            };
            removed.map_err(|source| self.io(path, source))?;
        }
        Ok(())
    }
}
