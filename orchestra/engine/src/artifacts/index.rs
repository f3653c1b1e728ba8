//! The index of a run's artifacts: what names the files, and what keeps small artifacts.
//!
//! `artifacts/index.jsonl` is only ever appended to. A line is `{"crc":"89abcdef","record":{...}}`, and each checksum
//! also covers the one before it, so that a line left out, doubled or moved is found. Changes of an attempt that is
//! repeated are void, so that it finds the artifacts as it found them first.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use super::{ArtifactError, ArtifactInfo};
use crate::clock::Timestamp;
use crate::store::{StoreError, open_plain, sync_folder};

const SCHEMA: &str = "orchestra.artifacts/1";
/// `{"crc":"89abcdef","record":`
const HEAD: usize = 27;
const TAIL: &[u8] = b"}\n";

/// Where the data of an artifact is.
#[derive(Clone)]
pub(super) enum Place {
    Memory(Arc<[u8]>),
    /// In the index, behind this byte.
    Index(u64),
    /// In a file that its digest names.
    File,
}

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) info: ArtifactInfo,
    pub(super) place: Place,
}

pub(super) type Live = BTreeMap<String, Entry>;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Op {
    Begin,
    Store,
    Remove,
    Clear,
    /// The attempt is repeated: what it did before is void.
    Repeat,
    /// What was done behind a position is void.
    Rewind,
}

/// A change. Inline data stands behind the fields, which is how it is found without reading it.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    op: Op,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stored_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<u64>,
    /// Whether there is inline data; `null` is some too.
    #[serde(default, rename = "data", skip_serializing, deserialize_with = "is_there")]
    has_data: bool,
}

fn is_there<'de, D: Deserializer<'de>>(data: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(data).map(|_| true)
}

impl Record {
    fn new(op: Op, by: Option<&str>) -> Record {
        Record {
            op,
            schema: None,
            by: by.map(str::to_owned),
            id: None,
            name: None,
            stored_at: None,
            size_bytes: None,
            digest: None,
            to: None,
            has_data: false,
        }
    }

    fn of(info: &ArtifactInfo, by: Option<&str>) -> Record {
        Record {
            id: Some(info.id.clone()),
            name: Some(info.name.clone()),
            stored_at: Some(info.stored_at),
            size_bytes: Some(info.size_bytes),
            digest: Some(info.digest.clone()),
            ..Record::new(Op::Store, by)
        }
    }

    /// The entry of something stored; inline data ends one byte before the record does.
    fn entry(self, record_end: u64) -> Option<Entry> {
        let size_bytes = self.size_bytes?;
        let place = match self.has_data {
            true => Place::Index(record_end.checked_sub(1)?.checked_sub(size_bytes)?),
            false => Place::File,
        };
        let info = ArtifactInfo {
            id: self.id?,
            name: self.name?,
            size_bytes,
            stored_at: self.stored_at?,
            is_file_backed: matches!(place, Place::File),
            digest: self.digest.filter(|digest| is_digest(digest))?,
        };
        Some(Entry { info, place })
    }
}

/// Whether a text can name a file of contents.
fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The index of a run folder, as it is written.
pub(super) struct Index {
    folder: PathBuf,
    path: PathBuf,
    file: Option<File>,
    sync: bool,
    exists: bool,
    /// Where the last sound line ends.
    end: u64,
    /// Whether something may stand behind the last sound line.
    torn: bool,
    crc: u32,
    lines: u64,
}

impl Index {
    /// Reads an index; nothing is written before the first change.
    pub(super) fn open(folder: PathBuf, sync: bool) -> Result<(Index, Live), ArtifactError> {
        if fs::symlink_metadata(&folder).is_ok_and(|found| !found.is_dir()) {
            return Err(not_plain(&folder, "folder"));
        }
        let path = path(&folder);
        let mut index = Index {
            folder,
            path,
            file: None,
            exists: false,
            sync,
            end: 0,
            torn: false,
            crc: 0,
            lines: 0,
        };
        let live = live(index.read()?);
        Ok((index, live))
    }

    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    pub(super) fn stored(
        &mut self,
        info: &ArtifactInfo,
        inline: Option<&[u8]>,
        by: Option<&str>,
    ) -> Result<Place, ArtifactError> {
        self.append(&Record::of(info, by), inline)?;
        Ok(match inline {
            // Behind the data stand the ends of the record and of the line.
            Some(data) => Place::Index(self.end - 1 - TAIL.len() as u64 - data.len() as u64),
            None => Place::File,
        })
    }

    pub(super) fn removed(&mut self, id: &str, by: Option<&str>) -> Result<(), ArtifactError> {
        let record = Record {
            id: Some(id.to_owned()),
            ..Record::new(Op::Remove, by)
        };
        self.append(&record, None)
    }

    pub(super) fn cleared(&mut self, by: Option<&str>) -> Result<(), ArtifactError> {
        self.append(&Record::new(Op::Clear, by), None)
    }

    /// Makes void what an attempt did; gives what is left, if it did anything.
    pub(super) fn repeated(&mut self, by: &str) -> Result<Option<Live>, ArtifactError> {
        let changes = self.read()?;
        if !changes.iter().any(|change| change.by.as_deref() == Some(by)) {
            return Ok(None);
        }
        self.append(&Record::new(Op::Repeat, Some(by)), None)?;
        Ok(Some(live(self.read()?)))
    }

    /// Makes void what was done behind a position.
    pub(super) fn rewound(&mut self, to: u64) -> Result<Live, ArtifactError> {
        if to < self.lines {
            let record = Record {
                to: Some(to),
                ..Record::new(Op::Rewind, None)
            };
            self.append(&record, None)?;
        }
        Ok(live(self.read()?))
    }

    /// The changes that stand.
    fn read(&mut self) -> Result<Vec<Change>, ArtifactError> {
        let io = |error| StoreError::io("read", &self.path, error);
        let file = match open_plain(&self.path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            opened => opened.map_err(io)?,
        };
        if !file.metadata().map_err(io)?.is_file() {
            return Err(not_plain(&self.path, "file"));
        }
        let mut input = BufReader::new(file);
        let mut changes: Vec<Change> = Vec::new();
        let (mut line, mut end, mut crc, mut lines) = (Vec::new(), 0, 0, 0);
        let torn = loop {
            line.clear();
            let length = input.read_until(b'\n', &mut line).map_err(io)?;
            if length == 0 {
                break false;
            }
            let expected = match parse(&line, crc) {
                Ok((record, own_crc)) => {
                    let record_end = end + (length - TAIL.len()) as u64;
                    if let Err(expected) = apply(&mut changes, record, lines, record_end) {
                        return Err(self.damaged(lines, end, expected));
                    }
                    (crc, lines, end) = (own_crc, lines + 1, end + length as u64);
                    continue;
                }
                Err(expected) => expected,
            };
            // What a stop in the middle of a write leaves is cut off; anything else was changed later.
            let incomplete = line.last() != Some(&b'\n') || line.contains(&0);
            if !(incomplete && only_zeros(&mut input).map_err(io)?) {
                return Err(self.damaged(lines, end, expected));
            }
            tracing::warn!(file = %self.path.display(), offset = end, "the last line was not written to its end");
            break true;
        };
        (self.end, self.crc, self.lines, self.torn) = (end, crc, lines, torn);
        self.exists = true;
        Ok(changes)
    }

    fn damaged(&self, lines: u64, offset: u64, expected: &'static str) -> ArtifactError {
        ArtifactError::DamagedIndex {
            path: self.path.clone(),
            line: lines + 1,
            offset,
            expected,
        }
    }

    fn append(&mut self, record: &Record, inline: Option<&[u8]>) -> Result<(), ArtifactError> {
        if self.lines == 0 {
            let begin = Record {
                schema: Some(SCHEMA.to_owned()),
                ..Record::new(Op::Begin, None)
            };
            self.write(&begin, None)?;
        }
        self.write(record, inline)
    }

    fn write(&mut self, record: &Record, inline: Option<&[u8]>) -> Result<(), ArtifactError> {
        let mut text = serde_json::to_vec(record).map_err(|source| StoreError::Json {
            path: self.path.clone(),
            source,
        })?;
        if let Some(data) = inline {
            text.pop();
            text.extend_from_slice(b",\"data\":");
            text.extend_from_slice(data);
            text.push(b'}');
        }
        let crc = chained(self.crc, &text);
        let mut line = format!("{{\"crc\":\"{crc:08x}\",\"record\":").into_bytes();
        line.extend_from_slice(&text);
        line.extend_from_slice(TAIL);
        let (torn, end, sync) = (self.torn, self.end, self.sync);
        let file = self.file()?;
        let mut written = || {
            if !is_ours(file, end, torn)? {
                return Ok(false);
            }
            if torn {
                file.set_len(end)?;
            }
            file.write_all(&line)?;
            if sync {
                file.sync_data()?;
            }
            Ok(true)
        };
        match written() {
            Ok(true) => {}
            Ok(false) => {
                let path = self.path.clone();
                return Err(ArtifactError::TakenOver { path });
            }
            Err(error) => {
                self.torn = true;
                return Err(StoreError::io("write", &self.path, error).into());
            }
        }
        if end == 0 && sync {
            sync_folder(&self.folder)?;
        }
        self.torn = false;
        self.end += line.len() as u64;
        self.crc = crc;
        self.lines += 1;
        Ok(())
    }

    /// The file, open for writing.
    fn file(&mut self) -> Result<&mut File, ArtifactError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let mut options = OpenOptions::new();
                options.append(true).create_new(!self.exists);
                #[cfg(unix)]
                {
                    use std::os::unix::fs::OpenOptionsExt;
                    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
                }
                let opened = options.open(&self.path);
                opened.map_err(|error| StoreError::io("open", &self.path, error))?
            }
        };
        self.exists = true;
        Ok(self.file.insert(file))
    }
}

/// A change that stands, with its place in the index.
struct Change {
    number: u64,
    by: Option<String>,
    what: What,
}

enum What {
    Store(Entry),
    Remove(String),
    Clear,
}

/// Puts the change of a record behind others, or takes away those that it makes void.
fn apply(
    changes: &mut Vec<Change>,
    record: Record,
    number: u64,
    record_end: u64,
) -> Result<(), &'static str> {
    const WHOLE: &str = "a change with all of its fields";
    let by = record.by.clone();
    let what = match (record.op, number) {
        (Op::Begin, 0) if record.schema.as_deref() == Some(SCHEMA) => return Ok(()),
        (_, 0) => return Err("the schema `orchestra.artifacts/1`"),
        (Op::Begin, _) => return Err("a change"),
        (Op::Store, _) => What::Store(record.entry(record_end).ok_or(WHOLE)?),
        (Op::Remove, _) => What::Remove(record.id.ok_or(WHOLE)?),
        (Op::Clear, _) => What::Clear,
        (Op::Repeat, _) => {
            changes.retain(|change| change.by != by);
            return Ok(());
        }
        (Op::Rewind, _) => {
            let to = record.to.ok_or(WHOLE)?;
            changes.retain(|change| change.number < to);
            return Ok(());
        }
    };
    changes.push(Change { number, by, what });
    Ok(())
}

/// What is stored after some changes.
fn live(changes: Vec<Change>) -> Live {
    let mut live = Live::new();
    for change in changes {
        match change.what {
            What::Store(entry) => {
                live.insert(entry.info.id.clone(), entry);
            }
            What::Remove(id) => {
                live.remove(&id);
            }
            What::Clear => live.clear(),
        }
    }
    live
}

/// The record of a line with its checksum, or what was expected.
fn parse(line: &[u8], before: u32) -> Result<(Record, u32), &'static str> {
    let shape = "a line `{\"crc\":\"..\",\"record\":{..}}`";
    let (Some(head), Some(rest)) = (line.get(..HEAD), line.get(HEAD..)) else {
        return Err(shape);
    };
    let crc = head
        .strip_prefix(b"{\"crc\":\"")
        .and_then(|head| head.strip_suffix(b"\",\"record\":"))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .filter(|digits| {
            digits
                .bytes()
                .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        })
        .and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let (Some(crc), Some(record)) = (crc, rest.strip_suffix(TAIL)) else {
        return Err(shape);
    };
    if crc != chained(before, record) {
        return Err("a record that fits its checksum and the line before");
    }
    let record = serde_json::from_slice(record).map_err(|_| "a record of a kind that this version knows")?;
    Ok((record, crc))
}

fn chained(before: u32, record: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&before.to_be_bytes());
    crc.update(record);
    crc.finalize()
}

/// Whether nothing but zeros is left.
fn only_zeros(input: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() {
            return Ok(true);
        }
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        let length = bytes.len();
        input.consume(length);
    }
}

fn not_plain(path: &Path, expected: &'static str) -> ArtifactError {
    ArtifactError::Store(StoreError::NotPlain {
        path: path.to_owned(),
        expected,
    })
}

/// Whether the file still stands in its place, and nobody else wrote to it.
fn is_ours(file: &File, end: u64, torn: bool) -> io::Result<bool> {
    let found = file.metadata()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if found.nlink() == 0 {
            return Ok(false);
        }
    }
    Ok(torn || found.len() == end)
}

/// Where the index of a run is.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("index.jsonl")
}

/// Inline data; its digest is the caller's to check.
pub(super) fn inline(folder: &Path, at: u64, size: u64) -> io::Result<Vec<u8>> {
    let mut file = open_plain(&path(folder))?;
    if !file.metadata()?.is_file() {
        return Err(ErrorKind::InvalidInput.into());
    }
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}
