//! The working folder of a call, which file tools cannot leave.
//!
//! The operating system resolves paths beneath an open folder (with `openat2` on Linux, component by component
//! elsewhere). A link that leads out of the folder is refused when it is used, whoever created it and when. Names are
//! never compared to decide whether a path is inside. Hard links are treated like any other file; writing replaces a
//! file instead of changing its content, so other links to the old content are unaffected.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use cap_tempfile::TempFile;
use orchestra_engine::{CancellationToken, EngineFolders, StageContext};
use orchestra_graph::did_you_mean;

use super::protected::{PathOwner, ProtectedFolders, is_engine_path, is_named};
use super::text;
use crate::tool::{ToolContext, ToolError};

/// Maximum number of folder entries that are searched for a similar name.
const MAX_SEARCHED_NAMES: usize = 1_000;
/// Maximum length of a path in bytes; no system supports longer ones.
const MAX_PATH_BYTES: usize = 4_096;

/// A folder that paths cannot leave.
pub(crate) struct Confined {
    dir: Dir,
    root: PathBuf,
    /// The names of the folders in which files may be written; if empty, everywhere.
    repositories: Vec<String>,
    /// The folders of the engine.
    protected: ProtectedFolders,
}

impl Confined {
    /// Opens the working folder of a call. `repositories` are the repository folders if it is the root of a workspace.
    pub(crate) fn open(
        root: &Path,
        repositories: Vec<String>,
        folders: &EngineFolders,
    ) -> Result<Confined, ToolError> {
        let dir = Dir::open_ambient_dir(root, ambient_authority());
        let dir =
            dir.map_err(|error| ToolError::new(format!("the working folder cannot be opened: {error}")))?;
        Ok(Confined {
            dir,
            root: root.to_owned(),
            repositories,
            protected: ProtectedFolders::new(folders),
        })
    }

    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns a path inside the folder. `path` is written by a model: it is relative, or absolute below the working
    /// folder.
    ///
    /// This check only provides good error messages; the use of the path enforces that it is inside.
    pub(crate) fn inside(&self, path: &str) -> Result<PathBuf, ToolError> {
        if path.trim().is_empty() {
            return Err(ToolError::new("the path is empty; `.` is the working folder"));
        }
        if path.contains('\0') {
            return Err(ToolError::new("the path holds a NUL character"));
        }
        if path.len() > MAX_PATH_BYTES {
            return Err(ToolError::new(format!(
                "the path is longer than {MAX_PATH_BYTES} bytes"
            )));
        }
        let written = Path::new(path);
        let below = if written.is_absolute() || written.has_root() {
            self.below_root(written).ok_or_else(|| outside(path))?
        } else {
            written.to_owned()
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

    /// Returns the path at which a search begins: the given one, else the working folder.
    pub(crate) fn start(&self, path: Option<&str>) -> Result<PathBuf, ToolError> {
        match path {
            Some(path) => self.inside(path),
            None => Ok(PathBuf::from(".")),
        }
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

    /// Returns an error if the path must not be read: it belongs to the engine, and not to the current run.
    pub(crate) fn readable(&self, path: &Path) -> Result<(), ToolError> {
        match self.protected.owner(&self.dir, &self.root, &self.real(path)) {
            PathOwner::Project | PathOwner::OwnRun => Ok(()),
            PathOwner::Engine => Err(ToolError::new(format!(
                "`{}` belongs to Orchestra itself: it keeps other runs there, which are not read; what earlier stages \
                 of this run left is read by the paths that the prompt gives",
                shown(path)
            ))),
        }
    }

    /// Returns whether a walk that follows no links must skip a folder.
    pub(crate) fn is_passed_over(&self, folder: &Path) -> bool {
        self.protected.owner(&self.dir, &self.root, folder) == PathOwner::Engine
    }

    /// Opens a regular file if it is [readable](Confined::readable).
    pub(crate) fn file(&self, path: &Path) -> Result<(File, Metadata), ToolError> {
        self.readable(path)?;
        self.walked_file(path)
    }

    /// Opens a regular file that a walk has found.
    pub(crate) fn walked_file(&self, path: &Path) -> Result<(File, Metadata), ToolError> {
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        {
            use cap_std::fs::OpenOptionsExt as _;
            // Without this flag, opening a named pipe would block.
            options.custom_flags(NONBLOCK);
        }
        let file = self
            .dir
            .open_with(path, &options)
            .map_err(|error| self.error(path, &error))?;
        let metadata = file.metadata().map_err(|error| self.error(path, &error))?;
        if metadata.is_dir() {
            return Err(ToolError::new(format!("`{}` is a folder", shown(path))));
        }
        if !metadata.is_file() {
            return Err(ToolError::new(format!("`{}` is not a plain file", shown(path))));
        }
        Ok((file, metadata))
    }

    /// Returns an error if the path, itself or through links, must not be written. This applies to git's own files,
    /// because git would later run a hook or setting there without the restrictions of a model; to files of the engine;
    /// and to files outside of the repositories of a workspace, because they would be lost.
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
        let owner = self.protected.owner(&self.dir, &self.root, &real);
        if owner != PathOwner::Project || is_engine_path(path) || is_engine_path(&real) {
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

    /// Resolves links and `..` in the existing part of a path.
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

    /// Replaces a whole file atomically, and creates missing parent folders. Returns whether the file existed before.
    ///
    /// Follows a link at the path if it leads inside. Keeps the permissions of the file. Returns an error if the path
    /// is not [writable](Confined::writable).
    pub(crate) fn replace(&self, path: &Path, content: &[u8]) -> Result<bool, ToolError> {
        self.writable(path)?;
        let failed = |error: io::Error| self.error(path, &error);
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(ToolError::new(format!("`{}` names a folder", shown(path))));
        }
        let (folder, name) = self.position(path)?;
        let is_link = folder
            .symlink_metadata(&name)
            .is_ok_and(|found| found.is_symlink());
        let (folder, name) = if is_link {
            let target = self.dir.canonicalize(path).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => ToolError::new(format!(
                    "`{}` is a link that leads to nothing inside",
                    shown(path)
                )),
                _ => failed(error),
            })?;
            self.position(&target)?
        } else {
            (folder, name)
        };
        let before = match folder.symlink_metadata(&name) {
            Ok(found) if found.is_file() => Some(found.permissions()),
            Ok(found) if found.is_dir() => {
                return Err(ToolError::new(format!("`{}` is a folder", shown(path))));
            }
            Ok(_) => return Err(ToolError::new(format!("`{}` is not a plain file", shown(path)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let mut file = TempFile::new(&folder).map_err(failed)?;
        file.write_all(content).map_err(failed)?;
        let replaced = before.is_some();
        if let Some(permissions) = before {
            file.as_file().set_permissions(permissions).map_err(failed)?;
        }
        file.as_file().sync_all().map_err(failed)?;
        file.replace(&name).map_err(failed)?;
        Ok(replaced)
    }

    /// Opens the parent folder of a path, and creates it if it is missing. Returns the folder and the file name.
    fn position(&self, path: &Path) -> Result<(Dir, OsString), ToolError> {
        let error = |error: io::Error| self.error(path, &error);
        let Some(name) = path.file_name() else {
            return Err(ToolError::new(format!("`{}` is a folder", shown(path))));
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = match parent {
            Some(parent) => {
                self.dir.create_dir_all(parent).map_err(error)?;
                self.dir.open_dir(parent)
            }
            None => self.dir.try_clone(),
        };
        Ok((folder.map_err(error)?, name.to_owned()))
    }

    /// Converts an I/O error to an error for a model.
    pub(crate) fn error(&self, path: &Path, error: &io::Error) -> ToolError {
        let name = shown(path);
        ToolError::new(match error.kind() {
            io::ErrorKind::NotFound => {
                let near = self.near(path);
                let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                format!("there is no `{name}`{near}")
            }
            // Creating a folder fails with the second kind.
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                format!("a part of `{name}` is a file, where a folder is needed")
            }
            // The refusal of a path that leads out has no OS error code.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
                return outside(&name);
            }
            _ => format!("`{name}`: {error}"),
        })
    }

    /// Returns the most similar name next to a missing path.
    fn near(&self, path: &Path) -> Option<String> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let entries = self.dir.read_dir(parent).ok()?;
        let names: Vec<String> = entries
            .flatten()
            .take(MAX_SEARCHED_NAMES)
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

/// Formats a path for models: with `/` on every system, and without a leading `./`.
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

/// Runs file operations on a blocking thread. The token is cancelled when the returned future is dropped.
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
