//! The file of a run's events: lines for people and indices, written behind the journal.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::StoreError;
use super::files::{Access, FileSystem, OpenFile};
use super::journal::forget;
use crate::event::RunEvent;

/// So many bytes of events are handed over even before somebody asks.
const FULL: usize = 64 << 10;
/// How much is read at first to find the last line.
const TAIL: u64 = 4 << 10;
/// The events behind which none follows.
const ENDS: [&str; 3] = ["PipelineCompleted", "PipelineFailed", "PipelineCancelled"];
/// The others that do not follow from what the journal holds.
const UNCAUSED: [&str; 6] = [
    "PipelinePaused",
    "PipelineResumed",
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
        let (last, end) = last_event(&file, length).map_err(failed)?;
        if end < length {
            files
                .set_length(&file, end)
                .map_err(|error| StoreError::io("cut", path, error))?;
        }
        let torn = length - end;
        let found = Found {
            events: last.seq,
            ended: ENDS.contains(&&*last.event),
            torn,
        };
        Ok((EventFile::new(files, file, end), found))
    }

    fn new(files: Arc<dyn FileSystem>, file: OpenFile, length: u64) -> EventFile {
        let inner = Mutex::new(Inner {
            length,
            waiting: Vec::new(),
            broken: false,
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
        match inner.waiting.len() >= FULL {
            true => self.hand_over(&mut inner),
            false => Ok(()),
        }
    }

    /// Hands what waits to the system, in one write.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        self.hand_over(&mut self.lock())
    }

    fn hand_over(&self, inner: &mut Inner) -> Result<(), StoreError> {
        if inner.waiting.is_empty() || inner.broken {
            return Ok(());
        }
        if let Err(error) = self.files.write_at(&self.file, &inner.waiting, inner.length) {
            inner.broken = true;
            // A part of a line may be there; it is better gone.
            let _ = self.files.set_length(&self.file, inner.length);
            return Err(StoreError::io("write", self.file.path(), error));
        }
        inner.length += inner.waiting.len() as u64;
        forget(&mut inner.waiting);
        Ok(())
    }

    /// How many of the events behind a number follow from what the journal holds: whoever reads it causes them again.
    pub(super) fn caused_behind(&self, seq: u64) -> Result<u64, StoreError> {
        let failed = |error| StoreError::io("read", self.file.path(), error);
        let length = self.lock().length;
        let mut tail = TAIL;
        loop {
            let start = length.saturating_sub(tail);
            let bytes = self.file.read_from(start, length - start).map_err(failed)?;
            // The first line may be the rest of one.
            let lines = bytes.split(|byte| *byte == b'\n').skip(usize::from(start > 0));
            let events = lines.filter_map(|line| serde_json::from_slice::<Told>(line).ok());
            let mut events = events.peekable();
            if start == 0 || events.peek().is_some_and(|first| first.seq <= seq + 1) {
                let caused = events.filter(|event| event.seq > seq && event.is_caused());
                return Ok(caused.count() as u64);
            }
            tail = tail.saturating_mul(8);
        }
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
}

impl Told {
    fn is_caused(&self) -> bool {
        !(self.repeat || ENDS.contains(&&*self.event) || UNCAUSED.contains(&&*self.event))
    }
}

/// The last event whose line is complete, and where that line ends.
fn last_event(file: &OpenFile, length: u64) -> std::io::Result<(Told, u64)> {
    let mut tail = TAIL;
    loop {
        let start = length.saturating_sub(tail);
        let bytes = file.read_from(start, length - start)?;
        let mut end = bytes.len();
        // Lines that are none, such as of zeros, are no events either.
        while let Some(line_end) = bytes.get(..end).and_then(last_newline) {
            let line_start = bytes.get(..line_end).and_then(last_newline);
            let Some(line_start) = line_start.map_or((start == 0).then_some(0), |at| Some(at + 1)) else {
                break;
            };
            let line = bytes.get(line_start..line_end).unwrap_or_default();
            if let Ok(last) = serde_json::from_slice(line) {
                return Ok((last, start + line_end as u64 + 1));
            }
            end = line_start;
        }
        if start == 0 {
            return Ok((Told::default(), 0));
        }
        tail = tail.saturating_mul(8);
    }
}

fn last_newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().rposition(|byte| *byte == b'\n')
}
