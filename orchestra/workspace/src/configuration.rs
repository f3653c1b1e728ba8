//! The git configuration of a run: the configuration as it was when the run began, without the changes of stages.
//!
//! A stage can write to its repository, including configuration, attributes and hooks, and to the user's configuration.
//! Git runs programs that these files name. Therefore git commands do not read them. They get a folder that replaces
//! the common git folder: it contains links to the objects, refs and the rest, and a configuration file with the
//! settings that describe the repository, and with the filters and merge drivers that existed before the first stage
//! ran.

use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::git::GitCommand;

/// Settings that describe a repository and name no program.
const PLAIN: &[&str] = &[
    "core.repositoryformatversion",
    "core.bare",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.checkroundtripencoding",
    "core.sharedrepository",
    "core.protecthfs",
    "core.protectntfs",
    "core.longpaths",
    "core.bigfilethreshold",
    "core.compression",
    "core.loosecompression",
    "core.checkstat",
    "core.trustctime",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.excludesfile",
    "core.attributesfile",
    "core.fsync",
    "core.fsyncmethod",
    "core.createobject",
    "core.logallrefupdates",
    "core.usereplacerefs",
    "extensions.objectformat",
    "extensions.compatobjectformat",
    "extensions.refstorage",
    "extensions.partialclone",
    "extensions.noop",
    "extensions.preciousobjects",
    "extensions.relativeworktrees",
    "diff.algorithm",
    "diff.renames",
    "diff.renamelimit",
    "merge.renames",
    "merge.renamelimit",
    "merge.directoryrenames",
    "merge.renormalize",
    "index.version",
    "index.sparse",
];

/// Settings that locate the objects of a partial clone and of Git LFS: the first and the last part of the key.
const REMOTE: &[(&str, &str)] = &[
    ("remote", "url"),
    ("remote", "fetch"),
    ("remote", "promisor"),
    ("remote", "partialclonefilter"),
    ("remote", "lfsurl"),
];

/// Settings that name programs which change files when git reads and writes them.
const PROGRAMS: &[(&str, &str)] = &[
    ("filter", "clean"),
    ("filter", "smudge"),
    ("filter", "process"),
    ("filter", "required"),
    ("merge", "driver"),
    ("merge", "name"),
    ("merge", "recursive"),
];

/// The entries of the common git folder that git reads and writes through links.
#[cfg(unix)]
const LINKED: &[&str] = &[
    "objects",
    "refs",
    "packed-refs",
    "reftable",
    "logs",
    "worktrees",
    "shallow",
    "info",
    "modules",
    "lfs",
];

/// The configuration values in the order in which git read them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Configuration(Vec<(String, Option<String>)>);

impl Configuration {
    /// Parses the output of `git config --list -z`.
    pub(crate) fn parse(listed: &[u8]) -> Configuration {
        let entries = listed.split(|byte| *byte == 0).filter_map(|entry| {
            let (key, value) = match std::str::from_utf8(entry).ok()?.split_once('\n') {
                Some((key, value)) => (key, Some(value)),
                None => (std::str::from_utf8(entry).ok()?, None),
            };
            let has_credentials = [Some(key), value].into_iter().flatten().any(has_credentials);
            (is_included(key) && !has_credentials).then(|| (key.to_owned(), value.map(str::to_owned)))
        });
        Configuration(entries.collect())
    }

    /// Returns the configuration without the settings that name programs.
    pub(crate) fn without_programs(&self) -> Configuration {
        let plain = self.0.iter().filter(|(key, _)| !names_program(key));
        Configuration(plain.cloned().collect())
    }

    /// Returns whether the configuration names programs that git may run.
    pub(crate) fn has_programs(&self) -> bool {
        self.0.iter().any(|(key, _)| names_program(key))
    }

    /// Returns the text of a configuration file.
    fn text(&self) -> String {
        let mut text = String::new();
        for (key, value) in &self.0 {
            let Some((section, name)) = key.rsplit_once('.') else {
                continue;
            };
            match section.split_once('.') {
                Some((section, sub)) => {
                    let sub = sub.replace('\\', "\\\\").replace('"', "\\\"");
                    text.push_str(&format!("[{section} \"{sub}\"]\n\t{name}"));
                }
                None => text.push_str(&format!("[{section}]\n\t{name}")),
            }
            if let Some(value) = value {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                let value = value.replace('\n', "\\n").replace('\t', "\\t");
                text.push_str(&format!(" = \"{value}\""));
            }
            text.push('\n');
        }
        text
    }
}

fn is_included(key: &str) -> bool {
    PLAIN.contains(&key) || names_program(key) || parts(key).is_some_and(|parts| REMOTE.contains(&parts))
}

fn names_program(key: &str) -> bool {
    key.starts_with("lfs.") || parts(key).is_some_and(|parts| PROGRAMS.contains(&parts))
}

/// Returns the first and the last part of a key that consists of at least three parts.
fn parts(key: &str) -> Option<(&str, &str)> {
    let (section, rest) = key.split_once('.')?;
    let (_, name) = rest.rsplit_once('.')?;
    Some((section, name))
}

/// Returns whether an address contains a user name or password, which must not be stored with a run.
fn has_credentials(text: &str) -> bool {
    let mut addresses = text.split("://").skip(1);
    addresses.any(|rest| {
        let host = rest.split(['/', '?', '#', ' ']).next().unwrap_or_default();
        host.contains('@')
    })
}

/// A folder that replaces the common git folder of a repository until this value is dropped.
#[derive(Debug)]
pub(crate) struct CommonFolder {
    folder: PathBuf,
    common: PathBuf,
    text: String,
    programs: bool,
    /// Held so that no other process removes the folder as a leftover.
    _lock: File,
}

/// Prefix of the names of these folders.
const PREFIX: &str = "orchestra-git-";

impl CommonFolder {
    /// Creates the folder.
    pub(crate) fn create(common: &Path, configuration: &Configuration) -> io::Result<CommonFolder> {
        let parent = std::env::temp_dir();
        remove_left(&parent);
        let (folder, lock) = loop {
            if let Some(made) = locked_folder(&parent)? {
                break made;
            }
        };
        let made = CommonFolder {
            folder,
            common: common.to_owned(),
            text: configuration.text(),
            programs: configuration.has_programs(),
            _lock: lock,
        };
        #[cfg(unix)]
        for name in LINKED {
            std::os::unix::fs::symlink(common.join(name), made.folder.join(name))?;
        }
        made.refresh()?;
        Ok(made)
    }

    /// Writes the configuration file if its content differs.
    fn refresh(&self) -> io::Result<()> {
        let file = self.folder.join("config");
        if fs::read(&file).is_ok_and(|text| text == self.text.as_bytes()) {
            return Ok(());
        }
        let draft = self.folder.join("config.new");
        fs::write(&draft, &self.text)?;
        fs::rename(&draft, &file)
    }

    /// Makes a command read this configuration and no other.
    pub(crate) fn apply(&self, command: &GitCommand) -> io::Result<GitCommand> {
        let command = command
            .clone()
            .setting("safe.directory=*")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .programs(self.programs);
        // These commands write or print the path of the common folder. They run no program if they check nothing out.
        if command.name() == "worktree" || !cfg!(unix) {
            return Ok(command);
        }
        self.refresh()?;
        // Git creates this folder if it is missing, which fails through a dangling link. If it cannot be created here,
        // git reports the error when it needs the folder. The `worktrees` folder is created when a worktree is added,
        // which happens without links.
        let _ = fs::create_dir_all(self.common.join("logs"));
        Ok(command.env("GIT_COMMON_DIR", &self.folder))
    }
}

impl Drop for CommonFolder {
    fn drop(&mut self) {
        // The next process removes leftovers.
        let _ = remove_locked(&self.folder);
    }
}

/// Creates a folder with a lock in it that this process holds. Returns `None` if another process removed the folder as
/// a leftover before it was locked.
fn locked_folder(parent: &Path) -> io::Result<Option<(PathBuf, File)>> {
    let random = || RandomState::new().build_hasher().finish();
    let folder = parent.join(format!("{PREFIX}{:016x}{:016x}", random(), random()));
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&folder)?;
    let path = folder.join("lock");
    let lock = match File::create_new(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.exists() => return Ok(None),
        made => made?,
    };
    // A process that removes the folder holds the lock until the removal is done, and never removes a folder whose lock
    // is held here.
    lock.lock()?;
    Ok(path.exists().then_some((folder, lock)))
}

/// Removes a folder whose lock this process holds. Links are removed, not their targets. The lock file goes last: if
/// this process is killed in between, the next one still sees that the folder is not held.
fn remove_locked(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != "lock" {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_file(folder.join("lock"))?;
    fs::remove_dir(folder)
}

/// Removes the folders of killed processes, which are those that nobody has locked.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX)
            || !entry.file_type().is_ok_and(|kind| kind.is_dir())
        {
            continue;
        }
        let folder = entry.path();
        match File::open(folder.join("lock")) {
            Ok(lock) if lock.try_lock().is_ok() => {
                let _ = remove_locked(&folder);
                drop(lock);
            }
            // The folder was just created, or its process was killed before locking. Remove it only if it is empty.
            Err(error) if error.kind() == io::ErrorKind::NotFound => drop(fs::remove_dir(&folder)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &[u8] = b"core.autocrlf\ninput\0core.fsmonitor\n/tmp/evil\0core.sshcommand\nevil\0filter.lfs.clean\n\
        git-lfs clean -- %f\0filter.a \"b\\.process\nx \"y\"\\z\0filter.lfs.required\0remote.origin.url\n\
        https://me:token@example.org/x.git\0remote.other.url\ngit@example.org:x.git\0include.path\n/tmp/evil\0\
        diff.x.textconv\nevil\0alias.add\n!evil\0";

    #[test]
    fn what_names_other_programs_and_what_holds_credentials_is_left_out() {
        let configuration = Configuration::parse(LISTED);
        let keys: Vec<&str> = configuration.0.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "core.autocrlf",
                "filter.lfs.clean",
                "filter.a \"b\\.process",
                "filter.lfs.required",
                "remote.other.url"
            ]
        );
        assert!(configuration.has_programs() && !configuration.without_programs().has_programs());
        assert_eq!(configuration.without_programs().0.len(), 2);
    }

    #[test]
    fn folders_made_at_once_are_not_taken_for_left_ones() -> io::Result<()> {
        let parent = tempfile::tempdir()?;
        let left = parent.path().join(format!("{PREFIX}left"));
        let empty = parent.path().join(format!("{PREFIX}empty"));
        for folder in [&left, &empty] {
            fs::create_dir(folder)?;
        }
        fs::write(left.join("lock"), "")?;
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut held = Vec::new();
                        while held.len() < 200 {
                            remove_left(parent.path());
                            held.extend(locked_folder(parent.path())?);
                        }
                        Ok::<_, io::Error>(held)
                    })
                })
                .collect();
            let mut held = Vec::new();
            for worker in workers {
                held.extend(
                    worker
                        .join()
                        .map_err(|_| io::Error::other("a worker panicked"))??,
                );
            }
            assert!(held.iter().all(|(folder, _)| folder.join("lock").exists()));
            assert!(!left.exists() && !empty.exists());
            Ok(())
        })
    }

    #[cfg(unix)]
    #[test]
    fn a_removal_that_is_interrupted_anywhere_leaves_what_the_next_removes() -> io::Result<()> {
        let parent = tempfile::tempdir()?;
        let removed = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                while !removed.load(std::sync::atomic::Ordering::SeqCst) {
                    for folder in fs::read_dir(parent.path())?.flatten() {
                        let is_there = |name| folder.path().join(name).exists();
                        if is_there("locked") && !is_there("lock") && is_there("locked") {
                            return Err(io::Error::other("the lock went first"));
                        }
                    }
                }
                Ok(())
            });
            for _ in 0..500 {
                let (folder, _lock) = locked_folder(parent.path())?.ok_or(io::ErrorKind::NotFound)?;
                fs::write(folder.join("locked"), "")?;
                for name in LINKED {
                    std::os::unix::fs::symlink("/nowhere", folder.join(name))?;
                }
                remove_locked(&folder)?;
                assert!(!folder.exists());
            }
            removed.store(true, std::sync::atomic::Ordering::SeqCst);
            watcher
                .join()
                .map_err(|_| io::Error::other("the watcher panicked"))?
        })
    }

    #[test]
    fn git_reads_what_was_written() -> Result<(), Box<dyn std::error::Error>> {
        let configuration = Configuration::parse(LISTED);
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), configuration.text())?;
        let listed = std::process::Command::new("git")
            .args(["config", "--list", "-z", "--file"])
            .arg(file.path())
            .output()?;
        assert_eq!(Configuration::parse(&listed.stdout), configuration);
        Ok(())
    }
}
