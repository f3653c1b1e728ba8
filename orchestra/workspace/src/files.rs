//! What is in a tree: its HEAD, its files as an object of git, and how both are moved.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::entry::Place;
use crate::fault::WorkspaceFault;
use crate::lock::RepositoryLock;
use crate::refs::head_ref;
use crate::repository::{Sha, os_path};
use crate::tree::{Kept, Tree, TreeState};
use crate::watch::Watch;

/// How long a command may take that writes or reads all files.
const ALL_FILES: Duration = Duration::from_secs(600);

/// What somebody's merge, rebase, pick, revert or bisection leaves beside HEAD while it goes.
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

/// What HEAD names.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// The full name of the branch, unless it is detached.
    pub(crate) branch: Option<String>,
    /// The commit, unless the branch has none.
    pub(crate) commit: Option<Sha>,
}

impl Tree {
    /// What HEAD names, from the files of git where these say it.
    pub(crate) fn head(&self, place: &Place) -> Result<Head, WorkspaceFault> {
        if let Some((branch, commit)) = self.quick_head(place) {
            return Ok(Head {
                branch,
                commit: Some(commit),
            });
        }
        let repository = self.repository();
        let name = repository.try_run(&place.command().args(["symbolic-ref", "--quiet", "HEAD"]))?;
        let text = String::from_utf8_lossy(&name.stdout).trim().to_owned();
        let branch = (name.status == 0).then_some(text);
        let commit = repository.try_run(&place.command().args([
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

    /// HEAD without git: two small files, where the branch is not packed and the format is the usual one.
    fn quick_head(&self, place: &Place) -> Option<(Option<String>, Sha)> {
        let text = fs::read_to_string(place.entry.join("HEAD")).ok()?;
        match text.trim_end().strip_prefix("ref: ") {
            Some(name) => {
                let commit = fs::read_to_string(self.repository().common().join(name)).ok()?;
                Some((Some(name.to_owned()), commit.trim_end().parse().ok()?))
            }
            None => Some((None, text.trim_end().parse().ok()?)),
        }
    }

    /// Whether HEAD is on the tree's branch.
    pub(crate) fn is_attached(&self, place: &Place) -> bool {
        self.head(place)
            .is_ok_and(|head| head.branch == Some(head_ref(self.branch())))
    }

    /// What is checked out, if the watch is sure that no file differs from it.
    pub(crate) fn quiet(&self, place: &Place) -> Option<Sha> {
        let (_, head) = self.quick_head(place)?;
        let mut known = self.known();
        let settled = known.settled.clone().filter(|settled| *settled == head)?;
        if known.watch.as_mut().is_some_and(Watch::is_quiet) {
            return Some(settled);
        }
        known.settled = None;
        None
    }

    /// Asks git how the tree stands. Watches come first: what changes after them is seen by them, and before them by git.
    pub(crate) fn look(&self, place: &Place) -> Result<TreeState, WorkspaceFault> {
        let repository = self.repository();
        self.known().settled = None;
        let list = [
            "ls-files",
            "-z",
            "--others",
            "--ignored",
            "--exclude-standard",
            "--directory",
        ];
        let ignored = repository.run(&place.command().args(list).timeout(ALL_FILES))?;
        let folders = ignored
            .split(|byte| *byte == 0)
            .filter_map(|path| path.strip_suffix(b"/"));
        let folders = folders.map(|path| place.folder.join(os_path(path))).collect();
        {
            let mut known = self.known();
            let watch = known.watch.take().or_else(|| Watch::start(&place.folder));
            known.watch = watch.and_then(|watch| watch.cover(&place.folder, &folders));
        }
        let dirty = !self.status(place)?.is_empty() || self.filled_submodule(place)?.is_some();
        let head = self.head(place)?.commit;
        let head = head.ok_or_else(|| self.moved(place, "HEAD names no commit".to_owned()))?;
        if !dirty {
            self.known().settled = Some(head.clone());
        }
        Ok(TreeState { head, dirty })
    }

    /// Looks once, so that the next question is answered without git. A fault will show up there.
    pub(crate) fn settle(&self, place: &Place) {
        let _ = self.look(place);
    }

    /// The same for a tree that nobody knows of yet: its files are those that git wrote, and none is ignored.
    pub(crate) fn settle_new(&self, place: &Place) {
        let head = self.quick_head(place).map(|(_, head)| head);
        let watch = Watch::start(&place.folder);
        let watch = watch.and_then(|watch| watch.cover(&place.folder, &HashSet::new()));
        let mut known = self.known();
        known.settled = head.filter(|_| watch.is_some());
        known.watch = watch;
    }

    fn status(&self, place: &Place) -> Result<Vec<u8>, WorkspaceFault> {
        let words = [
            "status",
            "--porcelain=v2",
            "-z",
            "--untracked-files=normal",
            "--ignore-submodules=none",
        ];
        // Git may note in the index what it found, so that files are read once and not each time.
        let command = place
            .command()
            .env("GIT_OPTIONAL_LOCKS", "1")
            .args(words)
            .arg("--no-renames");
        self.repository().run(&command.timeout(ALL_FILES))
    }

    /// All files that are not ignored, as a tree object; the index is brought to it.
    pub(crate) fn write_tree(
        &self,
        lock: &RepositoryLock,
        place: &Place,
        onto: &Sha,
    ) -> Result<Sha, WorkspaceFault> {
        let repository = self.repository();
        if let Some(path) = self.changed_submodule(place)? {
            return Err(self.nested(&place.folder.join(path)));
        }
        let add = place
            .command()
            .args(["add", "--all", "--sparse", "--", "."])
            .setting("core.safecrlf=false");
        let add = add.timeout(ALL_FILES).holding(lock.file());
        let output = repository.try_run(&add)?;
        if output.status != 0 {
            let nested = output.stderr.split("error: '").nth(1).and_then(|rest| {
                let (path, rest) = rest.split_once("' does not have a commit checked out")?;
                rest.starts_with('\n').then(|| place.folder.join(path))
            });
            return Err(nested.map_or_else(|| repository.fault(&add, &output), |path| self.nested(&path)));
        }
        let tree = repository.run_sha(&place.command().arg("write-tree").holding(lock.file()))?;
        let old = repository.tree_of(onto)?;
        if tree != old
            && let Some(path) = self.new_gitlink(&old, &tree)?
        {
            repository.run(
                &place
                    .command()
                    .args(["reset", "-q"])
                    .timeout(ALL_FILES)
                    .holding(lock.file()),
            )?;
            return Err(self.nested(&place.folder.join(path)));
        }
        Ok(tree)
    }

    /// A submodule whose commit or content was changed, or whose empty folder was filled.
    fn changed_submodule(&self, place: &Place) -> Result<Option<PathBuf>, WorkspaceFault> {
        for entry in self.status(place)?.split(|byte| *byte == 0) {
            let words: Vec<&[u8]> = entry.splitn(9, |byte| *byte == b' ').collect();
            let (Some(kind), Some(sub), Some(path)) = (words.first(), words.get(2), words.get(8)) else {
                continue;
            };
            if matches!(*kind, b"1" | b"2") && sub.starts_with(b"S") && *sub != b"S..." {
                return Ok(Some(os_path(path)));
            }
        }
        self.filled_submodule(place)
    }

    /// A submodule that is not checked out and whose folder holds files: git does not see them.
    fn filled_submodule(&self, place: &Place) -> Result<Option<PathBuf>, WorkspaceFault> {
        let list = place
            .command()
            .args(["ls-files", "-z", "--stage"])
            .timeout(ALL_FILES);
        let list = self.repository().run(&list)?;
        let links = list
            .split(|byte| *byte == 0)
            .filter(|line| line.starts_with(b"160000 "));
        for path in links.filter_map(|line| line.splitn(2, |byte| *byte == b'\t').nth(1)) {
            let folder = place.folder.join(os_path(path));
            let filled = fs::read_dir(&folder).is_ok_and(|mut list| list.next().is_some());
            if filled && !folder.join(".git").exists() {
                return Ok(Some(os_path(path)));
            }
        }
        Ok(None)
    }

    /// A repository that would become a submodule, or a submodule that would be moved.
    fn new_gitlink(&self, old: &Sha, new: &Sha) -> Result<Option<PathBuf>, WorkspaceFault> {
        let command = self
            .repository()
            .command()
            .args(["diff-tree", "-r", "-z", "--raw", "--no-renames"]);
        let output = self
            .repository()
            .run(&command.args([old.as_str(), new.as_str()]).timeout(ALL_FILES))?;
        let mut parts = output.split(|byte| *byte == 0);
        while let (Some(change), Some(path)) = (parts.next(), parts.next()) {
            let mode = change.split(|byte| *byte == b' ').nth(1);
            if mode == Some(b"160000") {
                return Ok(Some(os_path(path)));
            }
        }
        Ok(None)
    }

    /// Names all that is in the tree and not in `to`: files first, then commits. `known` files have a name already.
    pub(crate) fn set_aside(
        &self,
        lock: &RepositoryLock,
        place: &Place,
        to: &Sha,
        known: Option<&Sha>,
    ) -> Result<Vec<Kept>, WorkspaceFault> {
        let repository = self.repository();
        let head = self.head(place)?.commit;
        let tip = repository.tip(self.branch())?;
        let onto = head.clone().or_else(|| tip.clone()).unwrap_or_else(|| to.clone());
        let mut kept: Vec<Kept> = Vec::new();
        if self.quiet(place).as_ref() != Some(&onto) {
            let files = self.write_tree(lock, place, &onto)?;
            let named = known == Some(&files)
                || repository.tree_of(&onto)? == files
                || repository.tree_of(to)? == files;
            if !named {
                let text = format!("orchestra: files of {} that were set aside\n", self.branch());
                let commit = repository.write_commit(&files, std::slice::from_ref(&onto), &text)?;
                let reference = repository.keep(lock, self.branch(), &commit)?;
                kept.push(Kept {
                    reference,
                    commit,
                    files: true,
                });
            }
        }
        let told = self.known().at.clone();
        for commit in [head, tip, told].into_iter().flatten() {
            let mut held = repository.is_ancestor(&commit, to)?;
            for other in &kept {
                held = held || repository.is_ancestor(&commit, &other.commit)?;
            }
            if !held {
                let reference = repository.keep(lock, self.branch(), &commit)?;
                kept.push(Kept {
                    reference,
                    commit,
                    files: false,
                });
            }
        }
        Ok(kept)
    }

    /// The branch follows HEAD to a commit, and HEAD is on the branch again. Old commits keep a name.
    pub(crate) fn follow(
        &self,
        lock: &RepositoryLock,
        place: &Place,
        head: &Head,
        tip: Option<Sha>,
        new: &Sha,
    ) -> Result<(), WorkspaceFault> {
        let repository = self.repository();
        let told = self.known().at.clone();
        for old in [&tip, &told].into_iter().flatten() {
            if !repository.is_ancestor(old, new)? {
                repository.keep(lock, self.branch(), old)?;
            }
        }
        if tip.as_ref() != Some(new) {
            repository.set_ref(lock, &head_ref(self.branch()), new, tip.as_ref())?;
        }
        if head.branch != Some(head_ref(self.branch())) {
            self.attach(lock, place)?;
        }
        self.end_operations(lock, place)?;
        self.known().at = Some(new.clone());
        Ok(())
    }

    /// Brings branch and HEAD to one commit and the files to those of another. Nothing may be lost by it any more.
    pub(crate) fn move_to(
        &self,
        lock: &RepositoryLock,
        place: &Place,
        to: &Sha,
        files: &Sha,
    ) -> Result<(), WorkspaceFault> {
        let repository = self.repository();
        self.known().settled = None;
        let note = place.moving();
        let new = place.entry.join("orchestra-moving.new");
        fs::write(&new, format!("{to} {files}\n")).map_err(|source| self.io(&new, source))?;
        fs::rename(&new, &note).map_err(|source| self.io(&note, source))?;
        let tip = repository.tip(self.branch())?;
        if tip.as_ref() != Some(to) {
            repository.set_ref(lock, &head_ref(self.branch()), to, tip.as_ref())?;
        }
        if !self.is_attached(place) {
            self.attach(lock, place)?;
        }
        self.end_operations(lock, place)?;
        let all = |words: &[&str]| {
            place
                .command()
                .args(words)
                .timeout(ALL_FILES)
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
        self.known().at = Some(to.clone());
        Ok(())
    }

    /// Ends what a killed operation began in the tree.
    pub(crate) fn heal(&self, lock: &RepositoryLock, place: &Place) -> Result<(), WorkspaceFault> {
        self.unlock_tree(lock, place);
        let note = place.moving();
        let Ok(text) = fs::read_to_string(&note) else {
            return Ok(());
        };
        let mut words = text.split_whitespace().map(str::parse::<Sha>);
        let (Some(Ok(to)), Some(Ok(files))) = (words.next(), words.next()) else {
            return fs::remove_file(&note).map_err(|source| self.io(&note, source));
        };
        let known = self.repository().tree_of(&files)?;
        // Somebody may have worked here since then.
        self.set_aside(lock, place, &to, Some(&known))?;
        self.move_to(lock, place, &to, &files)
    }

    /// Removes lock files of git that a killed command left in the tree's entry.
    pub(crate) fn unlock_tree(&self, lock: &RepositoryLock, place: &Place) {
        for name in ["index.lock", "HEAD.lock"] {
            let path = place.entry.join(name);
            if path.exists() {
                lock.unlock(&path);
            }
        }
    }

    /// Forgets a merge, rebase or the like that somebody left open; what it had stashed keeps a name.
    fn end_operations(&self, lock: &RepositoryLock, place: &Place) -> Result<(), WorkspaceFault> {
        for stash in [
            "MERGE_AUTOSTASH",
            "rebase-merge/autostash",
            "rebase-apply/autostash",
        ] {
            let stash = fs::read_to_string(place.entry.join(stash)).ok();
            if let Some(sha) = stash.and_then(|text| text.trim().parse().ok())
                && self.repository().has_commit(&sha)?
            {
                self.repository().keep(lock, self.branch(), &sha)?;
            }
        }
        for name in OPERATIONS {
            let path: &Path = &place.entry.join(name);
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
