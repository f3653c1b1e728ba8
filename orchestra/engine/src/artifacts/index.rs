//! The index of the artifacts of a run. It names the content files and holds small artifacts inline.
//!
//! `artifacts/index.jsonl` has the format of the journal of the run: a file of checksummed lines that only grows. The
//! changes of an attempt that is repeated are undone, so that the new attempt finds the artifacts as the first one did.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use super::{ArtifactError, ArtifactInfo, Guard};
use crate::clock::Timestamp;
use crate::store::{
    AROUND, ARTIFACT_INDEX, Access, Durability, FileSystem, Journal, Position, StoreError, scan,
};

const SCHEMA: &str = "orchestra.artifacts/1";
/// The length of the end of a line, which follows the record.
const END: u64 = b"}\n".len() as u64;
/// The number of bytes that are read at once.
const CHUNK: u64 = 1 << 20;

/// The location of the data of an artifact.
#[derive(Clone)]
pub(super) enum DataLocation {
    Memory(Arc<[u8]>),
    /// In the index, at this byte offset.
    Index(u64),
    /// In a file named after its digest.
    File,
}

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) info: ArtifactInfo,
    pub(super) location: DataLocation,
}

pub(super) type Live = BTreeMap<String, Entry>;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Op {
    Begin,
    Store,
    Remove,
    Clear,
    /// The attempt is repeated: its earlier changes are undone.
    Repeat,
    /// All changes after a position are undone.
    Rewind,
}

/// A record of the index. Inline data comes after all other fields, so that its offset is known without parsing it.
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
    /// `true` if the record has inline data, even if the data is `null`.
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

    fn from_info(info: &ArtifactInfo, by: Option<&str>) -> Record {
        Record {
            id: Some(info.id.clone()),
            name: Some(info.name.clone()),
            stored_at: Some(info.stored_at),
            size_bytes: Some(info.size_bytes),
            digest: Some(info.digest.clone()),
            ..Record::new(Op::Store, by)
        }
    }

    /// Returns the entry that a `Store` record describes. Inline data ends one byte before the record.
    fn entry(self, record_end: u64) -> Option<Entry> {
        let size_bytes = self.size_bytes?;
        let location = if self.has_data {
            DataLocation::Index(record_end.checked_sub(1)?.checked_sub(size_bytes)?)
        } else {
            DataLocation::File
        };
        let info = ArtifactInfo {
            id: self.id?,
            name: self.name?,
            size_bytes,
            stored_at: self.stored_at?,
            is_file_backed: matches!(location, DataLocation::File),
            digest: self.digest.filter(|digest| is_digest(digest))?,
        };
        Some(Entry { info, location })
    }
}

/// Returns whether a text is a digest and therefore safe as a file name.
fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The writer of the index of a run folder.
pub(super) struct Index {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    path: PathBuf,
    level: Durability,
    guard: Guard,
    /// The open file. `None` until the first write.
    journal: Option<Journal>,
    /// `true` once the folder exists and its name is durable.
    is_placed: bool,
    exists: bool,
    /// The position after the last valid change.
    end: Position,
    /// `true` if the file may have invalid bytes after `end`.
    is_doubtful: bool,
    is_closed: bool,
}

impl Index {
    /// Reads an index. Writes nothing until the first change.
    pub(super) fn open(
        files: Arc<dyn FileSystem>,
        folder: PathBuf,
        level: Durability,
        guard: Guard,
    ) -> Result<(Index, Live), ArtifactError> {
        if fs::symlink_metadata(&folder).is_ok_and(|found| !found.is_dir()) {
            return Err(not_plain(&folder, "folder"));
        }
        let mut index = Index {
            files,
            path: path(&folder),
            folder,
            // A run without a journal can still resume after a pause, and needs its artifacts then.
            level: match level {
                Durability::None => Durability::Process,
                level => level,
            },
            guard,
            journal: None,
            is_placed: false,
            exists: false,
            end: Position::default(),
            is_doubtful: false,
            is_closed: false,
        };
        let (changes, end) = index.read()?;
        index.end = end;
        Ok((index, live(changes)))
    }

    /// Returns the number of records, including the `Begin` record.
    pub(super) fn len(&self) -> u64 {
        self.end.records
    }

    pub(super) fn stored(
        &mut self,
        info: &ArtifactInfo,
        inline: Option<&[u8]>,
        by: Option<&str>,
    ) -> Result<DataLocation, ArtifactError> {
        self.append(&Record::from_info(info, by), inline)?;
        Ok(match inline {
            // Count back from the end of the line: the line end, the closing brace of the record, the data.
            Some(data) => DataLocation::Index(self.end.offset - END - 1 - data.len() as u64),
            None => DataLocation::File,
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

    /// Undoes the changes of an attempt. Returns the remaining entries, or `None` if the attempt changed nothing.
    pub(super) fn repeated(&mut self, by: &str) -> Result<Option<Live>, ArtifactError> {
        let (changes, _) = self.read()?;
        if !changes.iter().any(|change| change.by.as_deref() == Some(by)) {
            return Ok(None);
        }
        self.append(&Record::new(Op::Repeat, Some(by)), None)?;
        Ok(Some(live(self.read()?.0)))
    }

    /// Undoes all changes after a position.
    pub(super) fn rewound(&mut self, to: u64) -> Result<Live, ArtifactError> {
        if to < self.len() {
            let record = Record {
                to: Some(to),
                ..Record::new(Op::Rewind, None)
            };
            self.append(&record, None)?;
        }
        Ok(live(self.read()?.0))
    }

    /// Checks that this process still owns the run, and creates the folder if it is missing.
    pub(super) fn location(&mut self) -> Result<(), ArtifactError> {
        if self.is_closed {
            let ended = io::Error::new(ErrorKind::BrokenPipe, "the run has ended");
            return Err(StoreError::io("write", &self.path, ended).into());
        }
        (self.guard)()?;
        if self.is_placed {
            return Ok(());
        }
        match self.files.make_folder(&self.folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if !fs::symlink_metadata(&self.folder).is_ok_and(|found| found.is_dir()) {
                    return Err(not_plain(&self.folder, "folder"));
                }
            }
            made => made.map_err(|error| StoreError::io("make", &self.folder, error))?,
        }
        if let Some(run_dir) = self.folder.parent() {
            self.sync_folder(run_dir)?;
        }
        self.is_placed = true;
        Ok(())
    }

    /// Writes a content to its file unless the file already holds it. Requires an earlier call of
    /// [`place`](Index::place).
    pub(super) fn write_content(&self, digest: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let (files, path) = (&*self.files, content_path(&self.folder, digest));
        let present = read_part(files, &path, 0, bytes.len() as u64 + 1);
        if !present.is_ok_and(|present| present == bytes) {
            let draft = self.folder.join(format!(".{digest}.tmp"));
            match files.remove(&draft) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(StoreError::io("remove", &draft, error));
                }
                _ => {}
            }
            let written = files.open(&draft, Access::New).and_then(|file| {
                files.write_at(&file, bytes, 0)?;
                if self.level == Durability::Full {
                    files.sync_all(&file)?;
                }
                files.rename(&draft, &path)
            });
            if let Err(error) = written {
                let _ = files.remove(&draft);
                return Err(StoreError::io("write", &path, error));
            }
        }
        // An existing file may have been written just before a crash, so its name may not be durable yet.
        self.sync_folder(&self.folder)
    }

    /// Ends writing and cuts off the preallocated space.
    pub(super) fn close(&mut self) -> Result<(), StoreError> {
        self.is_closed = true;
        match self.journal.take() {
            Some(journal) => journal.close(),
            None => Ok(()),
        }
    }

    fn sync_folder(&self, folder: &Path) -> Result<(), StoreError> {
        if self.level != Durability::Full {
            return Ok(());
        }
        let synced = self.files.sync_folder(folder);
        synced.map_err(|error| StoreError::io("sync", folder, error))
    }

    /// Returns the changes that are in effect and the position after the last valid line.
    fn read(&mut self) -> Result<(Vec<Change>, Position), ArtifactError> {
        let mut changes = Vec::new();
        let mut end = Position::default();
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok((changes, end)),
            Ok(found) if !found.is_file() => return Err(not_plain(&self.path, "file")),
            _ => {}
        }
        let io = |error| StoreError::io("read", &self.path, error);
        let file = self.files.open(&self.path, Access::Read).map_err(io)?;
        self.exists = true;
        let mut chunk = CHUNK;
        loop {
            let bytes = file.read_from(end.offset, chunk).map_err(io)?;
            let is_last = (bytes.len() as u64) < chunk;
            let scan = scan(&self.path, bytes, end, u64::MAX)?;
            let mut at = end;
            for record in scan.iter() {
                let next = at.offset + (record.len() + AROUND) as u64;
                apply(&mut changes, record, at.records, next - END)
                    .map_err(|expected| self.damaged(at, expected))?;
                (at.records, at.offset) = (at.records + 1, next);
            }
            if is_last {
                if let Some(torn) = scan.torn {
                    let path = self.path.display();
                    tracing::warn!(
                        "`{path}`, line {}, was not written to its end, so it does not count",
                        torn.line
                    );
                }
                return Ok((changes, scan.end));
            }
            // A line may be longer than one chunk.
            chunk = if scan.end == end { chunk * 4 } else { CHUNK };
            end = scan.end;
        }
    }

    fn damaged(&self, at: Position, expected: &'static str) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            line: at.records + 1,
            offset: at.offset,
            expected: expected.to_owned(),
            found: "something else".to_owned(),
        }
    }

    fn append(&mut self, record: &Record, inline: Option<&[u8]>) -> Result<(), ArtifactError> {
        self.location()?;
        if self.len() == 0 {
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
        let journal = match self.journal.take() {
            Some(journal) => journal,
            None => self.open_journal()?,
        };
        // A process that takes over the run replaces the file (rule D5).
        if let Err(changed) = journal.check_unchanged() {
            (self.guard)()?;
            return Err(changed.into());
        }
        let written = journal.append(&text).and_then(|end| journal.sync().map(|()| end));
        match written {
            Ok(end) => {
                self.end = end;
                self.journal = Some(journal);
                Ok(())
            }
            Err(error) => {
                self.is_doubtful = true;
                // The caller gets an error, so no reader may find the change. If this cut fails too, the next change
                // retries it.
                let _ = self.cut();
                Err(error.into())
            }
        }
    }

    /// Opens the file for writing after the last valid change.
    fn open_journal(&mut self) -> Result<Journal, ArtifactError> {
        let files = self.files.clone();
        let journal = if self.exists {
            self.cut()?;
            let (journal, behind) = Journal::open(
                files,
                &self.path,
                self.level,
                Some(self.end),
                u64::MAX,
                |_| Ok(()),
            )?;
            if behind.len() > 0 {
                // Another process wrote to the file.
                (self.guard)()?;
                let (expected, found) = (self.end.offset, behind.end.offset);
                return Err(StoreError::Tampered {
                    path: self.path.clone(),
                    expected: format!("the file that was written, of {expected} bytes"),
                    found: format!("{found} bytes"),
                }
                .into());
            }
            journal
        } else {
            let journal = Journal::create(files, &self.path, self.level)?;
            self.exists = true;
            journal
        };
        self.sync_folder(&self.folder)?;
        Ok(journal)
    }

    /// Cuts off invalid bytes after the last valid change.
    fn cut(&mut self) -> Result<(), StoreError> {
        if self.is_doubtful {
            let cut = |file| self.files.set_length(&file, self.end.offset);
            let cut = self.files.open(&self.path, Access::Change).and_then(cut);
            cut.map_err(|error| StoreError::io("cut", &self.path, error))?;
            self.is_doubtful = false;
        }
        Ok(())
    }
}

/// A change that is in effect, and its number in the index.
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

/// Appends the change of a record to the list, or removes the changes that the record undoes.
fn apply(changes: &mut Vec<Change>, record: &[u8], number: u64, record_end: u64) -> Result<(), &'static str> {
    let record: Record =
        serde_json::from_slice(record).map_err(|_| "a change of a kind that this version knows")?;
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

/// Returns the entries that result from a list of changes.
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

fn not_plain(path: &Path, expected: &'static str) -> ArtifactError {
    ArtifactError::Store(StoreError::NotPlain {
        path: path.to_owned(),
        expected,
    })
}

/// Returns the path of the index.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(ARTIFACT_INDEX)
}

/// Returns the path of a content file.
pub(super) fn content_path(folder: &Path, digest: &str) -> PathBuf {
    folder.join(format!("{digest}.json"))
}

/// Reads a part of a file. The caller verifies it by its digest.
pub(super) fn read_part(files: &dyn FileSystem, path: &Path, at: u64, size: u64) -> io::Result<Vec<u8>> {
    files.open(path, Access::Read)?.read_from(at, size)
}
