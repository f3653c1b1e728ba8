//! Where a tree is: its folder, and the entry that git keeps for it beside the other trees.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fault::WorkspaceFault;
use crate::git::GitCommand;
use crate::lock::RepositoryLock;
use crate::refs::head_ref;
use crate::repository::{Sha, os_path};
use crate::tree::{Ensured, Tree};

/// How long a checkout may take.
const CHECKOUT: Duration = Duration::from_secs(600);

/// What git writes into the entry of a tree until it is checked out.
const UNFINISHED: &str = "initializing";

/// A tree's folder and its entry in the common git folder.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) entry: PathBuf,
}

impl Place {
    /// A command in the tree. Both places are named: a damaged `.git` file would lead into the user's own work tree.
    pub(crate) fn command(&self) -> GitCommand {
        GitCommand::new(&self.folder)
            .env("GIT_DIR", &self.entry)
            .env("GIT_WORK_TREE", &self.folder)
    }

    /// Where an operation that moves branch and files writes down where to, for as long as it goes.
    pub(crate) fn moving(&self) -> PathBuf {
        self.entry.join("orchestra-moving")
    }

    pub(crate) fn is_moving(&self) -> bool {
        self.moving().exists()
    }
}

impl Tree {
    /// Where the tree is, if it is there.
    pub(crate) fn place(&self) -> Result<Place, WorkspaceFault> {
        let known = self.known().place.clone();
        let place = match known.filter(|place| place.entry.join("gitdir").exists()) {
            Some(place) => place,
            None => {
                let folder = self.folder();
                let entry = self.entries()?.into_iter().find(|entry| names(entry, &folder));
                let entry = entry.ok_or_else(|| self.no_tree())?;
                Place { folder, entry }
            }
        };
        if !place.folder.is_dir() || is_unfinished(&place.entry) {
            return Err(self.no_tree());
        }
        if place.folder.join(".git").is_dir() {
            return Err(self.nested(&place.folder));
        }
        self.known().place = Some(place.clone());
        Ok(place)
    }

    fn no_tree(&self) -> WorkspaceFault {
        WorkspaceFault::TreeMissing {
            repository: self.repository().name().to_owned(),
            path: self.path().to_owned(),
        }
    }

    pub(crate) fn nested(&self, path: &Path) -> WorkspaceFault {
        WorkspaceFault::NestedRepository {
            repository: self.repository().name().to_owned(),
            path: path.to_owned(),
        }
    }

    pub(crate) fn io(&self, path: &Path, source: io::Error) -> WorkspaceFault {
        WorkspaceFault::io(self.repository().name(), path, source)
    }

    /// The folder, named as git names it.
    fn folder(&self) -> PathBuf {
        let parent = self.path().parent().and_then(|parent| parent.canonicalize().ok());
        match (parent, self.path().file_name()) {
            (Some(parent), Some(name)) => parent.join(name),
            _ => self.path().to_owned(),
        }
    }

    /// The entries of all trees of the repository.
    fn entries(&self) -> Result<Vec<PathBuf>, WorkspaceFault> {
        let folder = self.repository().common().join("worktrees");
        match fs::read_dir(&folder) {
            Ok(list) => Ok(list.flatten().map(|entry| entry.path()).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(self.io(&folder, error)),
        }
    }

    /// Makes the folder, or mends what is left of it.
    pub(crate) fn ensure_folder(&self, lock: &RepositoryLock, tip: &Sha) -> Result<Ensured, WorkspaceFault> {
        let parent = self.path().parent().unwrap_or(self.path()).to_owned();
        fs::create_dir_all(&parent).map_err(|source| self.io(&parent, source))?;
        self.known().place = None;
        self.sweep_removed()?;
        let folder = self.folder();
        for entry in self.entries()? {
            if names(&entry, &folder) {
                if is_unfinished(&entry) {
                    // Nobody has worked in a tree that was never checked out.
                    self.drop_entry(lock, &entry)?;
                    self.remove_folder(&folder)?;
                } else if !folder.is_dir() {
                    self.drop_entry(lock, &entry)?;
                }
            } else if lock.after_kill() && is_unfinished(&entry) && !entry.join("gitdir").exists() {
                // Killed before it said which folder it is for.
                fs::remove_dir_all(&entry).map_err(|source| self.io(&entry, source))?;
            }
        }
        let entry = self.entries()?.into_iter().find(|entry| names(entry, &folder));
        let empty = fs::read_dir(&folder).map_or(true, |mut list| list.next().is_none());
        match entry {
            Some(entry) => self.mend(lock, &Place { folder, entry })?,
            None if empty => {
                self.add(lock, &folder, tip)?;
                return Ok(Ensured::Made);
            }
            None => self.adopt(lock, &folder, tip)?,
        }
        Ok(Ensured::WasThere)
    }

    fn add(&self, lock: &RepositoryLock, folder: &Path, tip: &Sha) -> Result<(), WorkspaceFault> {
        // Not checked out by this command, which reads the configuration of the repository, be it changed by a stage;
        // until it is, the entry bears the mark that git would give it.
        let command = self
            .repository()
            .command()
            .args(["worktree", "add", "--force", "--force", "--detach", "-q"])
            .args(["--no-checkout", "--lock", "--reason", UNFINISHED])
            .arg(folder)
            .arg(tip.as_str())
            .holding(lock.file());
        self.repository().run(&command)?;
        let entry = self.entries()?.into_iter().find(|entry| names(entry, folder));
        let place = Place {
            folder: folder.to_owned(),
            entry: entry.ok_or_else(|| self.no_tree())?,
        };
        let checkout = place
            .command()
            .args(["reset", "--hard", "--no-recurse-submodules", "-q"])
            .timeout(CHECKOUT)
            .holding(lock.file());
        self.repository().run(&checkout)?;
        let mark = place.entry.join("locked");
        fs::remove_file(&mark).map_err(|source| self.io(&mark, source))?;
        let place = self.place()?;
        self.attach(lock, &place)
    }

    /// Mends the link from the folder to its entry, and an index that is missing.
    fn mend(&self, lock: &RepositoryLock, place: &Place) -> Result<(), WorkspaceFault> {
        let link = place.folder.join(".git");
        if link.is_dir() {
            return Err(self.nested(&place.folder));
        }
        let linked = fs::read(&link)
            .ok()
            .and_then(|text| Some(os_path(text.strip_prefix(b"gitdir: ")?.trim_ascii_end())));
        let same = linked.and_then(|linked| place.folder.join(linked).canonicalize().ok())
            == place.entry.canonicalize().ok();
        if !same {
            let mut text = b"gitdir: ".to_vec();
            text.extend_from_slice(bytes_of(&place.entry).as_ref());
            text.push(b'\n');
            let _ = fs::remove_file(&link);
            fs::write(&link, text).map_err(|source| self.io(&link, source))?;
        }
        let head = fs::read(place.entry.join("HEAD")).unwrap_or_default();
        if head.trim_ascii().is_empty() {
            self.attach(lock, place)?;
        }
        if !place.entry.join("index").exists() {
            self.unlock_tree(lock, place);
            self.repository()
                .run(&place.command().args(["read-tree", "HEAD"]).holding(lock.file()))?;
        }
        Ok(())
    }

    /// Gives a folder, whose entry somebody removed, an entry again; the files stay as they are.
    fn adopt(&self, lock: &RepositoryLock, folder: &Path, tip: &Sha) -> Result<(), WorkspaceFault> {
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
        // The name of the folder comes last: without it, the entry is nobody's.
        let mut link = bytes_of(&folder.join(".git")).into_owned();
        link.push(b'\n');
        write("gitdir", &link)?;
        let place = Place {
            folder: folder.to_owned(),
            entry,
        };
        self.mend(lock, &place)?;
        self.attach(lock, &place)
    }

    /// Puts HEAD on the tree's branch.
    pub(crate) fn attach(&self, lock: &RepositoryLock, place: &Place) -> Result<(), WorkspaceFault> {
        let command = place.command().args([
            "symbolic-ref",
            "-m",
            "orchestra",
            "HEAD",
            &head_ref(self.branch()),
        ]);
        self.repository().run(&command.holding(lock.file())).map(drop)
    }

    /// Removes folder and entry. The folder gets another name first, so that half of it is never taken for the tree.
    pub(crate) fn discard(&self, lock: &RepositoryLock) -> Result<(), WorkspaceFault> {
        let folder = self.folder();
        self.remove_folder(&folder)?;
        for entry in self.entries()?.into_iter().filter(|entry| names(entry, &folder)) {
            self.drop_entry(lock, &entry)?;
        }
        self.sweep_removed()?;
        // The folders of line and run, once they are empty.
        for above in folder.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(above);
        }
        Ok(())
    }

    /// Removes the entry of a tree whose folder is gone; commits that only its HEAD names are kept.
    fn drop_entry(&self, lock: &RepositoryLock, entry: &Path) -> Result<(), WorkspaceFault> {
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

    /// Moves a folder out of the way by one step, and deletes it there.
    fn remove_folder(&self, folder: &Path) -> Result<(), WorkspaceFault> {
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

    /// The begin of the names that folders get before they are deleted.
    fn removed_prefix(&self) -> String {
        format!(
            ".removed-{}-",
            self.path().file_name().unwrap_or_default().to_string_lossy()
        )
    }

    /// Deletes what a killed removal left.
    fn sweep_removed(&self) -> Result<(), WorkspaceFault> {
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

/// Whether an entry is that of a folder.
fn names(entry: &Path, folder: &Path) -> bool {
    let Ok(text) = fs::read(entry.join("gitdir")) else {
        return false;
    };
    // Newer versions of git may write it relative to the entry.
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

/// Deletes a folder; folders in it that nobody may write are opened first.
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
