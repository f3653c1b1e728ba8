//! The folders that belong to the engine: where it keeps runs, and where it listens. A model that wrote there could forge
//! what a run has done, or answer its questions.

use std::ffi::OsStr;
#[cfg(not(unix))]
use std::path::PathBuf;
use std::path::{Component, Path};

use cap_std::fs::Dir;
use orchestra_engine::EngineFolders;

/// The folder beside a project in which the engine keeps what it needs.
const OURS: &str = ".orchestra";

/// Which file of its system a folder is, whatever name leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    #[cfg(unix)]
    Inode { device: u64, inode: u64 },
    #[cfg(not(unix))]
    Path(PathBuf),
}

impl Identity {
    fn of(folder: &Path) -> Option<Identity> {
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

    /// That of a folder below an open one.
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
            Identity::of(&root.join(folder))
        }
    }
}

/// To whom a path belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belongs {
    /// To the project; the engine has nothing to do with it.
    Project,
    /// To the run that asks: it may be read.
    OwnRun,
    /// To the engine.
    Engine,
}

/// The folders that models do not change, and of which they read that of their own run alone.
pub(super) struct Kept {
    own: Option<Identity>,
    others: Vec<Identity>,
}

impl Kept {
    pub(super) fn new(folders: &EngineFolders) -> Kept {
        let others = folders.runs.iter().chain(&folders.control);
        Kept {
            own: folders.run.as_deref().and_then(Identity::of),
            others: others.filter_map(|folder| Identity::of(folder)).collect(),
        }
    }

    /// Says to whom a path below an open folder belongs; `real` is free of links and `..`.
    pub(super) fn owner(&self, dir: &Dir, root: &Path, real: &Path) -> Belongs {
        if self.own.is_none() && self.others.is_empty() {
            return Belongs::Project;
        }
        for folder in real.ancestors() {
            let folder = match folder.as_os_str().is_empty() {
                true => Path::new("."),
                false => folder,
            };
            let Some(identity) = Identity::below(dir, root, folder) else {
                continue;
            };
            if self.own.as_ref() == Some(&identity) {
                return Belongs::OwnRun;
            }
            if self.others.contains(&identity) {
                return Belongs::Engine;
            }
        }
        Belongs::Project
    }
}

/// Returns whether a path leads through a folder that the engine has beside projects, by its name.
pub(super) fn is_ours(path: &Path) -> bool {
    path.components()
        .any(|part| matches!(part, Component::Normal(name) if is_named(name, OURS, "orches~1")))
}

/// Returns whether some system takes a name for another: without regard to capitals, by its short form, without the dots
/// and blanks at its end, or without the signs that HFS+ does not see.
pub(super) fn is_named(name: &OsStr, meant: &str, short: &str) -> bool {
    let unseen = |c: char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let name: String = name.to_string_lossy().chars().filter(|c| !unseen(*c)).collect();
    // Behind a colon NTFS has the streams of a file.
    let name = name.split(':').next().unwrap_or_default();
    let name = name.trim_end_matches(['.', ' ']);
    name.eq_ignore_ascii_case(meant) || name.eq_ignore_ascii_case(short)
}
