//! The folders that belong to the engine: those of its runs and of its control sockets. A model that could write there
//! could forge the results of a run, or answer its questions.

use std::ffi::OsStr;
#[cfg(not(unix))]
use std::path::PathBuf;
use std::path::{Component, Path};

use cap_std::fs::Dir;
use orchestra_engine::EngineFolders;

/// The folder in a project in which the engine stores its files.
const ENGINE_FOLDER: &str = ".orchestra";

/// The identity of a folder in its file system, regardless of the path that leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    #[cfg(unix)]
    Inode { device: u64, inode: u64 },
    #[cfg(not(unix))]
    Path(PathBuf),
}

impl Identity {
    fn from_folder(folder: &Path) -> Option<Identity> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;

            let found = std::fs::metadata(folder).ok()?;
            Some(Identity::Inode {
                device: found.dev(),
                inode: found.ino(),
            })
        }
        #[cfg(not(unix))]
        folder.canonicalize().ok().map(Identity::Path)
    }

    /// Returns the identity of a folder below an open one.
    fn below(dir: &Dir, root: &Path, folder: &Path) -> Option<Identity> {
        #[cfg(unix)]
        {
            use cap_std::fs::MetadataExt as _;

            let _ = root;
            let found = dir.metadata(folder).ok()?;
            Some(Identity::Inode {
                device: found.dev(),
                inode: found.ino(),
            })
        }
        #[cfg(not(unix))]
        {
            let _ = dir;
            Identity::from_folder(&root.join(folder))
        }
    }
}

/// The owner of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathOwner {
    /// The project.
    Project,
    /// The current run, whose files may be read.
    OwnRun,
    /// The engine. Its files must be neither read nor written.
    Engine,
}

/// The folders that models must not change. They may read only the folder of their own run.
pub(super) struct ProtectedFolders {
    own: Option<Identity>,
    others: Vec<Identity>,
}

impl ProtectedFolders {
    pub(super) fn new(folders: &EngineFolders) -> ProtectedFolders {
        let others = folders.runs.iter().chain(&folders.control);
        ProtectedFolders {
            own: folders.run.as_deref().and_then(Identity::from_folder),
            others: others
                .filter_map(|folder| Identity::from_folder(folder))
                .collect(),
        }
    }

    /// Returns the owner of a path below an open folder. `real` must not contain links or `..`.
    pub(super) fn owner(&self, dir: &Dir, root: &Path, real: &Path) -> PathOwner {
        if self.own.is_none() && self.others.is_empty() {
            return PathOwner::Project;
        }
        for folder in real.ancestors() {
            let folder = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            };
            let Some(identity) = Identity::below(dir, root, folder) else {
                continue;
            };
            if self.own.as_ref() == Some(&identity) {
                return PathOwner::OwnRun;
            }
            if self.others.contains(&identity) {
                return PathOwner::Engine;
            }
        }
        PathOwner::Project
    }
}

/// Returns whether a path contains the name of the engine's folder in projects.
pub(super) fn is_engine_path(path: &Path) -> bool {
    path.components()
        .any(|part| matches!(part, Component::Normal(name) if is_named(name, ENGINE_FOLDER, "orches~1")))
}

/// Returns whether some file system treats a name as another one: ignoring case, as its short name, without trailing
/// dots and spaces, or without the characters that HFS+ ignores.
pub(super) fn is_named(name: &OsStr, meant: &str, short: &str) -> bool {
    let is_ignored = |c: char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let name: String = name
        .to_string_lossy()
        .chars()
        .filter(|c| !is_ignored(*c))
        .collect();
    // NTFS separates the name of a stream by a colon.
    let name = name.split(':').next().unwrap_or_default();
    let name = name.trim_end_matches(['.', ' ']);
    name.eq_ignore_ascii_case(meant) || name.eq_ignore_ascii_case(short)
}
