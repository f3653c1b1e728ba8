//! The creation, the repair and the removal of a worktree: its folder and its entry in the common git folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::GitWorkspaceError;
use crate::git_path::os_path;
use crate::location::WorktreeLocation;
use crate::lock::RepositoryLock;
use crate::ref_names::head_ref;
use crate::sha::Sha;
use crate::tree::{Ensured, Tree};

/// Time limit of a checkout.
const CHECKOUT_TIMEOUT: Duration = Duration::from_secs(600);

/// The lock reason that git writes into the entry of a worktree until it is checked out.
const UNFINISHED: &str = "initializing";

impl Tree {
    /// Returns the location of the worktree. Fails if it does not exist.
    pub(crate) fn location(&self) -> Result<WorktreeLocation, GitWorkspaceError> {
        let cached = self.cache().location.clone();
        let location = match cached.filter(|location| location.entry.join("gitdir").exists()) {
            Some(location) => location,
            None => {
                let folder = self.folder();
                let entry = self
                    .entries()?
                    .into_iter()
                    .find(|entry| is_entry_of(entry, &folder));
                let entry = entry.ok_or_else(|| self.no_tree())?;
                WorktreeLocation { folder, entry }
            }
        };
        if !location.folder.is_dir() || is_unfinished(&location.entry) {
            return Err(self.no_tree());
        }
        if location.folder.join(".git").is_dir() {
            return Err(self.nested(&location.folder));
        }
        self.cache().location = Some(location.clone());
        Ok(location)
    }

    fn no_tree(&self) -> GitWorkspaceError {
        GitWorkspaceError::TreeMissing {
            repository: self.repository().name().to_owned(),
            path: self.path().to_owned(),
        }
    }

    pub(crate) fn nested(&self, path: &Path) -> GitWorkspaceError {
        GitWorkspaceError::NestedRepository {
            repository: self.repository().name().to_owned(),
            path: path.to_owned(),
        }
    }

    pub(crate) fn io(&self, path: &Path, source: io::Error) -> GitWorkspaceError {
        GitWorkspaceError::io(self.repository().name(), path, source)
    }

    /// Returns the canonical path of the folder, as git names it.
    fn folder(&self) -> PathBuf {
        let parent = self.path().parent().and_then(|parent| parent.canonicalize().ok());
        match (parent, self.path().file_name()) {
            (Some(parent), Some(name)) => parent.join(name),
            _ => self.path().to_owned(),
        }
    }

    /// Returns the entries of all worktrees of the repository.
    fn entries(&self) -> Result<Vec<PathBuf>, GitWorkspaceError> {
        let folder = self.repository().common().join("worktrees");
        match fs::read_dir(&folder) {
            Ok(list) => Ok(list.flatten().map(|entry| entry.path()).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(self.io(&folder, error)),
        }
    }

    /// Creates the folder, or repairs what is left of it.
    pub(crate) fn ensure_folder(
        &self,
        lock: &RepositoryLock,
        tip: &Sha,
    ) -> Result<Ensured, GitWorkspaceError> {
        let parent = self.path().parent().unwrap_or(self.path()).to_owned();
        fs::create_dir_all(&parent).map_err(|source| self.io(&parent, source))?;
        self.cache().location = None;
        self.sweep_removed()?;
        let folder = self.folder();
        for entry in self.entries()? {
            if is_entry_of(&entry, &folder) {
                if is_unfinished(&entry) {
                    // Nobody has worked in a worktree that was never checked out.
                    self.drop_entry(lock, &entry)?;
                    self.remove_folder(&folder)?;
                } else if !folder.is_dir() {
                    self.drop_entry(lock, &entry)?;
                }
            } else if lock.after_kill() && is_unfinished(&entry) && !entry.join("gitdir").exists() {
                // The command was killed before it recorded the folder.
                fs::remove_dir_all(&entry).map_err(|source| self.io(&entry, source))?;
            }
        }
        let entry = self
            .entries()?
            .into_iter()
            .find(|entry| is_entry_of(entry, &folder));
        let empty = fs::read_dir(&folder).map_or(true, |mut list| list.next().is_none());
        match entry {
            Some(entry) => self.repair(lock, &WorktreeLocation { folder, entry })?,
            None if empty => {
                self.add(lock, &folder, tip)?;
                return Ok(Ensured::Created);
            }
            None => self.create_entry(lock, &folder, tip)?,
        }
        Ok(Ensured::Existed)
    }

    fn add(&self, lock: &RepositoryLock, folder: &Path, tip: &Sha) -> Result<(), GitWorkspaceError> {
        // Check out in a separate command: `git worktree add` reads the configuration of the repository, which a stage
        // may have changed. Until then the entry carries the lock reason that git would set.
        let command = self
            .repository()
            .command()
            .args(["worktree", "add", "--force", "--force", "--detach", "-q"])
            .args(["--no-checkout", "--lock", "--reason", UNFINISHED])
            .arg(folder)
            .arg(tip.as_str())
            .holding(lock.file());
        self.repository().run(&command)?;
        let entry = self
            .entries()?
            .into_iter()
            .find(|entry| is_entry_of(entry, folder));
        let location = WorktreeLocation {
            folder: folder.to_owned(),
            entry: entry.ok_or_else(|| self.no_tree())?,
        };
        let checkout = location
            .command()
            .args(["reset", "--hard", "--no-recurse-submodules", "-q"])
            .timeout(CHECKOUT_TIMEOUT)
            .holding(lock.file());
        self.repository().run(&checkout)?;
        let mark = location.entry.join("locked");
        fs::remove_file(&mark).map_err(|source| self.io(&mark, source))?;
        let location = self.location()?;
        self.attach(lock, &location)
    }

    /// Repairs the link from the folder to its entry, and a missing index.
    fn repair(&self, lock: &RepositoryLock, location: &WorktreeLocation) -> Result<(), GitWorkspaceError> {
        let link = location.folder.join(".git");
        if link.is_dir() {
            return Err(self.nested(&location.folder));
        }
        let linked = fs::read(&link)
            .ok()
            .and_then(|text| Some(os_path(text.strip_prefix(b"gitdir: ")?.trim_ascii_end())));
        let same = linked.and_then(|linked| location.folder.join(linked).canonicalize().ok())
            == location.entry.canonicalize().ok();
        if !same {
            let mut text = b"gitdir: ".to_vec();
            text.extend_from_slice(bytes_of(&location.entry).as_ref());
            text.push(b'\n');
            let _ = fs::remove_file(&link);
            fs::write(&link, text).map_err(|source| self.io(&link, source))?;
        }
        let head = fs::read(location.entry.join("HEAD")).unwrap_or_default();
        if head.trim_ascii().is_empty() {
            self.attach(lock, location)?;
        }
        if !location.entry.join("index").exists() {
            self.unlock_tree(lock, location);
            self.repository().run(
                &location
                    .command()
                    .args(["read-tree", "HEAD"])
                    .holding(lock.file()),
            )?;
        }
        Ok(())
    }

    /// Creates a new entry for a folder whose entry was removed. The files stay as they are.
    fn create_entry(&self, lock: &RepositoryLock, folder: &Path, tip: &Sha) -> Result<(), GitWorkspaceError> {
        if folder.join(".git").is_dir() {
            return Err(self.nested(folder));
        }
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let worktrees = self.repository().common().join("worktrees");
        let mut entry = worktrees.join(&name);
        let mut count = 0;
        while entry.exists() {
            count += 1;
            entry = worktrees.join(format!("{name}{count}"));
        }
        let write = |file: &str, text: &[u8]| {
            let path = entry.join(file);
            fs::write(&path, text).map_err(|source| self.io(&path, source))
        };
        fs::create_dir_all(&entry).map_err(|source| self.io(&entry, source))?;
        write("HEAD", format!("{tip}\n").as_bytes())?;
        write("commondir", b"../..\n")?;
        // Write the path of the folder last: without it, the entry belongs to no worktree.
        let mut link = bytes_of(&folder.join(".git")).into_owned();
        link.push(b'\n');
        write("gitdir", &link)?;
        let location = WorktreeLocation {
            folder: folder.to_owned(),
            entry,
        };
        self.repair(lock, &location)?;
        self.attach(lock, &location)
    }

    /// Attaches HEAD to the branch of the worktree.
    pub(crate) fn attach(
        &self,
        lock: &RepositoryLock,
        location: &WorktreeLocation,
    ) -> Result<(), GitWorkspaceError> {
        let command = location.command().args([
            "symbolic-ref",
            "-m",
            "orchestra",
            "HEAD",
            &head_ref(self.branch()),
        ]);
        self.repository().run(&command.holding(lock.file())).map(drop)
    }

    /// Removes the folder and the entry. The folder is renamed first, so that a partly deleted folder is never taken
    /// for the worktree.
    pub(crate) fn discard(&self, lock: &RepositoryLock) -> Result<(), GitWorkspaceError> {
        let folder = self.folder();
        self.remove_folder(&folder)?;
        for entry in self
            .entries()?
            .into_iter()
            .filter(|entry| is_entry_of(entry, &folder))
        {
            self.drop_entry(lock, &entry)?;
        }
        self.sweep_removed()?;
        // Remove the folders of the path and of the run once they are empty.
        for above in folder.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(above);
        }
        Ok(())
    }

    /// Removes the entry of a worktree whose folder is gone. Commits that only its HEAD names are set aside.
    fn drop_entry(&self, lock: &RepositoryLock, entry: &Path) -> Result<(), GitWorkspaceError> {
        let head = fs::read_to_string(entry.join("HEAD"))
            .ok()
            .and_then(|text| text.trim().parse::<Sha>().ok());
        if let Some(head) = head {
            let repository = self.repository();
            let tip = repository.tip(self.branch())?;
            let held = match &tip {
                Some(tip) if repository.has_commit(&head)? => repository.is_ancestor(&head, tip)?,
                _ => !repository.has_commit(&head)?,
            };
            if !held {
                repository.keep(lock, self.branch(), &head)?;
            }
        }
        fs::remove_dir_all(entry).map_err(|source| self.io(entry, source))?;
        let _ = fs::remove_dir(self.repository().common().join("worktrees"));
        Ok(())
    }

    /// Renames a folder atomically, then deletes it.
    fn remove_folder(&self, folder: &Path) -> Result<(), GitWorkspaceError> {
        if fs::symlink_metadata(folder).is_err() {
            return Ok(());
        }
        let mut count = 0;
        let removed = loop {
            let name = format!("{}{count}", self.removed_prefix());
            let path = folder.with_file_name(name);
            if fs::symlink_metadata(&path).is_err() {
                break path;
            }
            count += 1;
        };
        fs::rename(folder, &removed).map_err(|source| self.io(folder, source))?;
        remove_all(&removed).map_err(|source| self.io(&removed, source))
    }

    /// Returns the prefix of the names that folders get before they are deleted.
    fn removed_prefix(&self) -> String {
        format!(
            ".removed-{}-",
            self.path().file_name().unwrap_or_default().to_string_lossy()
        )
    }

    /// Deletes the folders left behind by killed removals.
    fn sweep_removed(&self) -> Result<(), GitWorkspaceError> {
        let folder = self.folder();
        let prefix = self.removed_prefix();
        let Some(Ok(list)) = folder.parent().map(fs::read_dir) else {
            return Ok(());
        };
        for path in list.flatten().map(|entry| entry.path()) {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let number = name
                .strip_prefix(&prefix)
                .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
            if number {
                remove_all(&path).map_err(|source| self.io(&path, source))?;
            }
        }
        Ok(())
    }
}

/// Returns whether an entry belongs to a folder.
fn is_entry_of(entry: &Path, folder: &Path) -> bool {
    let Ok(text) = fs::read(entry.join("gitdir")) else {
        return false;
    };
    // Newer versions of git may write a path relative to the entry.
    let link = entry.join(os_path(text.strip_suffix(b"\n").unwrap_or(&text)));
    let named = link.parent().unwrap_or(&link);
    let real = |path: &Path| {
        path.parent()
            .and_then(|parent| Some(parent.canonicalize().ok()?.join(path.file_name()?)))
    };
    link.ends_with(".git") && (named == folder || real(named).is_some_and(|named| named == folder))
}

fn is_unfinished(entry: &Path) -> bool {
    fs::read_to_string(entry.join("locked")).is_ok_and(|reason| reason.trim() == UNFINISHED)
}

/// Deletes a folder. Makes read-only folders in it writable first if necessary.
fn remove_all(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_folders(path);
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

#[cfg(unix)]
fn open_folders(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_folders(&entry.path());
        }
    }
}

#[cfg(not(unix))]
fn open_folders(_path: &Path) {}

#[cfg(unix)]
fn bytes_of(path: &Path) -> std::borrow::Cow<'_, [u8]> {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).into()
}

#[cfg(not(unix))]
fn bytes_of(path: &Path) -> std::borrow::Cow<'_, [u8]> {
    path.to_string_lossy().into_owned().into_bytes().into()
}
