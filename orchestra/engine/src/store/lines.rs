//! The event file of a run: lines for people and indices, written after the journal.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::files::{Access, FileSystem, OpenFile};
use super::journal::forget;
use super::{StoreError, checkpoint_number};
use crate::event::{EventOrigin, RunEvent};

/// The number of waiting bytes after which events are written without a request.
const FULL: usize = 64 << 10;
/// Minimum number of bytes that are read at once when lines are searched from the end.
const TAIL: u64 = 4 << 10;
/// Maximum length of an event line in bytes.
const LONGEST: u64 = 64 << 20;
/// The events that name a journal record that was durable before them.
const NAMES_A_RECORD: [&str; 2] = ["CheckpointSaved", "PipelineResumed"];

pub(super) struct EventFile {
    files: Arc<dyn FileSystem>,
    file: OpenFile,
    inner: Mutex<Inner>,
}

struct Inner {
    /// The length of the file in bytes.
    length: u64,
    /// Events that are not written yet.
    waiting: Vec<u8>,
    /// `true` after a failure. Nothing more is written, so that the file never has a gap.
    broken: bool,
    /// `true` as long as nothing may be written. Events that an earlier process lost are emitted again, and count only
    /// with a record from which the next process knows that they were emitted.
    held: bool,
    /// `true` if counted events wait that will not be emitted again.
    uncaused: bool,
}

/// The content of an event file when it was opened.
pub(super) struct Found {
    /// The number of events.
    pub(super) events: u64,
    /// `true` if the last event reports the end of the run.
    pub(super) ended: bool,
    /// The length of an incomplete last line in bytes, which is cut off.
    pub(super) torn: u64,
}

impl EventFile {
    pub(super) fn create(files: Arc<dyn FileSystem>, path: &Path) -> Result<EventFile, StoreError> {
        let file = files
            .open(path, Access::New)
            .map_err(|error| StoreError::io("make", path, error))?;
        Ok(EventFile::new(files, file, 0))
    }

    /// Opens a file for appending after its last complete line. Creates it if it is missing.
    pub(super) fn open(files: Arc<dyn FileSystem>, path: &Path) -> Result<(EventFile, Found), StoreError> {
        let file = match files.open(path, Access::Change) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let found = Found {
                    events: 0,
                    ended: false,
                    torn: 0,
                };
                return Ok((EventFile::create(files, path)?, found));
            }
            opened => opened.map_err(|error| StoreError::io("open", path, error))?,
        };
        let failed = |error| StoreError::io("read", path, error);
        let length = file.length().map_err(failed)?;
        let sound = without_holes(&file, length).map_err(failed)?;
        let (last, end) = last_event(&file, sound).map_err(failed)?;
        if end < length {
            files
                .set_length(&file, end)
                .map_err(|error| StoreError::io("cut", path, error))?;
            // Otherwise a loss of power could leave a part of the old bytes after a part of the new ones.
            files
                .sync_all(&file)
                .map_err(|error| StoreError::io("sync", path, error))?;
        }
        let torn = length - end;
        let found = Found {
            events: last.seq,
            ended: EventOrigin::from_name(&last.event) == EventOrigin::End,
            torn,
        };
        let events = EventFile::new(files, file, end);
        events.lock().held = true;
        Ok((events, found))
    }

    fn new(files: Arc<dyn FileSystem>, file: OpenFile, length: u64) -> EventFile {
        let inner = Mutex::new(Inner {
            length,
            waiting: Vec::new(),
            broken: false,
            held: false,
            uncaused: false,
        });
        EventFile { files, file, inner }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event to the waiting ones.
    pub(super) fn add(&self, event: &RunEvent) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let before = inner.waiting.len();
        if let Err(source) = serde_json::to_writer(&mut inner.waiting, event) {
            inner.waiting.truncate(before);
            return Err(StoreError::Json {
                path: self.file.path().to_owned(),
                source,
            });
        }
        inner.waiting.push(b'\n');
        inner.uncaused |= !is_caused(event.kind.name(), event.kind.starts_again());
        if inner.waiting.len() >= FULL {
            self.hand_over(&mut inner)
        } else {
            Ok(())
        }
    }

    /// Allows waiting events to be written.
    pub(super) fn release(&self) {
        self.lock().held = false;
    }

    /// Writes the waiting events if some of them would be lost for good with this process. A record counts the events
    /// before it, and the events that are emitted again must arrive at the same number.
    pub(super) fn flush_uncaused(&self) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if inner.uncaused {
            self.hand_over(&mut inner)
        } else {
            Ok(())
        }
    }

    /// Writes the waiting events to the file, in one call.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        self.hand_over(&mut self.lock())
    }

    fn hand_over(&self, inner: &mut Inner) -> Result<(), StoreError> {
        if inner.waiting.is_empty() || inner.broken || inner.held {
            return Ok(());
        }
        let unchanged = self.file.mark().check(self.file.path(), inner.length);
        if unchanged.is_err() {
            inner.broken = true;
            return unchanged;
        }
        if let Err(error) = self.files.write_at(&self.file, &inner.waiting, inner.length) {
            inner.broken = true;
            // Remove a partially written line.
            let _ = self.files.set_length(&self.file, inner.length);
            return Err(StoreError::io("write", self.file.path(), error));
        }
        inner.length += inner.waiting.len() as u64;
        inner.uncaused = false;
        forget(&mut inner.waiting);
        Ok(())
    }

    /// Returns the number of events after a sequence number that follow from the journal. Reading the journal emits
    /// them again.
    pub(super) fn caused_behind(&self, seq: u64) -> Result<u64, StoreError> {
        let failed = |error| StoreError::io("read", self.file.path(), error);
        let length = self.lock().length;
        let mut lines = LinesFromEnd::new(&self.file, length);
        let mut caused = 0;
        while let Some((line, _)) = lines.next().map_err(failed)? {
            match serde_json::from_slice::<LineFields>(line) {
                Ok(event) if event.seq <= seq => break,
                Ok(event) => caused += u64::from(event.is_caused()),
                Err(_) => {}
            }
        }
        Ok(caused)
    }

    /// Writes the waiting events and syncs the file.
    pub(super) fn close(&self) -> Result<(), StoreError> {
        self.flush()?;
        self.files
            .sync_data(&self.file)
            .map_err(|error| StoreError::io("sync", self.file.path(), error))
    }
}

/// The relevant fields of an event line.
#[derive(Default, serde::Deserialize)]
struct LineFields {
    seq: u64,
    #[serde(default)]
    event: String,
    #[serde(default)]
    repeat: bool,
    #[serde(default)]
    replay: bool,
    #[serde(default)]
    run: Option<String>,
    #[serde(default)]
    checkpoint: Option<String>,
}

impl LineFields {
    fn is_caused(&self) -> bool {
        is_caused(&self.event, self.repeat || self.replay)
    }
}

/// Returns whether an event follows from the journal, so that reading the journal emits it again.
fn is_caused(event: &str, repeat: bool) -> bool {
    !repeat && EventOrigin::from_name(event) == EventOrigin::Journal
}

/// The evidence in an event file about the run and its journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Proof {
    /// The run of the last event.
    pub(super) run: Option<String>,
    /// The number of the last record that an event names. All records up to it were durable when the event was written.
    pub(super) record: Option<u64>,
}

/// Reads the evidence in an event file. Returns an empty proof if the file is missing.
pub(super) fn proof(files: &dyn FileSystem, path: &Path) -> Result<Proof, StoreError> {
    let file = match files.open(path, Access::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Proof::default()),
        opened => opened.map_err(|error| StoreError::io("open", path, error))?,
    };
    let failed = |error| StoreError::io("read", path, error);
    let mut lines = LinesFromEnd::new(&file, file.length().map_err(failed)?);
    let mut proof = Proof::default();
    while let Some((line, _)) = lines.next().map_err(failed)? {
        let Ok(event) = serde_json::from_slice::<LineFields>(line) else {
            continue;
        };
        if proof.run.is_none() {
            proof.run = event.run;
        }
        if NAMES_A_RECORD.contains(&&*event.event)
            && let Some(record) = event.checkpoint.as_deref().and_then(checkpoint_number)
        {
            proof.record = Some(record);
            break;
        }
    }
    Ok(proof)
}

/// Returns the length of a file before its first line with a zero byte. No event contains one. Events are not synced
/// one by one, so a loss of power may leave a hole with later events after it. All of them are emitted again.
fn without_holes(file: &OpenFile, length: u64) -> std::io::Result<u64> {
    let (mut at, mut line) = (0, 0);
    while at < length {
        let bytes = file.read_from(at, (length - at).min(FULL as u64))?;
        let hole = bytes.iter().position(|byte| *byte == 0);
        let sound = bytes.get(..hole.unwrap_or(bytes.len())).unwrap_or_default();
        if let Some(newline) = last_newline(sound) {
            line = at + newline as u64 + 1;
        }
        if hole.is_some() || bytes.is_empty() {
            return Ok(line);
        }
        at += bytes.len() as u64;
    }
    Ok(length)
}

/// Returns the last event with a complete line, and the position after that line.
fn last_event(file: &OpenFile, length: u64) -> std::io::Result<(LineFields, u64)> {
    let mut lines = LinesFromEnd::new(file, length);
    // Skip invalid lines, such as lines of zeros.
    while let Some((line, end)) = lines.next()? {
        if let Ok(last) = serde_json::from_slice(line) {
            return Ok((last, end));
        }
    }
    Ok((LineFields::default(), 0))
}

/// The complete lines of a file, from the last to the first. Text after the last line feed is ignored. Holds at most a
/// line and a chunk of the file.
struct LinesFromEnd<'f> {
    file: &'f OpenFile,
    /// The offset of `bytes` in the file.
    start: u64,
    bytes: Vec<u8>,
    /// The offset before which lines remain to be returned.
    end: u64,
}

impl<'f> LinesFromEnd<'f> {
    fn new(file: &'f OpenFile, length: u64) -> LinesFromEnd<'f> {
        LinesFromEnd {
            file,
            start: length,
            bytes: Vec::new(),
            end: length,
        }
    }

    /// Returns the previous line without its line feed, and the position after it.
    fn next(&mut self) -> std::io::Result<Option<(&[u8], u64)>> {
        let Some(feed) = self.feed_before(self.end)? else {
            return Ok(None);
        };
        let line = self.feed_before(feed)?.map_or(0, |before| before + 1);
        self.end = line;
        let at = |offset: u64| offset.saturating_sub(self.start) as usize;
        let text = self.bytes.get(at(line)..at(feed)).unwrap_or_default();
        Ok(Some((text, feed + 1)))
    }

    /// Returns the position of the last line feed before an offset. Reads further bytes as needed.
    fn feed_before(&mut self, end: u64) -> std::io::Result<Option<u64>> {
        let mut searched = end;
        loop {
            let (from, to) = (0, searched.saturating_sub(self.start) as usize);
            let found = self.bytes.get(from..to).and_then(last_newline);
            if let Some(at) = found {
                return Ok(Some(self.start + at as u64));
            }
            if self.start == 0 {
                return Ok(None);
            }
            searched = self.start;
            // Drop the bytes of lines that were returned.
            let kept = self.end.saturating_sub(self.start) as usize;
            self.bytes.truncate(kept);
            if self.bytes.len() as u64 > LONGEST {
                return Err(std::io::ErrorKind::FileTooLarge.into());
            }
            let more = self.start.min(TAIL.max(self.bytes.len() as u64));
            let mut bytes = self.file.read_from(self.start - more, more)?;
            if bytes.len() as u64 != more {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            bytes.append(&mut self.bytes);
            self.bytes = bytes;
            self.start -= more;
        }
    }
}

fn last_newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().rposition(|byte| *byte == b'\n')
}
