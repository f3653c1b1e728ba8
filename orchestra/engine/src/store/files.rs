//! What the store asks of a file system, behind a trait so that a test can make any single call fail or be the last.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use super::Durability;

use super::StoreError;

/// Everything that the engine does to the files of runs goes through one of these calls.
///
/// [`SystemFiles`] is the one that does it; others serve tests, which count the calls, make one fail, write half of
/// what is to be written, or end the process before or after any of them.
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
/// let place = tempfile::tempdir()?;
/// let files = Counting(AtomicU32::new(0));
/// let file = files.open(&place.path().join("new"), Access::New)?;
/// files.write_at(&file, b"Hello.", 0)?;
/// files.sync_data(&file)?;
/// assert_eq!(files.0.into_inner(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait FileSystem: Send + Sync + 'static {
    /// Makes a folder; those above it must be there.
    ///
    /// # Errors
    /// As of [`fs::create_dir`].
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes a folder around those of the engine, which other users may look into as they may into any that the user
    /// makes.
    ///
    /// # Errors
    /// As of [`fs::create_dir`].
    fn make_parent_folder(&self, path: &Path) -> io::Result<()> {
        self.make_folder(path)
    }

    /// Opens a file or folder; a link is never followed, and a pipe, a device or a socket is no file.
    ///
    /// # Errors
    /// As of [`OpenOptions::open`].
    fn open(&self, path: &Path, access: Access) -> io::Result<OpenFile>;

    /// Writes all of some bytes at an offset.
    ///
    /// # Errors
    /// The system refuses; a part may have been written.
    fn write_at(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Reserves space, so that later writes need no new: the file grows by zeros.
    ///
    /// # Errors
    /// There is no space, or the file system cannot.
    fn reserve(&self, file: &OpenFile, offset: u64, length: u64) -> io::Result<()>;

    /// Cuts off what is behind a length, or adds zeros up to it.
    ///
    /// # Errors
    /// As of [`File::set_len`].
    fn set_length(&self, file: &OpenFile, length: u64) -> io::Result<()>;

    /// Waits until the bytes of a file survive a loss of power.
    ///
    /// # Errors
    /// As of [`File::sync_data`].
    fn sync_data(&self, file: &OpenFile) -> io::Result<()>;

    /// Waits until a file, with all that is known about it, survives a loss of power.
    ///
    /// # Errors
    /// As of [`File::sync_all`].
    fn sync_all(&self, file: &OpenFile) -> io::Result<()>;

    /// Waits until the names in a folder survive a loss of power.
    ///
    /// # Errors
    /// As of [`File::sync_all`].
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Moves a file; what was in its new place is gone.
    ///
    /// # Errors
    /// As of [`fs::rename`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// As of [`fs::remove_file`].
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Locks a file or folder for as long as it is open, unless somebody else has.
    ///
    /// # Errors
    /// As of [`File::try_lock`]; that it is locked is no error.
    fn try_lock(&self, file: &OpenFile) -> io::Result<bool>;

    /// How many names an open file still has.
    ///
    /// # Errors
    /// As of [`File::metadata`].
    fn links(&self, file: &OpenFile) -> io::Result<u64>;

    /// Returns whether the files exist in this process alone, as those of a simulation do: then no call waits for a
    /// device and no other process sees them, so the engine starts no threads for their sake.
    fn in_process(&self) -> bool {
        false
    }
}

/// What a file is opened for.
///
/// ```
/// use orchestra_engine::{Access, FileSystem, SystemFiles};
/// let missing = SystemFiles.open("no-such-file".as_ref(), Access::Read);
/// assert_eq!(missing.unwrap_err().kind(), std::io::ErrorKind::NotFound);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// To write a file that must not be there yet.
    New,
    /// To read and write a file that is there.
    Change,
    /// To read a file that is there.
    Read,
    /// To lock a folder.
    Folder,
}

/// The most that is read of a file at once, in bytes.
pub(crate) const MAX_WHOLE: u64 = 1 << 30;

/// An open file, and what it was called when it was opened.
///
/// ```
/// use orchestra_engine::{Access, FileSystem, SystemFiles};
/// let place = tempfile::tempdir()?;
/// let file = SystemFiles.open(&place.path().join("new"), Access::New)?;
/// assert!(file.path().ends_with("new"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    path: PathBuf,
    mark: Mark,
}

/// What tells a file from others that are put in its place: its device and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(Option<(u64, u64)>);

impl Mark {
    #[cfg(unix)]
    fn of(found: &fs::Metadata) -> Mark {
        use std::os::unix::fs::MetadataExt;
        Mark(Some((found.dev(), found.ino())))
    }

    #[cfg(not(unix))]
    fn of(_: &fs::Metadata) -> Mark {
        Mark(None)
    }

    /// Returns an error if another file stands at a path, or if it has another length.
    pub(crate) fn check(self, path: &Path, length: u64) -> Result<(), StoreError> {
        let tampered = |found: String| StoreError::Tampered {
            path: path.to_owned(),
            expected: format!("the file that was written, of {length} bytes"),
            found,
        };
        match fs::symlink_metadata(path) {
            Ok(found) if !found.is_file() || Mark::of(&found) != self => {
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
    /// What it was called when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what the system knows of the open file, whatever it is called by now.
    ///
    /// # Errors
    /// As of [`File::metadata`].
    pub fn metadata(&self) -> io::Result<fs::Metadata> {
        self.file.metadata()
    }

    /// The number of the open file, as long as this lives.
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

    /// Returns what tells the file from others.
    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }

    /// Everything from an offset to the end, or to a limit.
    ///
    /// # Errors
    /// It cannot be read, or is larger than is held in memory at all: somebody else made it so.
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
    match sync {
        true => files
            .sync_all(&file)
            .map_err(|error| StoreError::io("sync", path, error)),
        false => Ok(()),
    }
}

/// What stands in the place of a regular file: a link, a folder, a pipe, a device, a socket.
#[derive(Debug)]
pub(crate) struct NotAFile;

impl std::fmt::Display for NotAFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it is not a regular file")
    }
}

impl std::error::Error for NotAFile {}

impl From<NotAFile> for io::Error {
    fn from(fault: NotAFile) -> io::Error {
        io::Error::other(fault)
    }
}

/// Whether a file could not be opened because something else stands there. That there is anything at all is error enough
/// for a new one.
fn is_no_file(path: &Path, access: Access, error: &io::Error) -> bool {
    access != Access::New
        && error.kind() != io::ErrorKind::NotFound
        && fs::symlink_metadata(path).is_ok_and(|found| !found.is_file())
}

/// The file system as it is.
///
/// ```
/// use orchestra_engine::{Access, FileSystem, SystemFiles};
/// let place = tempfile::tempdir()?;
/// let path = place.path().join("owner.lock");
/// let first = SystemFiles.open(&path, Access::New)?;
/// let second = SystemFiles.open(&path, Access::Change)?;
/// assert!(SystemFiles.try_lock(&first)?);
/// assert!(!SystemFiles.try_lock(&second)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFiles;

/// The one that all runs of this program share, so that they share their syncs too.
pub(crate) fn system() -> Arc<dyn FileSystem> {
    static SYSTEM: LazyLock<Arc<SystemFiles>> = LazyLock::new(Arc::default);
    SYSTEM.clone()
}

impl FileSystem for SystemFiles {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
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
            // What runs say and do is their user's own business.
            options.mode(0o600);
            // Without waiting: what stands there may be a pipe.
            let only = if access == Access::Folder {
                libc::O_DIRECTORY
            } else {
                libc::O_NONBLOCK
            };
            options.custom_flags(libc::O_NOFOLLOW | only);
        }
        let file = match options.open(path) {
            // A link, a folder and a socket are refused by errors of their own.
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
            mark: Mark::of(&found),
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
        // The file grows with it: a sync of data alone then need not write its new length.
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
        // Systems that cannot open a folder have no need of it.
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

/// A file system whose runs survive the process alone: nobody waits for the disk.
struct Unsynced(Arc<dyn FileSystem>);

/// The file system as runs of a level need it.
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
