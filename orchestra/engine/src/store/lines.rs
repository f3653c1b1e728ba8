//! The file of a run's events: lines for people and indices, written behind the journal.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::files::{Access, FileSystem, OpenFile};
use super::journal::forget;
use super::{StoreError, checkpoint_number};
use crate::event::{EventKind, RunEvent};

/// So many bytes of events are handed over even before somebody asks.
const FULL: usize = 64 << 10;
/// How much is read at least, from the end on, to find lines.
const TAIL: u64 = 4 << 10;
/// A longer line is none of an event.
const LONGEST: u64 = 64 << 20;
/// The events that name a record of the journal which was durable before them.
const NAMES_A_RECORD: [&str; 2] = ["CheckpointSaved", "PipelineResumed"];
/// The events behind which none follows.
const ENDS: [&str; 3] = ["PipelineCompleted", "PipelineFailed", "PipelineCancelled"];
/// The others that do not follow from what the journal holds.
const UNCAUSED: [&str; 7] = [
    "PipelinePaused",
    "PipelineResumed",
    "PipelineWarning",
    "StageLog",
    "SteeringRead",
    "StageWarning",
    "ToolCallCompleted",
];

pub(super) struct EventFile {
    files: Arc<dyn FileSystem>,
    file: OpenFile,
    inner: Mutex<Inner>,
}

struct Inner {
    /// The bytes that the file has.
    length: u64,
    /// Lines that nobody can see yet.
    waiting: Vec<u8>,
    /// After a failure nothing more is written: a file with a gap would lie.
    broken: bool,
    /// Nothing is written yet: what an earlier process lost is told anew, and counts only with a record by which the
    /// next process knows that it was.
    held: bool,
    /// Whether events wait that nobody causes again, though they are counted.
    uncaused: bool,
}

/// What an event file held when it was opened.
pub(super) struct Found {
    /// How many events.
    pub(super) events: u64,
    /// Whether the last of them says how the run ended.
    pub(super) ended: bool,
    /// How many bytes of a last line that was not written to its end; they are cut off.
    pub(super) torn: u64,
}

impl EventFile {
    pub(super) fn create(files: Arc<dyn FileSystem>, path: &Path) -> Result<EventFile, StoreError> {
        let file = files
            .open(path, Access::New)
            .map_err(|error| StoreError::io("make", path, error))?;
        Ok(EventFile::new(files, file, 0))
    }

    /// Opens a file to go on behind its last line; one that is missing is made.
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
            // Else a loss of power could leave a part of what was cut behind a part of what comes next.
            files
                .sync_all(&file)
                .map_err(|error| StoreError::io("sync", path, error))?;
        }
        let torn = length - end;
        let found = Found {
            events: last.seq,
            ended: ENDS.contains(&&*last.event),
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

    /// Adds an event to those that wait.
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
        let repeat = matches!(event.kind, EventKind::StageStarted { repeat: true, .. });
        inner.uncaused |= !is_caused(event.kind.name(), repeat);
        match inner.waiting.len() >= FULL {
            true => self.hand_over(&mut inner),
            false => Ok(()),
        }
    }

    /// Lets what is told anew be written.
    pub(super) fn release(&self) {
        self.lock().held = false;
    }

    /// Hands over what waits if a part of it would be lost for good with this process: a record counts the events before it,
    /// and those that are told anew must come to the same number.
    pub(super) fn flush_uncaused(&self) -> Result<(), StoreError> {
        let mut inner = self.lock();
        match inner.uncaused {
            true => self.hand_over(&mut inner),
            false => Ok(()),
        }
    }

    /// Hands what waits to the system, in one write.
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
            // A part of a line may be there; it is better gone.
            let _ = self.files.set_length(&self.file, inner.length);
            return Err(StoreError::io("write", self.file.path(), error));
        }
        inner.length += inner.waiting.len() as u64;
        inner.uncaused = false;
        forget(&mut inner.waiting);
        Ok(())
    }

    /// How many of the events behind a number follow from what the journal holds: whoever reads it causes them again.
    pub(super) fn caused_behind(&self, seq: u64) -> Result<u64, StoreError> {
        let failed = |error| StoreError::io("read", self.file.path(), error);
        let length = self.lock().length;
        let mut lines = LinesFromEnd::new(&self.file, length);
        let mut caused = 0;
        while let Some((line, _)) = lines.next().map_err(failed)? {
            match serde_json::from_slice::<Told>(line) {
                Ok(event) if event.seq <= seq => break,
                Ok(event) => caused += u64::from(event.is_caused()),
                Err(_) => {}
            }
        }
        Ok(caused)
    }

    /// Hands over what waits, and waits for the disk.
    pub(super) fn close(&self) -> Result<(), StoreError> {
        self.flush()?;
        self.files
            .sync_data(&self.file)
            .map_err(|error| StoreError::io("sync", self.file.path(), error))
    }
}

/// What counts of an event's line.
#[derive(Default, serde::Deserialize)]
struct Told {
    seq: u64,
    #[serde(default)]
    event: String,
    #[serde(default)]
    repeat: bool,
    #[serde(default)]
    run: Option<String>,
    #[serde(default)]
    checkpoint: Option<String>,
}

impl Told {
    fn is_caused(&self) -> bool {
        is_caused(&self.event, self.repeat)
    }
}

/// Returns whether an event follows from what the journal holds: whoever reads the journal causes it again.
fn is_caused(event: &str, repeat: bool) -> bool {
    !(repeat || ENDS.contains(&event) || UNCAUSED.contains(&event))
}

/// What a file of events says of the run, and of its journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Proof {
    /// The run that the last event is of.
    pub(super) run: Option<String>,
    /// The number of the last record that an event stands behind: records up to it were durable when it was written.
    pub(super) record: Option<u64>,
}

/// Reads what the events say of the journal. A file that is missing says nothing.
pub(super) fn proof(files: &dyn FileSystem, path: &Path) -> Result<Proof, StoreError> {
    let file = match files.open(path, Access::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Proof::default()),
        opened => opened.map_err(|error| StoreError::io("open", path, error))?,
    };
    let failed = |error| StoreError::io("read", path, error);
    let mut lines = LinesFromEnd::new(&file, file.length().map_err(failed)?);
    let mut proof = Proof::default();
    while let Some((line, _)) = lines.next().map_err(failed)? {
        let Ok(event) = serde_json::from_slice::<Told>(line) else {
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

/// Returns how much of a file comes before its first line with a zero. No event has one: nobody waits for the disk after
/// each event, so a loss of power may leave a hole with later events behind it, and all of them are told again.
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

/// The last event whose line is complete, and where that line ends.
fn last_event(file: &OpenFile, length: u64) -> std::io::Result<(Told, u64)> {
    let mut lines = LinesFromEnd::new(file, length);
    // Lines that are none, such as of zeros, are no events either.
    while let Some((line, end)) = lines.next()? {
        if let Ok(last) = serde_json::from_slice(line) {
            return Ok((last, end));
        }
    }
    Ok((Told::default(), 0))
}

/// The complete lines of a file, from the last to the first; what is behind the last line feed is none. It holds no more
/// of the file than a line and a chunk.
struct LinesFromEnd<'f> {
    file: &'f OpenFile,
    /// Where in the file the bytes begin.
    start: u64,
    bytes: Vec<u8>,
    /// How many bytes of the file are before those that are known to be of no line, or of one that was given.
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

    /// Returns the line before, without its line feed, and where the next one begins.
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

    /// Returns where the last line feed before an offset is; reads what is missing.
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
            // What lies behind was given already.
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
