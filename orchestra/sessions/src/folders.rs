//! The run folders: the truth from which the index is made.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use orchestra_engine::{Disk, RunId};
use serde_json::Value;

use crate::error::SessionError;
use crate::private;

const MANIFEST: &str = "manifest.json";
const EVENTS: &str = "events.jsonl";
/// Holds a file for each run that has its folder elsewhere: its name is the run's, its text the path. Without it, the
/// index could not be made anew from what is there. No run can bear a name with a dot in front.
const ELSEWHERE: &str = ".elsewhere";
/// A longer line is passed over.
const LONGEST_LINE: u64 = 16 << 20;
/// The longest path that is read from a file, in bytes.
const LONGEST_PATH: u64 = 64 << 10;
/// A manifest is small; what is larger is none.
const LARGEST_MANIFEST: u64 = 16 << 20;
/// By so much of what was read last a file is known again.
const TAIL: usize = 4_096;

/// Where runs are.
pub(crate) struct Folders {
    root: PathBuf,
}

/// A run that is there.
pub(crate) struct Found {
    pub(crate) folder: PathBuf,
    pub(crate) elsewhere: bool,
    /// Changes when the manifest does.
    pub(crate) stamp: i64,
    /// How long its events are.
    pub(crate) size: u64,
}

impl Folders {
    pub(crate) fn new(root: PathBuf) -> Folders {
        Folders { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The run of a name, in the runs folder or elsewhere.
    pub(crate) fn find(&self, run: &RunId) -> Option<Found> {
        let folder = self.root.join(&**run);
        if let Some(found) = look(&folder, false) {
            return Some(found);
        }
        let folder = self.pointer(run)?;
        let found = look(&folder, true)?;
        // Another run may have taken the folder since.
        (manifest(&folder).ok()?["run"] == **run).then_some(found)
    }

    /// All runs that are there.
    ///
    /// # Errors
    /// The runs folder cannot be read.
    pub(crate) fn all(&self) -> Result<BTreeMap<RunId, Found>, SessionError> {
        let mut all = BTreeMap::new();
        for run in names(&self.root)?
            .into_iter()
            .chain(names(&self.root.join(ELSEWHERE))?)
        {
            if !all.contains_key(&run)
                && let Some(found) = self.find(&run)
            {
                all.insert(run, found);
            }
        }
        Ok(all)
    }

    /// Which run a folder holds. One that lies elsewhere is remembered.
    ///
    /// # Errors
    /// The folder holds no run, or one that bears the name of another.
    pub(crate) fn accept(&self, folder: &Path) -> Result<RunId, SessionError> {
        let not_a_run = |reason: String| SessionError::NotARun {
            folder: folder.to_owned(),
            reason,
        };
        let real = fs::canonicalize(folder).map_err(|source| SessionError::io("find", folder, source))?;
        if look(&real, true).is_none() {
            return Err(not_a_run(format!("it has no `{MANIFEST}`")));
        }
        let inside = fs::canonicalize(&self.root).ok().as_deref() == real.parent();
        if inside {
            let name = real
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            return RunId::new(name).map_err(|error| not_a_run(error.to_string()));
        }
        let manifest =
            manifest(&real).map_err(|source| SessionError::io("read", &real.join(MANIFEST), source))?;
        let name = manifest["run"].as_str().unwrap_or_default();
        let run =
            RunId::new(name).map_err(|error| not_a_run(format!("its `{MANIFEST}` names no run: {error}")))?;
        let taken_by = self.root.join(name);
        if look(&taken_by, false).is_some() {
            return Err(SessionError::Taken {
                run,
                folder: real,
                taken_by,
            });
        }
        self.remember(&run, &real)?;
        Ok(run)
    }

    /// Forgets a run that has its folder elsewhere.
    ///
    /// # Errors
    /// What remembers it cannot be removed.
    pub(crate) fn forget(&self, run: &RunId) -> Result<(), SessionError> {
        let path = self.root.join(ELSEWHERE).join(&**run);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(SessionError::io("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    fn remember(&self, run: &RunId, folder: &Path) -> Result<(), SessionError> {
        let pointers = self.root.join(ELSEWHERE);
        let path = pointers.join(&**run);
        // A draft of its own for each process: two may accept a run at once.
        let draft = pointers.join(format!(".{run}.{}", std::process::id()));
        fs::create_dir_all(&pointers)
            .and_then(|()| private::write(&draft, &path_bytes(folder)))
            .and_then(|()| fs::rename(&draft, &path))
            .map_err(|source| SessionError::io("write", &path, source))
    }

    /// Where a run lies that is not in the runs folder.
    pub(crate) fn pointer(&self, run: &RunId) -> Option<PathBuf> {
        let path = self.root.join(ELSEWHERE).join(&**run);
        let plain = fs::symlink_metadata(&path).ok()?.is_file();
        let bytes = plain
            .then(|| Disk::read_at_most(&path, LONGEST_PATH).ok())
            .flatten();
        bytes.map(path_of_bytes)
    }
}

/// The names in a folder that a run can bear; none where there is no folder.
fn names(folder: &Path) -> Result<Vec<RunId>, SessionError> {
    let failed = |source| SessionError::io("read", folder, source);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        names.extend(name.into_string().ok().and_then(|name| RunId::new(name).ok()));
    }
    Ok(names)
}

/// What is in a run folder. The engine makes plain folders and files; a link in their place is not followed.
fn look(folder: &Path, elsewhere: bool) -> Option<Found> {
    if !fs::symlink_metadata(folder).ok()?.is_dir() {
        return None;
    }
    let manifest = fs::symlink_metadata(folder.join(MANIFEST)).ok()?;
    let events = fs::symlink_metadata(folder.join(EVENTS)).ok();
    manifest.is_file().then(|| Found {
        folder: folder.to_owned(),
        elsewhere,
        stamp: stamp(&manifest),
        size: events.filter(Metadata::is_file).map_or(0, |events| events.len()),
    })
}

fn stamp(manifest: &Metadata) -> i64 {
    let changed = manifest.modified().ok();
    let changed = changed.and_then(|changed| changed.duration_since(UNIX_EPOCH).ok());
    let nanos = changed.unwrap_or_default().as_nanos();
    hash(&[&manifest.len().to_le_bytes()[..], &nanos.to_le_bytes()].concat())
}

/// What the manifest says. One that cannot be understood says nothing, and the run is listed all the same.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn manifest(folder: &Path) -> io::Result<Value> {
    let mut text = Vec::new();
    let file = Disk::open(folder.join(MANIFEST))?;
    file.take(LARGEST_MANIFEST).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).unwrap_or_default())
}

/// How far the events of a run were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Behind which byte to go on.
    pub(crate) offset: u64,
    /// How many bytes before it are known by their hash.
    pub(crate) tail_length: u64,
    /// Their hash.
    pub(crate) tail: i64,
}

/// The events of a run behind a cursor.
pub(crate) struct Events {
    reader: Option<BufReader<File>>,
    line: Vec<u8>,
    cursor: Cursor,
}

/// A line of a file.
pub(crate) enum Line<'l> {
    /// A whole one, without its end.
    Whole(&'l [u8]),
    /// One that is too long to be read.
    TooLong,
}

impl Events {
    /// Opens the events at a cursor; nothing where the file is not the one any more in which the cursor stood.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn open(folder: &Path, cursor: Cursor) -> io::Result<Option<Events>> {
        let path = folder.join(EVENTS);
        let plain = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            found => found?.is_file(),
        };
        if !plain {
            let events = Events {
                reader: None,
                line: Vec::new(),
                cursor,
            };
            return Ok((cursor.offset == 0).then_some(events));
        }
        let mut file = Disk::open(&path)?;
        if cursor.offset > 0 {
            let Some(start) = cursor.offset.checked_sub(cursor.tail_length) else {
                return Ok(None);
            };
            let mut tail = Vec::new();
            file.seek(SeekFrom::Start(start))?;
            file.by_ref().take(cursor.tail_length).read_to_end(&mut tail)?;
            if tail.len() as u64 != cursor.tail_length || hash(&tail) != cursor.tail {
                return Ok(None);
            }
        }
        Ok(Some(Events {
            reader: Some(BufReader::with_capacity(64 << 10, file)),
            line: Vec::new(),
            cursor,
        }))
    }

    /// How far was read.
    pub(crate) fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// The next line; nothing at the end, and where the last line is not whole yet.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let Some(reader) = &mut self.reader else {
            return Ok(None);
        };
        self.line.clear();
        let mut length = reader
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut self.line)? as u64;
        let mut whole = self.line.ends_with(b"\n");
        let too_long = !whole && length == LONGEST_LINE;
        while too_long && !whole {
            let more = reader.fill_buf()?;
            if more.is_empty() {
                break;
            }
            let end = more.iter().position(|byte| *byte == b'\n');
            whole = end.is_some();
            let used = end.map_or(more.len(), |end| end + 1);
            // Only the end is needed, to know the place again.
            self.line.drain(..self.line.len().saturating_sub(TAIL));
            self.line.extend_from_slice(&more[..used]);
            reader.consume(used);
            length += used as u64;
        }
        if !whole {
            return Ok(None);
        }
        let tail = &self.line[self.line.len().saturating_sub(TAIL)..];
        self.cursor = Cursor {
            offset: self.cursor.offset + length,
            tail_length: tail.len() as u64,
            tail: hash(tail),
        };
        Ok(Some(match too_long {
            true => Line::TooLong,
            false => Line::Whole(self.line.strip_suffix(b"\n").unwrap_or(&self.line)),
        }))
    }
}

/// A number made of some bytes (FNV-1a).
fn hash(bytes: &[u8]) -> i64 {
    let number = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |number, byte| {
        (number ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    number.cast_signed()
}

#[cfg(unix)]
fn path_bytes(path: &Path) -> Vec<u8> {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec()
}

#[cfg(unix)]
fn path_of_bytes(bytes: Vec<u8>) -> PathBuf {
    let text: std::ffi::OsString = std::os::unix::ffi::OsStringExt::from_vec(bytes);
    text.into()
}

#[cfg(not(unix))]
fn path_bytes(path: &Path) -> Vec<u8> {
    path.to_string_lossy().into_owned().into_bytes()
}

#[cfg(not(unix))]
fn path_of_bytes(bytes: Vec<u8>) -> PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}
