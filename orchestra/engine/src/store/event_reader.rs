//! A reader of the events of a run, to which its owner may be writing.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use super::event_line::EventLine;
use super::files::{Access, FileSystem, SystemFiles};
use super::layout::RunFile;
use crate::id::fingerprint;

/// Maximum length of a line in bytes, with its line feed. Longer lines are skipped.
const LONGEST: u64 = 16 << 20;
/// The number of bytes of the file, or of a line that is skipped, that are read at once.
const CHUNK: u64 = 64 << 10;
/// Maximum number of bytes before a position whose hash identifies the file.
const TAIL: usize = 4_096;

/// A position between two lines of `events.jsonl`, with a hash of the bytes before it. The hash detects that another
/// file has replaced the one that was read, or that a crash has taken back its end. See [`EventReader`].
///
/// ```
/// use orchestra_engine::{EventCursor, EventReader};
/// let folder = tempfile::tempdir()?;
/// let begin = EventReader::open(&folder)?.cursor();
/// assert_eq!(begin, EventCursor::default());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCursor {
    /// The offset of the first unread byte.
    pub offset: u64,
    /// The number of bytes before the offset that the hash covers.
    pub tail_length: u64,
    /// The hash of these bytes.
    pub tail_hash: u64,
}

impl EventCursor {
    /// Creates a position from the bytes before it.
    fn new(offset: u64, tail: &[u8]) -> EventCursor {
        EventCursor {
            offset,
            tail_length: tail.len() as u64,
            tail_hash: fingerprint(&[tail]),
        }
    }
}

/// A reader of the lines of `events.jsonl`, which the owner of the run may be writing. An incomplete last line is left
/// until it is complete.
///
/// A process that takes over the run replaces the file. To follow a run, store the [`cursor`](EventReader::cursor) and
/// [`resume`](EventReader::resume) from it. The default reader has no events.
///
/// ```
/// use orchestra_engine::{EventReader, RunFile};
/// let folder = tempfile::tempdir()?;
/// let path = RunFile::Events.path(&folder);
/// std::fs::write(&path, "{\"event\":\"StageStarted\"}\n{\"event\":\"Stage")?;
///
/// let mut reader = EventReader::open(&folder)?;
/// assert_eq!(reader.next_line()?.expect("complete").name(), Some("StageStarted"));
/// assert!(reader.next_line()?.is_none());
/// let cursor = reader.cursor();
///
/// std::fs::write(&path, "{\"event\":\"StageStarted\"}\n{\"event\":\"StageCompleted\"}\n")?;
/// let mut reader = EventReader::resume(&folder, cursor)?.expect("the same file");
/// assert_eq!(reader.next_line()?.expect("complete").name(), Some("StageCompleted"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct EventReader {
    /// `None` if there is no file.
    file: Option<BufReader<File>>,
    /// The position at which the reader was opened.
    start: EventCursor,
    /// The offset after the last complete line.
    offset: u64,
    /// The last complete line with its line feed, or the end of it if it was too long. Empty before the first.
    line: Vec<u8>,
    /// The bytes after it that were read, or the end of them if they are too long for a line.
    unfinished: Vec<u8>,
    /// The number of these bytes in the file.
    unfinished_length: u64,
}

impl EventReader {
    /// Opens the events of the run in a folder at their beginning. A missing file has no events.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or is not a regular file.
    pub fn open(run_folder: impl AsRef<Path>) -> io::Result<EventReader> {
        let file = open_file(run_folder.as_ref())?;
        Ok(EventReader::new(file, EventCursor::default()))
    }

    /// Opens the events of the run in a folder at a position. Returns `None` if the bytes before the position are not
    /// those that were read. The events must then be read from the beginning.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not a regular file.
    pub fn resume(run_folder: impl AsRef<Path>, cursor: EventCursor) -> io::Result<Option<EventReader>> {
        let mut file = open_file(run_folder.as_ref())?;
        if cursor.offset > 0 {
            let (Some(file), Some(start)) = (&mut file, cursor.offset.checked_sub(cursor.tail_length)) else {
                return Ok(None);
            };
            let mut tail = Vec::new();
            file.seek(SeekFrom::Start(start))?;
            file.by_ref().take(cursor.tail_length).read_to_end(&mut tail)?;
            if cursor != EventCursor::new(cursor.offset, &tail) {
                return Ok(None);
            }
        }
        Ok(Some(EventReader::new(file, cursor)))
    }

    /// Creates a reader from a file that is at a position.
    fn new(file: Option<File>, start: EventCursor) -> EventReader {
        EventReader {
            file: file.map(|file| BufReader::with_capacity(CHUNK as usize, file)),
            start,
            offset: start.offset,
            ..EventReader::default()
        }
    }

    /// Returns the offset after the last line that was read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the position after the last line that was read.
    pub fn cursor(&self) -> EventCursor {
        if self.line.is_empty() {
            return self.start;
        }
        let tail = self.line.len().saturating_sub(TAIL);
        EventCursor::new(self.offset, self.line.get(tail..).unwrap_or_default())
    }

    /// Reads the next line. Returns `None` at the end of the file, or if the last line is incomplete; a later call
    /// returns what was written meanwhile. A line of more than 16 MiB is returned without its text.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn next_line(&mut self) -> io::Result<Option<EventLine<'_>>> {
        let Some(file) = &mut self.file else {
            return Ok(None);
        };
        loop {
            let mut room = LONGEST.saturating_sub(self.unfinished_length);
            if room == 0 {
                // Only the end of the line is needed, to compute the position after it.
                let end = self.unfinished.len().saturating_sub(TAIL);
                self.unfinished.drain(..end);
                room = CHUNK;
            }
            let read = file.by_ref().take(room).read_until(b'\n', &mut self.unfinished)?;
            if read == 0 {
                return Ok(None);
            }
            self.unfinished_length += read as u64;
            if self.unfinished.ends_with(b"\n") {
                break;
            }
        }
        std::mem::swap(&mut self.line, &mut self.unfinished);
        self.unfinished.clear();
        let length = std::mem::take(&mut self.unfinished_length);
        self.offset += length;
        let text = if length > LONGEST {
            None
        } else {
            self.line.strip_suffix(b"\n")
        };
        Ok(Some(EventLine::new(text.unwrap_or_default())))
    }
}

/// Opens the events of the run in a folder. Returns `None` if the file is missing.
fn open_file(run_folder: &Path) -> io::Result<Option<File>> {
    match SystemFiles.open(&RunFile::Events.path(run_folder), Access::Read) {
        Ok(file) => Ok(Some(file.into_file())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::io::Write as _;
    use std::path::Path;

    use super::{CHUNK, EventCursor, EventReader, LONGEST, RunFile};

    fn append(folder: &Path, bytes: &[u8]) {
        let mut options = fs::OpenOptions::new();
        let path = RunFile::Events.path(folder);
        let mut file = options.append(true).create(true).open(path).unwrap();
        file.write_all(bytes).unwrap();
    }

    fn texts(reader: &mut EventReader) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some(line) = reader.next_line().unwrap() {
            texts.push(line.text().into_owned());
        }
        texts
    }

    #[test]
    fn a_torn_line_is_left_until_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        assert!(texts(&mut EventReader::open(&folder).unwrap()).is_empty());
        append(folder.path(), b"one\ntwo\nthr");
        let mut reader = EventReader::open(&folder).unwrap();
        assert_eq!(texts(&mut reader), ["one", "two"]);
        let cursor = reader.cursor();
        assert_eq!((reader.offset(), cursor.offset, cursor.tail_length), (8, 8, 4));
        append(folder.path(), b"ee\nfour");
        assert_eq!(texts(&mut reader), ["three"]);
        let mut resumed = EventReader::resume(&folder, cursor).unwrap().unwrap();
        assert_eq!(resumed.cursor(), cursor);
        assert_eq!(texts(&mut resumed), ["three"]);
        assert_eq!(resumed.cursor(), reader.cursor());
    }

    #[test]
    fn a_position_is_found_again_only_behind_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        append(folder.path(), b"one\ntwo\n");
        let mut reader = EventReader::open(&folder).unwrap();
        assert_eq!(texts(&mut reader).len(), 2);
        let cursor = reader.cursor();
        let path = RunFile::Events.path(&folder);
        let copy = folder.path().join("copy");
        fs::write(&copy, "one\ntwo\nthree\n").unwrap();
        fs::rename(&copy, &path).unwrap();
        let mut resumed = EventReader::resume(&folder, cursor).unwrap().unwrap();
        assert_eq!(texts(&mut resumed), ["three"]);
        for other in ["one\ntwp\nthree\n", "one\n", ""] {
            fs::write(&path, other).unwrap();
            assert!(
                EventReader::resume(&folder, cursor).unwrap().is_none(),
                "{other:?}"
            );
        }
        fs::remove_file(&path).unwrap();
        assert!(EventReader::resume(&folder, cursor).unwrap().is_none());
        let begin = EventReader::resume(&folder, EventCursor::default());
        assert!(begin.unwrap().is_some());
        fs::create_dir(&path).unwrap();
        assert!(EventReader::open(&folder).is_err());
    }

    #[test]
    fn a_line_that_is_too_long_has_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let (longest, more) = (LONGEST as usize, 3 * CHUNK as usize);
        for (byte, length) in [(b'x', longest - 1), (b'y', longest + more), (b'z', 3)] {
            append(folder.path(), &vec![byte; length]);
            append(folder.path(), b"\n");
        }
        let mut reader = EventReader::open(&folder).unwrap();
        let mut length = || reader.next_line().unwrap().unwrap().text().len();
        assert_eq!((length(), length()), (longest - 1, 0));
        let mut resumed = EventReader::resume(&folder, reader.cursor()).unwrap().unwrap();
        assert_eq!(texts(&mut resumed), ["zzz"]);
        assert_eq!(texts(&mut reader), ["zzz"]);
        assert_eq!(resumed.cursor(), reader.cursor());
    }
}
