//! The file system of the store, behind a trait so that a test can make any single call fail or be the last.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use super::Durability;
use super::error::{MAX_WHOLE, NotAFile, StoreError};

/// The file operations of the engine. All accesses to the files of runs use these calls.
///
/// [`SystemFiles`] is the implementation for the operating system. Other implementations serve tests: they count calls,
/// make one fail, write half of the bytes, or end the process before or after a call.
///
/// ```
/// use std::io;
/// use std::path::Path;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use orchestra_engine::{Access, FileSystem, OpenFile, SystemFiles};
///
/// /// Counts the syncs of data; the rest is handed on.
/// struct Counting(AtomicU32);
/// impl FileSystem for Counting {
///     fn sync_data(&self, file: &OpenFile) -> io::Result<()> {
///         self.0.fetch_add(1, Ordering::Relaxed);
///         SystemFiles.sync_data(file)
///     }
///     # fn make_folder(&self, path: &Path) -> io::Result<()> { SystemFiles.make_folder(path) }
///     # fn open(&self, path: &Path, access: Access) -> io::Result<OpenFile> { SystemFiles.open(path, access) }
///     # fn write_at(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> io::Result<()> {
///     #     SystemFiles.write_at(file, bytes, offset)
///     # }
///     # fn reserve(&self, file: &OpenFile, offset: u64, length: u64) -> io::Result<()> {
///     #     SystemFiles.reserve(file, offset, length)
///     # }
///     # fn set_length(&self, file: &OpenFile, length: u64) -> io::Result<()> { SystemFiles.set_length(file, length) }
///     # fn sync_all(&self, file: &OpenFile) -> io::Result<()> { SystemFiles.sync_all(file) }
///     # fn sync_folder(&self, path: &Path) -> io::Result<()> { SystemFiles.sync_folder(path) }
///     # fn rename(&self, from: &Path, to: &Path) -> io::Result<()> { SystemFiles.rename(from, to) }
///     # fn remove(&self, path: &Path) -> io::Result<()> { SystemFiles.remove(path) }
///     # fn try_lock(&self, file: &OpenFile) -> io::Result<bool> { SystemFiles.try_lock(file) }
///     # fn links(&self, file: &OpenFile) -> io::Result<u64> { SystemFiles.links(file) }
/// }
///
/// let directory = tempfile::tempdir()?;
/// let files = Counting(AtomicU32::new(0));
/// let file = files.open(&directory.path().join("new"), Access::New)?;
/// files.write_at(&file, b"Hello.", 0)?;
/// files.sync_data(&file)?;
/// assert_eq!(files.0.into_inner(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait FileSystem: Send + Sync + 'static {
    /// Creates a folder. Its parent must exist.
    ///
    /// # Errors
    /// Like [`fs::create_dir`].
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// Creates a parent folder of the run folders, with the default permissions of the user.
    ///
    /// # Errors
    /// Like [`fs::create_dir`].
    fn make_parent_folder(&self, path: &Path) -> io::Result<()> {
        self.make_folder(path)
    }

    /// Opens a file or folder. Does not follow links, and fails for pipes, devices and sockets.
    ///
    /// # Errors
    /// Like [`OpenOptions::open`].
    fn open(&self, path: &Path, access: Access) -> io::Result<OpenFile>;

    /// Writes all bytes at an offset.
    ///
    /// # Errors
    /// Returns the error of the system. A part of the bytes may have been written.
    fn write_at(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Preallocates space, so that later writes need none. The file grows by zeros.
    ///
    /// # Errors
    /// Fails if there is no space or the file system does not support it.
    fn reserve(&self, file: &OpenFile, offset: u64, length: u64) -> io::Result<()>;

    /// Truncates a file to a length, or extends it with zeros.
    ///
    /// # Errors
    /// Like [`File::set_len`].
    fn set_length(&self, file: &OpenFile, length: u64) -> io::Result<()>;

    /// Waits until the content of a file survives a loss of power.
    ///
    /// # Errors
    /// Like [`File::sync_data`].
    fn sync_data(&self, file: &OpenFile) -> io::Result<()>;

    /// Waits until the content and the metadata of a file survive a loss of power.
    ///
    /// # Errors
    /// Like [`File::sync_all`].
    fn sync_all(&self, file: &OpenFile) -> io::Result<()>;

    /// Waits until the names in a folder survive a loss of power.
    ///
    /// # Errors
    /// Like [`File::sync_all`].
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Renames a file. Replaces an existing file.
    ///
    /// # Errors
    /// Like [`fs::rename`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Like [`fs::remove_file`].
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Locks a file or folder as long as it is open. Returns `false` if it is already locked.
    ///
    /// # Errors
    /// Like [`File::try_lock`], except that a locked file is not an error.
    fn try_lock(&self, file: &OpenFile) -> io::Result<bool>;

    /// Returns the number of names of an open file.
    ///
    /// # Errors
    /// Like [`File::metadata`].
    fn links(&self, file: &OpenFile) -> io::Result<u64>;

    /// Returns whether the files exist only in this process, like those of a simulation. Then no call waits for a
    /// device and no other process sees the files, so the engine starts no threads for them.
    fn in_process(&self) -> bool {
        false
    }
}

/// The purpose for which a file is opened.
///
/// ```
/// use orchestra_engine::{Access, FileSystem, SystemFiles};
/// let missing = SystemFiles.open("no-such-file".as_ref(), Access::Read);
/// assert_eq!(missing.unwrap_err().kind(), std::io::ErrorKind::NotFound);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Create and write a new file, which must not exist.
    New,
    /// Read and write an existing file.
    Change,
    /// Read an existing file.
    Read,
    /// Lock a folder.
    Folder,
}

/// An open file, and its path at the time of opening.
///
/// ```
/// use orchestra_engine::{Access, FileSystem, SystemFiles};
/// let directory = tempfile::tempdir()?;
/// let file = SystemFiles.open(&directory.path().join("new"), Access::New)?;
/// assert!(file.path().ends_with("new"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    path: PathBuf,
    mark: Mark,
}

/// The identity of a file, which detects a replaced file: its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(Option<(u64, u64)>);

impl Mark {
    #[cfg(unix)]
    fn from_metadata(found: &fs::Metadata) -> Mark {
        use std::os::unix::fs::MetadataExt;
        Mark(Some((found.dev(), found.ino())))
    }

    #[cfg(not(unix))]
    fn from_metadata(_: &fs::Metadata) -> Mark {
        Mark(None)
    }

    /// Returns an error if the path refers to another file, or if the file has another length.
    pub(crate) fn check(self, path: &Path, length: u64) -> Result<(), StoreError> {
        let tampered = |found: String| StoreError::Tampered {
            path: path.to_owned(),
            expected: format!("the file that was written, of {length} bytes"),
            found,
        };
        match fs::symlink_metadata(path) {
            Ok(found) if !found.is_file() || Mark::from_metadata(&found) != self => {
                Err(tampered("another in its place".to_owned()))
            }
            Ok(found) if found.len() != length => Err(tampered(format!("{} bytes", found.len()))),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(tampered("no file".to_owned())),
            Err(error) => Err(StoreError::io("read", path, error)),
        }
    }
}

impl OpenFile {
    /// Returns the file itself, for buffered reading.
    pub(super) fn into_file(self) -> File {
        self.file
    }

    /// Returns the path at the time of opening.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the metadata of the open file, whatever its current path is.
    ///
    /// # Errors
    /// Like [`File::metadata`].
    pub fn metadata(&self) -> io::Result<fs::Metadata> {
        self.file.metadata()
    }

    /// Returns the file descriptor, which is valid as long as this value lives.
    #[cfg(unix)]
    pub(crate) fn descriptor(&self) -> std::os::fd::RawFd {
        std::os::fd::AsRawFd::as_raw_fd(&self.file)
    }

    pub(crate) fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    pub(crate) fn is_file(&self) -> bool {
        self.file.metadata().is_ok_and(|found| found.is_file())
    }

    pub(crate) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Returns the identity of the file.
    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }

    /// Reads everything from an offset to the end, or to a limit.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is larger than [`MAX_WHOLE`], which means that another process changed it.
    pub(crate) fn read_from(&self, offset: u64, limit: u64) -> io::Result<Vec<u8>> {
        let length = self.length()?.saturating_sub(offset).min(limit);
        if length > MAX_WHOLE {
            let said = format!("it is larger than {MAX_WHOLE} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, said));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default().saturating_add(1));
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset))?;
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Writes a new file.
pub(crate) fn write_new(
    files: &dyn FileSystem,
    path: &Path,
    bytes: &[u8],
    sync: bool,
) -> Result<(), StoreError> {
    let file = files
        .open(path, Access::New)
        .map_err(|error| StoreError::io("make", path, error))?;
    if !bytes.is_empty() {
        files
            .write_at(&file, bytes, 0)
            .map_err(|error| StoreError::io("write", path, error))?;
    }
    if sync {
        files
            .sync_all(&file)
            .map_err(|error| StoreError::io("sync", path, error))
    } else {
        Ok(())
    }
}

/// Returns whether a file could not be opened because the path is not a regular file. Always returns `false` for new
/// files, because any existing path is an error for them.
fn is_no_file(path: &Path, access: Access, error: &io::Error) -> bool {
    access != Access::New
        && error.kind() != io::ErrorKind::NotFound
        && fs::symlink_metadata(path).is_ok_and(|found| !found.is_file())
}

/// The file system of the operating system.
///
/// ```
/// use orchestra_engine::{Access, FileSystem, SystemFiles};
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("owner.lock");
/// let first = SystemFiles.open(&path, Access::New)?;
/// let second = SystemFiles.open(&path, Access::Change)?;
/// assert!(SystemFiles.try_lock(&first)?);
/// assert!(!SystemFiles.try_lock(&second)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFiles;

/// Returns the instance that all runs of this program share, so that they also share their syncs.
pub(crate) fn system() -> Arc<dyn FileSystem> {
    static SYSTEM: LazyLock<Arc<SystemFiles>> = LazyLock::new(Arc::default);
    SYSTEM.clone()
}

impl FileSystem for SystemFiles {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path)
    }

    fn make_parent_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<OpenFile> {
        let mut options = OpenOptions::new();
        match access {
            Access::New => options.read(true).write(true).create_new(true),
            Access::Change => options.read(true).write(true),
            Access::Read | Access::Folder => options.read(true),
        };
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            // The files of runs are private to their user.
            options.mode(0o600);
            // Do not block: the path may be a pipe.
            let only = if access == Access::Folder {
                libc::O_DIRECTORY
            } else {
                libc::O_NONBLOCK
            };
            options.custom_flags(libc::O_NOFOLLOW | only);
        }
        let file = match options.open(path) {
            // The system refuses links, folders and sockets with errors of its own.
            Err(error) if access != Access::Folder && is_no_file(path, access, &error) => {
                return Err(NotAFile.into());
            }
            opened => opened?,
        };
        let found = file.metadata()?;
        if access != Access::Folder && !found.is_file() {
            return Err(NotAFile.into());
        }
        Ok(OpenFile {
            mark: Mark::from_metadata(&found),
            file,
            path: path.to_owned(),
        })
    }

    #[cfg(unix)]
    fn write_at(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&file.file, bytes, offset)
    }

    #[cfg(not(unix))]
    fn write_at(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut out = &file.file;
        out.seek(SeekFrom::Start(offset))?;
        io::Write::write_all(&mut out, bytes)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn reserve(&self, file: &OpenFile, offset: u64, length: u64) -> io::Result<()> {
        // The file grows as well, so that a later sync of data does not need to write a new length.
        let flags = rustix::fs::FallocateFlags::empty();
        Ok(rustix::fs::fallocate(&file.file, flags, offset, length)?)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn reserve(&self, _: &OpenFile, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_length(&self, file: &OpenFile, length: u64) -> io::Result<()> {
        file.file.set_len(length)
    }

    fn sync_data(&self, file: &OpenFile) -> io::Result<()> {
        file.file.sync_data()
    }

    fn sync_all(&self, file: &OpenFile) -> io::Result<()> {
        file.file.sync_all()
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        // Systems that cannot open a folder do not need it.
        if !cfg!(unix) {
            return Ok(());
        }
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn try_lock(&self, file: &OpenFile) -> io::Result<bool> {
        match file.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    #[cfg(unix)]
    fn links(&self, file: &OpenFile) -> io::Result<u64> {
        Ok(std::os::unix::fs::MetadataExt::nlink(&file.file.metadata()?))
    }

    #[cfg(not(unix))]
    fn links(&self, _: &OpenFile) -> io::Result<u64> {
        Ok(1)
    }
}

/// A file system that never syncs, for runs that only need to survive the process.
struct Unsynced(Arc<dyn FileSystem>);

/// Returns the file system for a durability level.
pub(super) fn of_level(files: Arc<dyn FileSystem>, level: Durability) -> Arc<dyn FileSystem> {
    match level {
        Durability::Full => files,
        Durability::Process | Durability::None => Arc::new(Unsynced(files)),
    }
}

impl FileSystem for Unsynced {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.0.make_folder(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<OpenFile> {
        self.0.open(path, access)
    }

    fn write_at(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(file, bytes, offset)
    }

    fn reserve(&self, file: &OpenFile, offset: u64, length: u64) -> io::Result<()> {
        self.0.reserve(file, offset, length)
    }

    fn set_length(&self, file: &OpenFile, length: u64) -> io::Result<()> {
        self.0.set_length(file, length)
    }

    fn sync_data(&self, _: &OpenFile) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self, _: &OpenFile) -> io::Result<()> {
        Ok(())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn try_lock(&self, file: &OpenFile) -> io::Result<bool> {
        self.0.try_lock(file)
    }

    fn links(&self, file: &OpenFile) -> io::Result<u64> {
        self.0.links(file)
    }

    fn in_process(&self) -> bool {
        self.0.in_process()
    }
}
