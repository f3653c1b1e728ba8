//! The working folder of a call: the only files that file tools reach.
//!
//! Paths are resolved by the operating system beneath an open folder (`openat2` on Linux, one component after the other
//! elsewhere), so a link that leads out is refused at the moment of its use, whoever puts it there and when. Names are
//! never compared with each other to decide what is inside. Hard links are files of the folder like any other; a file
//! is replaced, not written into, so what else has its content stays as it is.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use cap_tempfile::TempFile;
use orchestra_engine::{CancellationToken, EngineFolders, StageContext};
use orchestra_graph::did_you_mean;

use super::kept::{Belongs, Kept, is_named, is_ours};
use super::text;
use crate::tool::{ToolContext, ToolError};

/// How many entries of a folder are looked at for a name that was meant.
const NEIGHBOURS: usize = 1_000;
/// Longer paths mean nothing to any system.
const LONGEST: usize = 4_096;

/// A folder beyond which nothing is reached.
pub(crate) struct Confined {
    dir: Dir,
    root: PathBuf,
    /// The folders in it in which files may be written; all where it names none.
    repositories: Vec<String>,
    /// The folders of the engine.
    kept: Kept,
}

impl Confined {
    /// Opens the working folder of a call. If it holds the repositories of a workspace, these are named.
    pub(crate) fn open(
        root: &Path,
        repositories: Vec<String>,
        folders: &EngineFolders,
    ) -> Result<Confined, ToolError> {
        let dir = Dir::open_ambient_dir(root, ambient_authority());
        let dir =
            dir.map_err(|fault| ToolError::new(format!("the working folder cannot be opened: {fault}")))?;
        Ok(Confined {
            dir,
            root: root.to_owned(),
            repositories,
            kept: Kept::new(folders),
        })
    }

    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// A path inside, as a model writes it: relative, or below the working folder's own path.
    ///
    /// This only makes good messages: what is inside is decided when the path is used.
    pub(crate) fn inside(&self, path: &str) -> Result<PathBuf, ToolError> {
        if path.trim().is_empty() {
            return Err(ToolError::new("the path is empty; `.` is the working folder"));
        }
        if path.contains('\0') {
            return Err(ToolError::new("the path holds a NUL character"));
        }
        if path.len() > LONGEST {
            return Err(ToolError::new(format!("the path is longer than {LONGEST} bytes")));
        }
        let written = Path::new(path);
        let below = match written.is_absolute() || written.has_root() {
            true => self.below_root(written).ok_or_else(|| outside(path))?,
            false => written.to_owned(),
        };
        let mut depth = 0_usize;
        for component in below.components() {
            match component {
                Component::CurDir => {}
                Component::Normal(_) => depth += 1,
                Component::ParentDir => depth = depth.checked_sub(1).ok_or_else(|| outside(path))?,
                Component::RootDir | Component::Prefix(_) => return Err(outside(path)),
            }
        }
        if depth == 0 {
            return Ok(PathBuf::from("."));
        }
        Ok(below)
    }

    fn below_root(&self, path: &Path) -> Option<PathBuf> {
        let real = self.root.canonicalize().ok();
        let roots = [Some(self.root.as_path()), real.as_deref()];
        let mut roots = roots.into_iter().flatten().filter(|root| root.is_absolute());
        let below = roots.find_map(|root| path.strip_prefix(root).ok())?;
        Some(if below.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            below.to_owned()
        })
    }

    /// Refuses a path at which nothing is to be read: what the engine keeps, but for the run that asks.
    pub(crate) fn readable(&self, path: &Path) -> Result<(), ToolError> {
        match self.kept.owner(&self.dir, &self.root, &self.real(path)) {
            Belongs::Project | Belongs::OwnRun => Ok(()),
            Belongs::Engine => Err(ToolError::new(format!(
                "`{}` belongs to Orchestra itself: it keeps other runs there, which are not read; what earlier stages \
                 of this run left is read by the paths that the prompt gives",
                shown(path)
            ))),
        }
    }

    /// Returns whether a folder, met on a walk that follows no links, is to be passed over.
    pub(crate) fn is_passed_over(&self, folder: &Path) -> bool {
        self.kept.owner(&self.dir, &self.root, folder) == Belongs::Engine
    }

    /// Opens a plain file that may be [read](Confined::readable).
    pub(crate) fn file(&self, path: &Path) -> Result<(File, Metadata), ToolError> {
        self.readable(path)?;
        self.walked_file(path)
    }

    /// Opens a plain file to which a walk has led.
    pub(crate) fn walked_file(&self, path: &Path) -> Result<(File, Metadata), ToolError> {
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        {
            use cap_std::fs::OpenOptionsExt as _;
            // A pipe that somebody put there would be waited for otherwise.
            options.custom_flags(NONBLOCK);
        }
        let file = self
            .dir
            .open_with(path, &options)
            .map_err(|fault| self.fault(path, &fault))?;
        let metadata = file.metadata().map_err(|fault| self.fault(path, &fault))?;
        if metadata.is_dir() {
            return Err(ToolError::new(format!("`{}` is a folder", shown(path))));
        }
        if !metadata.is_file() {
            return Err(ToolError::new(format!("`{}` is not a plain file", shown(path))));
        }
        Ok((file, metadata))
    }

    /// Refuses a path at which nothing is to be written, by its name or by links: what git keeps for itself, since a hook
    /// or a setting there is run by git later, outside of everything that holds a model back; what the engine keeps; and what
    /// lies beside the repositories of a workspace, since nobody keeps it.
    pub(crate) fn writable(&self, path: &Path) -> Result<(), ToolError> {
        let real = self.real(path);
        let mut parts = path.components().chain(real.components());
        if parts.any(|part| matches!(part, Component::Normal(name) if is_named(name, ".git", "git~1"))) {
            return Err(ToolError::new(format!(
                "`{}` belongs to git itself, and is not written; change the files of the repository, and leave what is \
                 in `.git` to git",
                shown(path)
            )));
        }
        let belongs = self.kept.owner(&self.dir, &self.root, &real);
        if belongs != Belongs::Project || is_ours(path) || is_ours(&real) {
            return Err(ToolError::new(format!(
                "`{}` belongs to Orchestra itself, which keeps runs there, and is not written; choose another folder",
                shown(path)
            )));
        }
        let first = real.components().next().map(Component::as_os_str);
        if self.repositories.is_empty() || self.repositories.iter().any(|name| first == Some(name.as_ref())) {
            return Ok(());
        }
        let folders: Vec<String> = self
            .repositories
            .iter()
            .map(|name| format!("`{name}/`"))
            .collect();
        Err(ToolError::new(format!(
            "`{}` lies in no repository, so nobody would keep it; give a path that begins with {}",
            shown(path),
            folders.join(" or ")
        )))
    }

    /// A path without links and `..`, as far as there is something at it.
    fn real(&self, path: &Path) -> PathBuf {
        let found = path.ancestors().find_map(|part| {
            let rest = path.strip_prefix(part).ok()?;
            Some(self.dir.canonicalize(part).ok()?.join(rest))
        });
        let mut real = PathBuf::new();
        for part in found.as_deref().unwrap_or(path).components() {
            match part {
                Component::Normal(name) => real.push(name),
                Component::ParentDir => drop(real.pop()),
                _ => {}
            }
        }
        real
    }

    /// Puts a file into its place as a whole, with the folders around it. Says whether there was one before.
    ///
    /// A link at the place is followed, where it stays inside; permissions are kept. What is not to be [written](Confined::writable) is
    /// refused.
    pub(crate) fn replace(&self, path: &Path, content: &[u8]) -> Result<bool, ToolError> {
        self.writable(path)?;
        let fault = |fault: io::Error| self.fault(path, &fault);
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(ToolError::new(format!("`{}` names a folder", shown(path))));
        }
        let (folder, name) = self.place(path)?;
        let is_link = folder
            .symlink_metadata(&name)
            .is_ok_and(|found| found.is_symlink());
        let (folder, name) = match is_link {
            true => {
                let target = self.dir.canonicalize(path).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => ToolError::new(format!(
                        "`{}` is a link that leads to nothing inside",
                        shown(path)
                    )),
                    _ => fault(error),
                })?;
                self.place(&target)?
            }
            false => (folder, name),
        };
        let before = match folder.symlink_metadata(&name) {
            Ok(found) if found.is_file() => Some(found.permissions()),
            Ok(found) if found.is_dir() => {
                return Err(ToolError::new(format!("`{}` is a folder", shown(path))));
            }
            Ok(_) => return Err(ToolError::new(format!("`{}` is not a plain file", shown(path)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(fault(error)),
        };
        let mut file = TempFile::new(&folder).map_err(fault)?;
        file.write_all(content).map_err(fault)?;
        let replaced = before.is_some();
        if let Some(permissions) = before {
            file.as_file().set_permissions(permissions).map_err(fault)?;
        }
        file.as_file().sync_all().map_err(fault)?;
        file.replace(&name).map_err(fault)?;
        Ok(replaced)
    }

    /// The folder of a path, which is made where it is missing, and the name in it.
    fn place(&self, path: &Path) -> Result<(Dir, OsString), ToolError> {
        let fault = |fault: io::Error| self.fault(path, &fault);
        let Some(name) = path.file_name() else {
            return Err(ToolError::new(format!("`{}` is a folder", shown(path))));
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = match parent {
            Some(parent) => {
                self.dir.create_dir_all(parent).map_err(fault)?;
                self.dir.open_dir(parent)
            }
            None => self.dir.try_clone(),
        };
        Ok((folder.map_err(fault)?, name.to_owned()))
    }

    /// What a model is told of a fault of the system.
    pub(crate) fn fault(&self, path: &Path, fault: &io::Error) -> ToolError {
        let name = shown(path);
        ToolError::new(match fault.kind() {
            io::ErrorKind::NotFound => {
                let near = self.near(path);
                let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                format!("there is no `{name}`{near}")
            }
            // The second is what making a folder says.
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                format!("a part of `{name}` is a file, where a folder is needed")
            }
            // The refusal of a path that leads out is no number of the system.
            io::ErrorKind::PermissionDenied if fault.raw_os_error().is_none() => {
                return outside(&name);
            }
            _ => format!("`{name}`: {fault}"),
        })
    }

    /// The name beside a missing one that was probably meant.
    fn near(&self, path: &Path) -> Option<String> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let entries = self.dir.read_dir(parent).ok()?;
        let names: Vec<String> = entries
            .flatten()
            .take(NEIGHBOURS)
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        let near = did_you_mean(path.file_name()?.to_str()?, names.iter().map(String::as_str))?;
        Some(shown(&parent.join(near)))
    }
}

#[cfg(unix)]
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

fn outside(path: &str) -> ToolError {
    let (path, _) = text::line_start(path, 200);
    ToolError::new(format!(
        "`{path}` leads out of the working folder, beyond which there is nothing to reach; \
         give a path relative to the working folder"
    ))
}

/// A path for models: with `/` on every system, without `./` before it.
pub(crate) fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    let text = if cfg!(windows) {
        text.replace('\\', "/")
    } else {
        text.into_owned()
    };
    match text.strip_prefix("./") {
        Some(rest) if !rest.is_empty() => rest.to_owned(),
        _ => text,
    }
}

/// Work on files, beside the threads that must not wait. It is told to stop when its caller goes away.
pub(crate) async fn work<T: Send + 'static>(
    context: &ToolContext,
    work: impl FnOnce(&Confined, &CancellationToken) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let stop = context.cancellation().child_token();
    let _stopped = stop.clone().drop_guard();
    let (root, repositories) = (context.root().to_owned(), context.repositories());
    let folders = context
        .stage()
        .map(StageContext::engine_folders)
        .unwrap_or_default();
    orchestra_engine::blocking(move || work(&Confined::open(&root, repositories, &folders)?, &stop)).await
}
