//! The log by which the runs of one process share their syncs, and its recovery after a loss of power.
//!
//! It is stored in `.commits` beside the run folders. Each entry contains lines of one journal and their offset. The
//! journal contains them too, but perhaps not yet durably. A process keeps its log locked, so a log without a lock
//! belongs to a process that has ended.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::files::{Access, FileSystem, OpenFile};
use super::guard::{Guard, guard};
use super::ownership::{self, remove_if_there, sync_folder};
use super::read::read_manifest;
use super::{JOURNAL, StoreError};

/// The folder of the logs.
const FOLDER: &str = ".commits";
/// The mark at the beginning of each entry.
const MARK: &[u8; 4] = b"OCL1";
/// The length in bytes of mark, length and checksum.
const HEAD: usize = 12;
/// The preallocated size of a log in bytes. A log that has grown larger is replaced.
pub(super) const SIZE: u64 = 8 << 20;
/// The number of times, a few seconds each, to wait for other processes that are recovering runs.
const PATIENCE: u32 = 30;

/// The run that lines belong to: the name of its folder, its identity among runs of that name, and its owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Whose {
    pub(super) folder: String,
    pub(super) identity: u64,
    pub(super) fencing_token: u64,
}

/// Appends an entry.
pub(super) fn write(out: &mut Vec<u8>, whose: &Whose, offset: u64, lines: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD]);
    out.extend_from_slice(&whose.identity.to_le_bytes());
    out.extend_from_slice(&whose.fencing_token.to_le_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&(whose.folder.len() as u32).to_le_bytes());
    out.extend_from_slice(whose.folder.as_bytes());
    out.extend_from_slice(lines);
    let entry = out.get_mut(start..).unwrap_or_default();
    if let Some((head, body)) = entry.split_first_chunk_mut::<HEAD>() {
        let (length, sum) = (
            (body.len() as u32).to_le_bytes(),
            crc32fast::hash(body).to_le_bytes(),
        );
        let numbers = MARK.iter().chain(&length).chain(&sum);
        head.iter_mut()
            .zip(numbers)
            .for_each(|(byte, number)| *byte = *number);
    }
}

/// Parses an entry. Returns its parts and its length.
fn parse(bytes: &[u8]) -> Option<(Whose, u64, &[u8], usize)> {
    let number = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    if !bytes.starts_with(MARK) {
        return None;
    }
    let body = bytes.get(HEAD..)?.get(..number(4)? as usize)?;
    if crc32fast::hash(body) != number(8)? {
        return None;
    }
    let (identity, rest) = body.split_first_chunk()?;
    let (fencing_token, rest) = rest.split_first_chunk()?;
    let (offset, rest) = rest.split_first_chunk()?;
    let (name, rest) = rest.split_first_chunk()?;
    let (folder, lines) = rest.split_at_checked(u32::from_le_bytes(*name) as usize)?;
    let whose = Whose {
        folder: std::str::from_utf8(folder).ok()?.to_owned(),
        identity: u64::from_le_bytes(*identity),
        fencing_token: u64::from_le_bytes(*fencing_token),
    };
    Some((whose, u64::from_le_bytes(*offset), lines, HEAD + body.len()))
}

/// A log that this process writes.
pub(super) struct Log {
    file: OpenFile,
    /// The number of bytes that are written and synced.
    pub(super) length: u64,
}

impl Log {
    /// Creates a log beside the run folders.
    pub(super) fn create(files: &dyn FileSystem, runs: &Path) -> Result<Log, StoreError> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let folder = runs.join(FOLDER);
        match files.make_folder(&folder) {
            Ok(()) => sync_folder(files, runs)?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(StoreError::io("make", &folder, error)),
        }
        // The guard keeps other processes from taking the unlocked log for an abandoned one.
        let guard = guard(files, &folder)?;
        if guard.is_none() {
            return Err(StoreError::io("lock", &folder, ErrorKind::WouldBlock.into()));
        }
        let file = loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{}-{number}.log", std::process::id()));
            match files.open(&path, Access::New) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                opened => break opened.map_err(|error| StoreError::io("make", &path, error))?,
            }
        };
        let made = lock(files, &file).and_then(|()| {
            // Without reserved space the log is only slower.
            let _ = files.reserve(&file, 0, SIZE);
            sync_folder(files, &folder)
        });
        drop(guard);
        if let Err(error) = made {
            let _ = files.remove(file.path());
            return Err(error);
        }
        Ok(Log { file, length: 0 })
    }

    /// Appends entries and syncs the log.
    pub(super) fn append(&mut self, files: &dyn FileSystem, entries: &[u8]) -> io::Result<()> {
        if files.links(&self.file)? == 0 {
            return Err(io::Error::new(ErrorKind::NotFound, "the commit log was removed"));
        }
        files.write_at(&self.file, entries, self.length)?;
        files.sync_data(&self.file)?;
        self.length += entries.len() as u64;
        Ok(())
    }

    /// Removes the log, once the journals contain all of its lines.
    pub(super) fn remove(self, files: &dyn FileSystem) -> Result<(), StoreError> {
        remove_if_there(files, self.file.path())
    }
}

fn lock(files: &dyn FileSystem, file: &OpenFile) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("lock", file.path(), error);
    if files.try_lock(file).map_err(failed)? {
        Ok(())
    } else {
        Err(failed(ErrorKind::WouldBlock.into()))
    }
}

fn patient_guard(files: &dyn FileSystem, folder: &Path) -> Result<Guard, StoreError> {
    for _ in 0..PATIENCE {
        if let Some(guard) = guard(files, folder)? {
            return Ok(guard);
        }
    }
    let error = io::Error::new(ErrorKind::WouldBlock, "another process is restoring runs there");
    Err(StoreError::io("lock", folder, error))
}

/// Restores lines that ended processes have left only in their logs. Returns the number of bytes that the journal of
/// the run in a folder was missing.
///
/// # Errors
/// Fails if the logs cannot be read or the journal of that run cannot be written.
pub(super) fn recover(files: &dyn FileSystem, run: &Path) -> Result<u64, StoreError> {
    let (Some(runs), Some(name)) = (run.parent(), run.file_name()) else {
        return Ok(0);
    };
    let folder = runs.join(FOLDER);
    if logs(&folder)?.is_empty() {
        return Ok(0);
    }
    let _guard = patient_guard(files, &folder)?;
    let mut missing = 0;
    for path in logs(&folder)? {
        missing += recover_from(files, runs, name, &path)?;
    }
    Ok(missing)
}

fn logs(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |error| StoreError::io("read", folder, error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut logs = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            logs.push(path);
        }
    }
    logs.sort();
    Ok(logs)
}

fn recover_from(files: &dyn FileSystem, runs: &Path, run: &OsStr, path: &Path) -> Result<u64, StoreError> {
    let log = match files.open(path, Access::Change) {
        // Its process has just removed it.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        opened => opened.map_err(|error| StoreError::io("open", path, error))?,
    };
    let locked = files.try_lock(&log);
    if !locked.map_err(|error| StoreError::io("lock", path, error))? {
        return Ok(0);
    }
    let bytes = log
        .read_from(0, u64::MAX)
        .map_err(|error| StoreError::io("read", path, error))?;
    let mut entries: BTreeMap<Whose, Vec<(u64, &[u8])>> = BTreeMap::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        match parse(rest) {
            Some((whose, offset, lines, length)) => {
                entries.entry(whose).or_default().push((offset, lines));
                at += length;
            }
            // The last entry may be torn. Search for further entries all the same.
            None => {
                let next = rest.get(1..).and_then(|rest| memchr::memchr(MARK[0], rest));
                at = next.map_or(bytes.len(), |next| at + 1 + next);
            }
        }
    }
    let (mut missing, mut all) = (0, true);
    for (whose, entries) in entries {
        match restore(files, runs, &whose, &entries) {
            Ok(bytes) if *whose.folder == *run => missing += bytes,
            Ok(_) => {}
            Err(error) if *whose.folder == *run => return Err(error),
            // The error is reported to the process that opens that run.
            Err(_) => all = false,
        }
    }
    if all {
        remove_if_there(files, path)?;
    }
    Ok(missing)
}

/// Writes lines to a journal where it has none. Returns the number of missing bytes.
fn restore(
    files: &dyn FileSystem,
    runs: &Path,
    whose: &Whose,
    entries: &[(u64, &[u8])],
) -> Result<u64, StoreError> {
    let mut names = Path::new(&whose.folder).components();
    let (Some(Component::Normal(_)), None) = (names.next(), names.next()) else {
        return Ok(0);
    };
    let folder = runs.join(&whose.folder);
    let run = match read_manifest(files, &folder) {
        Err(StoreError::NoRun { .. }) => return Ok(0),
        manifest => manifest?,
    };
    // Skip another run of the same name, and a run that another process has resumed.
    if run.identity() != whose.identity || ownership::fencing_token(files, &folder) > whose.fencing_token {
        return Ok(0);
    }
    let path = folder.join(JOURNAL);
    let journal = match files.open(&path, Access::Change) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        opened => opened.map_err(|error| StoreError::io("open", &path, error))?,
    };
    let mut missing = 0;
    for (offset, lines) in entries {
        let found = journal
            .read_from(*offset, lines.len() as u64)
            .map_err(|error| StoreError::io("read", &path, error))?;
        let mut pairs = found.iter().zip(*lines);
        let same = found
            .iter()
            .zip(*lines)
            .filter(|(found, line)| found == line)
            .count();
        // Existing bytes that differ are damage, which the journal reports.
        if same < lines.len() && pairs.all(|(found, line)| found == line || *found == 0) {
            files
                .write_at(&journal, lines, *offset)
                .map_err(|error| StoreError::io("write", &path, error))?;
            missing += (lines.len() - same) as u64;
        }
    }
    files
        .sync_data(&journal)
        .map_err(|error| StoreError::io("sync", &path, error))?;
    Ok(missing)
}
