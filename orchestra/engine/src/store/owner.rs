//! Who owns a run: a lock that dies with its process (rule D5).

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, ErrorKind};
#[cfg(unix)]
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[cfg(unix)]
use super::files::SystemFiles;
use super::files::{Access, FileSystem, OpenFile};
use super::obstacle;
use super::{ARTIFACT_INDEX, ARTIFACTS, EVENTS, JOURNAL, MANIFEST, RunStore, StoreError};
use crate::clock::{Clock, SystemClock, Timestamp};
#[cfg(unix)]
use crate::process::{RunMark, end_tools};

/// The file that is locked, and says by whom.
const LOCK: &str = "owner.lock";
/// How often, and with which pauses, somebody else's short business is waited for.
const TRIES: u32 = 1_000;
const PAUSE: Duration = Duration::from_millis(2);
/// How often the lock of an owner is tried that is gone. What it was about to start lets go of the lock within
/// milliseconds, on a machine without free processors within seconds.
const GHOST_TRIES: u32 = 2_500;
/// How much of a file is copied at once.
const COPIED: u64 = 4 << 20;
/// How long the tools of an earlier owner may take to die.
#[cfg(unix)]
const TOOLS_END: Duration = Duration::from_secs(10);
/// The largest lock file that is read.
const MOST: u64 = 64 << 10;

/// The process that owns a run: what `owner.lock` says.
///
/// ```
/// use orchestra_engine::Owner;
/// let said = r#"{"pid":4242,"host":"build-7","program":"orchestra","epoch":3,"since":"2026-11-21T15:30:00.042Z"}"#;
/// let owner: Owner = serde_json::from_str(said)?;
/// assert_eq!(
///     owner.to_string(),
///     "process 4242 (`orchestra`) on host `build-7`, since 2026-11-21T15:30:00.042Z"
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The process.
    pub pid: u32,
    /// The machine.
    pub host: String,
    /// The program.
    pub program: String,
    /// How many owners the run has had, with this one.
    pub epoch: u64,
    /// Since when.
    pub since: Timestamp,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Owner {
            pid,
            host,
            program,
            since,
            ..
        } = self;
        write!(f, "process {pid} (`{program}`) on host `{host}`, since {since}")
    }
}

/// What the lock file holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Content {
    #[serde(flatten)]
    owner: Owner,
    /// Whether files that an earlier owner may still write to have yet to be replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    replacing: bool,
    /// The mark of the commands that the owner runs.
    #[cfg(unix)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<RunMark>,
}

/// The ownership of a run; it ends with this value, or with the process.
///
/// Whoever looks for the owner, or wants to become it, first locks the folder for a moment. So nobody is seen between
/// having the lock and having written so: a new owner writes a new lock file, locks it, and moves it into place.
pub(crate) struct Ownership {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    lock: OpenFile,
    content: Mutex<Content>,
    /// The run whose stage runs this one. Who takes that over has this one too, and ends the tools of both before it takes
    /// this one over itself; what became of these must not be recorded here.
    around: Option<Arc<dyn RunStore>>,
}

impl Ownership {
    /// Becomes the first owner of a new run, which nobody else can open yet.
    pub(crate) fn create(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        around: Option<Arc<dyn RunStore>>,
    ) -> Result<Ownership, StoreError> {
        let path = folder.join(LOCK);
        let content = Content::new(1, folder);
        let lock = files
            .open(&path, Access::New)
            .map_err(|error| StoreError::io("make", &path, error))?;
        if !files
            .try_lock(&lock)
            .map_err(|error| StoreError::io("lock", &path, error))?
        {
            return Err(owned(folder, None));
        }
        files
            .write_at(&lock, &content.text(&path)?, 0)
            .map_err(|error| StoreError::io("write", &path, error))?;
        Ok(Ownership {
            files,
            folder: folder.to_owned(),
            lock,
            content: Mutex::new(content),
            around,
        })
    }

    /// Becomes the next owner of a run; with `take_over` even of one that has an owner, who finds out and stops.
    ///
    /// # Errors
    /// Somebody else owns it or the run around it, or does not let go of the folder.
    pub(crate) fn acquire(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        take_over: bool,
        around: Option<Arc<dyn RunStore>>,
    ) -> Result<Ownership, StoreError> {
        let Some(_guard) = guard(&*files, folder)? else {
            return Err(StoreError::Busy {
                path: folder.to_owned(),
                pid: locked_by(folder),
            });
        };
        if let Some(around) = &around {
            around.still_mine()?;
        }
        let path = folder.join(LOCK);
        let held = match files.open(&path, Access::Change) {
            Ok(held) => Some(held),
            // Nobody can have locked what is no file; it is moved aside when the new one is moved there.
            Err(error) if error.kind() == ErrorKind::NotFound || obstacle::is_no_file(&path) => None,
            Err(error) => return Err(StoreError::io("open", &path, error)),
        };
        let free = match &held {
            Some(held) => is_free(&*files, held)?,
            None => false,
        };
        let previous = held.as_ref().and_then(read);
        if held.is_some() && !free && !(take_over && cfg!(unix)) {
            return Err(owned(folder, previous.map(|content| content.owner)));
        }
        if let Some(owner) = previous.as_ref().map(|content| &content.owner)
            && !free
            && owner.host == host()
            && crate::process::descends_from(owner.pid)
        {
            return Err(StoreError::OwnProcess {
                path: folder.to_owned(),
                by: Box::new(owner.clone()),
            });
        }
        let epoch = previous.as_ref().map_or(0, |content| content.owner.epoch) + 1;
        let mut content = Content::new(epoch, folder);
        // Also where the lock file was removed: its owner may be alive.
        content.replacing = !free || previous.as_ref().is_some_and(|content| content.replacing);
        let lock = publish(&*files, &path, held, &content)?;
        let ownership = Ownership {
            files,
            folder: folder.to_owned(),
            lock,
            content: Mutex::new(content),
            around,
        };
        // From here on an earlier owner finds out before it moves anything into place; what it had found out too late
        // to stop is not there any more.
        if let Some(previous) = &previous {
            end_tools_of(previous, folder, !free)?;
        }
        remove_drafts(&*ownership.files, folder)?;
        ownership.replace_files()?;
        Ok(ownership)
    }

    /// Gives the files that are written to in place new inodes, so that what an earlier owner still writes goes nowhere.
    fn replace_files(&self) -> Result<(), StoreError> {
        let mut content = self.content();
        if !content.replacing {
            return Ok(());
        }
        // The epoch must not be lost: by it records are known that the earlier owner may still hand in.
        self.sync_lock()?;
        for name in [JOURNAL, EVENTS] {
            copy(&*self.files, &self.folder, name)?;
        }
        let artifacts = self.folder.join(ARTIFACTS);
        if std::fs::symlink_metadata(&artifacts).is_ok_and(|found| found.is_dir()) {
            remove_if_there(&*self.files, &artifacts.join(format!(".{ARTIFACT_INDEX}.tmp")))?;
            copy(&*self.files, &artifacts, ARTIFACT_INDEX)?;
            sync_folder(&*self.files, &artifacts)?;
        }
        sync_folder(&*self.files, &self.folder)?;
        content.replacing = false;
        self.rewrite(&content)
    }

    fn sync_lock(&self) -> Result<(), StoreError> {
        self.files
            .sync_all(&self.lock)
            .map_err(|error| StoreError::io("sync", self.lock.path(), error))?;
        sync_folder(&*self.files, &self.folder)
    }

    /// Writes the content anew; only while others are kept from reading it.
    fn rewrite(&self, content: &Content) -> Result<(), StoreError> {
        let path = self.folder.join(LOCK);
        let text = content.text(&path)?;
        self.files
            .write_at(&self.lock, &text, 0)
            .and_then(|()| self.files.set_length(&self.lock, text.len() as u64))
            .map_err(|error| StoreError::io("write", &path, error))
    }

    fn content(&self) -> Content {
        self.content
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How many owners the run has had, with this one.
    pub(crate) fn epoch(&self) -> u64 {
        self.content().owner.epoch
    }

    /// Raises the epoch, where records know of owners of whom the lock file does not.
    pub(crate) fn raise(&self, epoch: u64) -> Result<(), StoreError> {
        let mut content = self.content();
        if epoch <= content.owner.epoch {
            return Ok(());
        }
        content.owner.epoch = epoch;
        let _guard = guard(&*self.files, &self.folder)?;
        self.rewrite(&content)?;
        *self.content.lock().unwrap_or_else(PoisonError::into_inner) = content;
        Ok(())
    }

    /// Whether nobody has taken the run over, or one around it: the lock file is still the one that the owner wrote.
    ///
    /// # Errors
    /// Somebody has; nothing more may be written.
    pub(crate) fn still_mine(&self) -> Result<(), StoreError> {
        match self.files.links(&self.lock) {
            Ok(0) => Err(self.reason_of_loss()),
            Ok(_) => self.around.as_ref().map_or(Ok(()), |around| around.still_mine()),
            Err(error) => Err(StoreError::io("read", self.lock.path(), error)),
        }
    }

    /// The lock files of the run and of those around it. A file without a name, as a file system within the process may
    /// have it, is none.
    #[cfg(unix)]
    pub(crate) fn locks(&self) -> Vec<RawFd> {
        let mut locks = self
            .around
            .as_ref()
            .map(|around| around.locks())
            .unwrap_or_default();
        if SystemFiles.links(&self.lock).is_ok_and(|links| links > 0) {
            locks.push(self.lock.descriptor());
        }
        locks
    }

    /// Says why the lock file has no name any more: whoever takes a run over puts another in its place.
    fn reason_of_loss(&self) -> StoreError {
        let path = self.folder.join(LOCK);
        let present = self.files.open(&path, Access::Read);
        let is_missing = |path: &Path| {
            let found = std::fs::symlink_metadata(path);
            found.is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
        };
        if is_missing(&self.folder) || is_missing(&path) && is_missing(&self.folder.join(MANIFEST)) {
            return StoreError::FolderGone {
                path: self.folder.clone(),
            };
        }
        let by = present.as_ref().ok().and_then(read).map(|content| content.owner);
        match by.filter(|by| *by != self.content().owner) {
            Some(by) => StoreError::OwnershipLost {
                path: self.folder.clone(),
                by: Some(Box::new(by)),
            },
            None => StoreError::Tampered {
                path,
                expected: "the lock that this process wrote".to_owned(),
                found: match present {
                    Err(error) if error.kind() == ErrorKind::NotFound => "no file".to_owned(),
                    _ => "another in its place".to_owned(),
                },
            },
        }
    }

    /// Ends the ownership.
    pub(crate) fn release(&self) {
        // It ends with the process at the latest. To close the file is not enough while a program is being started that
        // has not let go of it yet.
        let _ = self.lock.unlock();
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        self.release();
    }
}

impl Content {
    #[cfg_attr(not(unix), allow(unused_variables))]
    fn new(epoch: u64, folder: &Path) -> Content {
        Content {
            owner: Owner {
                pid: std::process::id(),
                host: host(),
                program: program(),
                epoch,
                since: SystemClock::new().now(),
            },
            replacing: false,
            #[cfg(unix)]
            tools: Some(RunMark::of(folder)),
        }
    }

    fn text(&self, path: &Path) -> Result<Vec<u8>, StoreError> {
        let mut text = serde_json::to_vec(self).map_err(|source| StoreError::Json {
            path: path.to_owned(),
            source,
        })?;
        text.push(b'\n');
        Ok(text)
    }
}

/// Ends what an earlier owner has left running, before the new one runs anything. An owner that ended in order, or whose
/// watcher ended its tools, has left nothing.
#[cfg(unix)]
fn end_tools_of(previous: &Content, folder: &Path, taken_over: bool) -> Result<(), StoreError> {
    let Some(mark) = previous
        .tools
        .as_ref()
        .filter(|mark| taken_over || !mark.is_own())
    else {
        return Ok(());
    };
    if previous.owner.host != host() {
        if taken_over {
            tracing::warn!(
                owner = %previous.owner,
                "tools of the earlier owner cannot be ended from this host; end them there"
            );
        }
        return Ok(());
    }
    if end_tools(mark, TOOLS_END) || cfg!(not(target_os = "linux")) {
        return Ok(());
    }
    let reason = "tools of the earlier owner of the run cannot be ended";
    // A look at a process takes a few files; where these cannot be had, that is why.
    let looks: io::Result<Vec<_>> = (0..4).map(|_| std::fs::File::open("/proc/self/stat")).collect();
    let error = looks
        .err()
        .unwrap_or_else(|| io::Error::new(ErrorKind::TimedOut, reason));
    Err(StoreError::io("take over", folder, error))
}

#[cfg(not(unix))]
fn end_tools_of(_: &Content, _: &Path, _: bool) -> Result<(), StoreError> {
    Ok(())
}

/// Who owns a run now; `None` if nobody does.
pub(crate) fn present(files: &dyn FileSystem, folder: &Path) -> Result<Option<Owner>, StoreError> {
    let path = folder.join(LOCK);
    // Without the guard, who looks could be taken for an owner by one who is about to become it.
    let guard = guard(files, folder)?;
    let held = match files.open(&path, Access::Read) {
        Ok(held) => held,
        Err(error) if error.kind() == ErrorKind::NotFound || obstacle::is_no_file(&path) => return Ok(None),
        Err(error) => return Err(StoreError::io("open", &path, error)),
    };
    let free = match &guard {
        Some(_) => is_free(files, &held)?,
        None => false,
    };
    if free {
        let _ = held.unlock();
        return Ok(None);
    }
    Ok(read(&held).map(|content| content.owner))
}

/// Takes the lock, unless somebody has it.
fn is_free(files: &dyn FileSystem, lock: &OpenFile) -> Result<bool, StoreError> {
    let failed = |error| StoreError::io("lock", lock.path(), error);
    for _ in 0..GHOST_TRIES {
        if files.try_lock(lock).map_err(failed)? {
            return Ok(true);
        }
        // A process that was killed while it started another leaves its lock to that one, until that one is itself.
        if !read(lock).is_some_and(|content| is_gone(&content.owner)) {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
    files.try_lock(lock).map_err(failed)
}

/// Whether an owner is a process of this machine that is not there any more.
#[cfg(unix)]
fn is_gone(owner: &Owner) -> bool {
    let pid = i32::try_from(owner.pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let gone = |pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
    owner.host == host() && pid.is_some_and(gone)
}

#[cfg(not(unix))]
fn is_gone(_: &Owner) -> bool {
    false
}

/// The epoch of a run's latest owner; 0 where it is not known.
pub(super) fn epoch(files: &dyn FileSystem, folder: &Path) -> u64 {
    let lock = files.open(&folder.join(LOCK), Access::Read).ok();
    lock.as_ref()
        .and_then(read)
        .map_or(0, |content| content.owner.epoch)
}

fn owned(folder: &Path, by: Option<Owner>) -> StoreError {
    StoreError::Owned {
        path: folder.to_owned(),
        by: by.map(Box::new),
    }
}

fn read(lock: &OpenFile) -> Option<Content> {
    let text = lock.read_from(0, MOST).ok()?;
    serde_json::from_slice(&text).ok()
}

/// A lock on a folder, for short business with what is in it.
pub(super) struct Guard(Option<OpenFile>);

impl Drop for Guard {
    fn drop(&mut self) {
        // To close it is not enough while a program is being started that has not let go of it yet.
        let _ = self.0.as_ref().map(OpenFile::unlock);
    }
}

/// Keeps others out of a folder for a moment; `None` if somebody else does for long. Where the system cannot lock a
/// folder nobody is kept out.
pub(super) fn guard(files: &dyn FileSystem, folder: &Path) -> Result<Option<Guard>, StoreError> {
    if !cfg!(unix) {
        return Ok(Some(Guard(None)));
    }
    let opened = files
        .open(folder, Access::Folder)
        .map_err(|error| StoreError::io("open", folder, error))?;
    for _ in 0..TRIES {
        match files.try_lock(&opened) {
            Ok(true) => return Ok(Some(Guard(Some(opened)))),
            Ok(false) => std::thread::sleep(PAUSE),
            Err(_) => return Ok(Some(Guard(None))),
        }
    }
    Ok(None)
}

/// The process that has locked a folder, where the system tells.
#[cfg(target_os = "linux")]
fn locked_by(folder: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let inode = std::fs::metadata(folder).ok()?.ino().to_string();
    // A line is `1: FLOCK  ADVISORY  WRITE 4242 fe:00:1234 0 EOF`.
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let is_lock = words.next() == Some("FLOCK");
        let (pid, place) = (words.nth(2)?, words.next()?);
        let (_, locked) = place.rsplit_once(':')?;
        (is_lock && locked == inode).then(|| pid.parse().ok())?
    })
}

#[cfg(not(target_os = "linux"))]
fn locked_by(_: &Path) -> Option<u32> {
    None
}

/// Puts a lock file into place that is complete and locked; `held` is the one before, which nobody else has locked.
fn publish(
    files: &dyn FileSystem,
    path: &Path,
    held: Option<OpenFile>,
    content: &Content,
) -> Result<OpenFile, StoreError> {
    let failed = |error| StoreError::io("write", path, error);
    let text = content.text(path)?;
    if let Some(held) = held.filter(|_| !cfg!(unix)) {
        files.write_at(&held, &text, 0).map_err(failed)?;
        files.set_length(&held, text.len() as u64).map_err(failed)?;
        return Ok(held);
    }
    let draft = draft(path, content.owner.epoch);
    remove_if_there(files, &draft)?;
    let made = files.open(&draft, Access::New).map_err(failed)?;
    let done = files.write_at(&made, &text, 0).and_then(|()| {
        if !files.try_lock(&made)? {
            return Err(io::Error::from(ErrorKind::WouldBlock));
        }
        Ok(())
    });
    let done = done.map_err(failed);
    match done.and_then(|()| obstacle::replace(files, &draft, path)) {
        Ok(()) => Ok(made),
        Err(error) => {
            let _ = files.remove(&draft);
            Err(error)
        }
    }
}

/// Where a file is written before it is moved to its place. No two owners of a run have the same drafts.
pub(super) fn draft(path: &Path, epoch: u64) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{epoch}.tmp"))
}

/// Removes a file, if it is there.
pub(super) fn remove_if_there(files: &dyn FileSystem, path: &Path) -> Result<(), StoreError> {
    obstacle::remove_file(files, path)
}

/// Removes what earlier owners have not moved to its place, so that they never will.
fn remove_drafts(files: &dyn FileSystem, folder: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("read", folder, error);
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let text = name.to_string_lossy();
        if text.starts_with('.') && text.ends_with(".tmp") {
            let path = folder.join(&name);
            remove_if_there(files, &path)?;
        }
    }
    Ok(())
}

/// Replaces a file by a copy of itself, without the zeros at its end.
fn copy(files: &dyn FileSystem, folder: &Path, name: &str) -> Result<(), StoreError> {
    let path = folder.join(name);
    let old = match files.open(&path, Access::Read) {
        Ok(old) => old,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::io("open", &path, error)),
    };
    let draft = folder.join(format!(".{name}.tmp"));
    let failed = |error| StoreError::io("write", &draft, error);
    let new = files.open(&draft, Access::New).map_err(failed)?;
    let mut offset = 0;
    loop {
        let mut bytes = old
            .read_from(offset, COPIED)
            .map_err(|error| StoreError::io("read", &path, error))?;
        let read = bytes.len() as u64;
        let end = bytes.iter().rposition(|byte| *byte != 0);
        bytes.truncate(end.map_or(0, |last| last + 1));
        if !bytes.is_empty() {
            files.write_at(&new, &bytes, offset).map_err(failed)?;
        }
        offset += read;
        if read < COPIED {
            break;
        }
    }
    files.sync_all(&new).map_err(failed)?;
    files
        .rename(&draft, &path)
        .map_err(|error| StoreError::io("replace", &path, error))
}

pub(super) fn sync_folder(files: &dyn FileSystem, folder: &Path) -> Result<(), StoreError> {
    files
        .sync_folder(folder)
        .map_err(|error| StoreError::io("sync", folder, error))
}

/// The name of this machine.
pub(crate) fn host() -> String {
    static HOST: LazyLock<String> = LazyLock::new(|| {
        #[cfg(unix)]
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        #[cfg(not(unix))]
        let name = std::env::var("COMPUTERNAME").unwrap_or_default();
        name
    });
    HOST.clone()
}

/// The name of this program.
fn program() -> String {
    static PROGRAM: LazyLock<String> = LazyLock::new(|| {
        let path = std::env::current_exe().ok();
        let name = path
            .as_deref()
            .and_then(Path::file_name)
            .map(OsStr::to_string_lossy);
        name.map_or_else(String::new, |name| name.into_owned())
    });
    PROGRAM.clone()
}
