//! The journal of a run: a file of records that only grows (rule D3).

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::files::{Access, FileSystem, OpenFile};
use super::line::{self, Position, Scan};
use super::{Durability, StoreError};

/// The first and the maximum size in bytes of a preallocation.
const RESERVE: u64 = 64 << 10;
const RESERVE_MOST: u64 = 1 << 20;
/// The capacity in bytes of the line buffer that is kept between records.
const KEEP: usize = 64 << 10;
/// The number of times that a seemingly damaged journal is read, because its owner may be writing.
const READS: u32 = 4;

pub(crate) struct Journal {
    files: Arc<dyn FileSystem>,
    file: OpenFile,
    level: Durability,
    inner: Mutex<Inner>,
}

struct Inner {
    position: Position,
    /// The offset up to which the bytes are known to survive a loss of power.
    durable: u64,
    /// At [`Durability::Full`], the last lines, for which no sync was requested yet.
    lines: Vec<u8>,
    /// The length of the file, including preallocated space.
    length: u64,
    /// The size of the next preallocation. 0 if the file system does not support it.
    reserve: u64,
    /// The reason for which nothing can be written any longer.
    failure: Option<Failure>,
}

/// A failure that can be returned repeatedly.
#[derive(Clone)]
struct Failure {
    action: &'static str,
    kind: io::ErrorKind,
    system: Option<i32>,
    text: String,
}

impl Failure {
    fn new(action: &'static str, error: &io::Error) -> Failure {
        Failure {
            action,
            kind: error.kind(),
            system: error.raw_os_error(),
            text: error.to_string(),
        }
    }

    fn error(&self, path: &Path) -> StoreError {
        let source = match self.system {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(self.kind, self.text.clone()),
        };
        StoreError::io(self.action, path, source)
    }
}

/// Lines that must become durable, and their offset in the journal.
pub(crate) struct Unsynced {
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Journal {
    /// Creates a journal.
    pub(crate) fn create(
        files: Arc<dyn FileSystem>,
        path: &Path,
        level: Durability,
    ) -> Result<Journal, StoreError> {
        let file = files
            .open(path, Access::New)
            .map_err(|error| StoreError::io("make", path, error))?;
        Ok(Journal::new(files, file, level, Position::default(), 0))
    }

    /// Opens a journal for appending. Reads the records after `from`, the position of a checkpoint, or all records.
    /// Cuts off an incomplete last line after `approve` has accepted what was read.
    pub(crate) fn open(
        files: Arc<dyn FileSystem>,
        path: &Path,
        level: Durability,
        from: Option<Position>,
        records: u64,
        approve: impl FnOnce(&Scan) -> Result<(), StoreError>,
    ) -> Result<(Journal, Scan), StoreError> {
        let failed = |error| StoreError::io("open", path, error);
        let file = files.open(path, Access::Change).map_err(failed)?;
        let from = from.unwrap_or_default();
        let scan = scan(&file, from, records)?;
        approve(&scan)?;
        let mut length = file.length().map_err(failed)?;
        if scan.torn.is_some() || scan.end.records == records {
            length = scan.end.offset;
            files
                .set_length(&file, length)
                .map_err(|error| StoreError::io("cut", path, error))?;
        }
        if level == Durability::Full {
            // Records that are acted on from here must not be lost, whoever wrote them. After a failed sync, the system
            // may consider unwritten data as written. Only data that is written again is certain to be synced.
            if let Some((offset, bytes)) = scan.unsynced() {
                files
                    .write_at(&file, bytes, offset)
                    .map_err(|error| StoreError::io("write", path, error))?;
            }
            files
                .sync_data(&file)
                .map_err(|error| StoreError::io("sync", path, error))?;
        }
        Ok((Journal::new(files, file, level, scan.end, length), scan))
    }

    fn new(
        files: Arc<dyn FileSystem>,
        file: OpenFile,
        level: Durability,
        position: Position,
        length: u64,
    ) -> Journal {
        let inner = Mutex::new(Inner {
            position,
            durable: if level == Durability::Full {
                position.offset
            } else {
                0
            },
            lines: Vec::new(),
            length,
            reserve: RESERVE,
            failure: None,
        });
        Journal {
            files,
            file,
            level,
            inner,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the failure because of which nothing can be written any longer.
    fn check(&self, inner: &Inner) -> Result<(), StoreError> {
        match &inner.failure {
            Some(failure) => Err(failure.error(self.file.path())),
            None => Ok(()),
        }
    }

    /// Stores the first failure and returns it.
    fn fail(&self, inner: &mut Inner, action: &'static str, error: &io::Error) -> StoreError {
        let failure = inner.failure.get_or_insert_with(|| Failure::new(action, error));
        failure.error(self.file.path())
    }

    /// Returns the position of the next record.
    pub(crate) fn position(&self) -> Position {
        self.lock().position
    }

    /// Writes a record in one call, without waiting for the disk. Returns the position after it.
    ///
    /// # Errors
    /// Fails if the record could not be written. Then the journal accepts no more records and ends with the previous
    /// one.
    pub(crate) fn append(&self, record: &[u8]) -> Result<Position, StoreError> {
        let path = self.file.path();
        if record.len() as u64 > line::MOST {
            return Err(StoreError::TooLarge {
                path: path.to_owned(),
                limit: line::MOST,
            });
        }
        if record.contains(&b'\n') {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "a record is one line of JSON");
            return Err(StoreError::io("write", path, error));
        }
        let mut inner = self.lock();
        self.check(&inner)?;
        let inner = &mut *inner;
        if self.level != Durability::Full {
            inner.lines.clear();
        }
        let start = inner.lines.len();
        let position = inner.position;
        let next = line::write(&mut inner.lines, position, inner.durable, record);
        self.reserve(inner, next.offset);
        let bytes = inner.lines.get(start..).unwrap_or_default();
        if let Err(error) = self.files.write_at(&self.file, bytes, position.offset) {
            inner.lines.truncate(start);
            // Whatever remains of the line is a torn tail, so remove it.
            let _ = self.files.set_length(&self.file, position.offset);
            return Err(self.fail(inner, "write", &error));
        }
        inner.position = next;
        inner.length = inner.length.max(next.offset);
        Ok(next)
    }

    /// Preallocates space up to an offset, and more for later records. If this fails, writing may still succeed.
    fn reserve(&self, inner: &mut Inner, end: u64) {
        if end <= inner.length || inner.reserve == 0 {
            return;
        }
        let more = (end - inner.length).next_multiple_of(inner.reserve);
        match self.files.reserve(&self.file, inner.length, more) {
            Ok(()) => {
                inner.length += more;
                inner.reserve = (inner.reserve * 2).min(RESERVE_MOST);
            }
            Err(_) => inner.reserve = 0,
        }
    }

    /// Returns an error if another process replaced the file or changed its length.
    pub(crate) fn check_unchanged(&self) -> Result<(), StoreError> {
        let length = self.lock().length;
        self.file.mark().check(self.file.path(), length)
    }

    /// Returns whether something was written that should survive a loss of power but may not yet.
    pub(crate) fn is_unsynced(&self) -> bool {
        let inner = self.lock();
        self.level == Durability::Full && inner.durable < inner.position.offset
    }

    /// Syncs the journal at [`Durability::Full`], if there are unsynced records.
    ///
    /// # Errors
    /// Fails if the journal could not be synced. Records since the last sync may be lost, so the journal accepts no
    /// more.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let mut inner = self.lock();
        self.check(&inner)?;
        if self.level != Durability::Full {
            return Ok(());
        }
        self.force(&mut inner)
    }

    /// Syncs the journal at every level.
    pub(crate) fn sync_always(&self) -> Result<(), StoreError> {
        let mut inner = self.lock();
        self.check(&inner)?;
        self.force(&mut inner)
    }

    fn force(&self, inner: &mut Inner) -> Result<(), StoreError> {
        if inner.durable == inner.position.offset {
            return Ok(());
        }
        if let Err(error) = self.files.sync_data(&self.file) {
            return Err(self.fail(inner, "sync", &error));
        }
        inner.durable = inner.position.offset;
        forget(&mut inner.lines);
        Ok(())
    }

    /// Takes the lines that are to become durable elsewhere. Returns `None` if there are none.
    pub(crate) fn take_unsynced(&self) -> Result<Option<Unsynced>, StoreError> {
        let mut inner = self.lock();
        self.check(&inner)?;
        let bytes = std::mem::take(&mut inner.lines);
        let offset = inner.position.offset - bytes.len() as u64;
        Ok((!bytes.is_empty() && self.level == Durability::Full).then_some(Unsynced { offset, bytes }))
    }

    /// Returns the buffer of lines that were taken, for reuse.
    pub(crate) fn give_back(&self, mut room: Vec<u8>) {
        let mut inner = self.lock();
        if inner.lines.capacity() == 0 {
            forget(&mut room);
            inner.lines = room;
        }
    }

    /// Records that everything before an offset was made durable elsewhere.
    pub(crate) fn is_durable_to(&self, offset: u64) {
        let mut inner = self.lock();
        inner.durable = inner.durable.max(offset);
    }

    /// Syncs the file itself, even if its lines are durable elsewhere.
    pub(crate) fn sync_file(&self) -> Result<(), StoreError> {
        // The owner may write further records in the meantime.
        let end = self.lock().position.offset;
        let synced = self.files.sync_data(&self.file);
        let mut inner = self.lock();
        match synced {
            Ok(()) => {
                let inner = &mut *inner;
                inner.durable = inner.durable.max(end);
                let kept = inner.position.offset.saturating_sub(end) as usize;
                let synced = inner.lines.len().saturating_sub(kept);
                inner.lines.drain(..synced);
                Ok(())
            }
            Err(error) => Err(self.fail(&mut inner, "sync", &error)),
        }
    }

    /// Cuts off the preallocated space and syncs the journal. Nothing can be written afterwards.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        let mut inner = self.lock();
        self.check(&inner)?;
        let end = inner.position.offset;
        if inner.length > end
            && let Err(error) = self.files.set_length(&self.file, end)
        {
            return Err(self.fail(&mut inner, "cut", &error));
        }
        if let Err(error) = self.files.sync_data(&self.file) {
            return Err(self.fail(&mut inner, "sync", &error));
        }
        inner.failure = Some(Failure {
            action: "write",
            kind: io::ErrorKind::BrokenPipe,
            system: None,
            text: "the run was closed".to_owned(),
        });
        Ok(())
    }
}

/// Clears a buffer. Releases the memory of a large one.
pub(super) fn forget(bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.shrink_to(KEEP);
}

/// Reads at most the first `records` records of a journal, after a position or from its beginning. They are valid even
/// if the journal is damaged after them. The owner may be writing at the same time.
pub(crate) fn read(
    files: &dyn FileSystem,
    path: &Path,
    from: Option<Position>,
    records: u64,
) -> Result<Scan, StoreError> {
    let mut reads = 1;
    loop {
        let file = files
            .open(path, Access::Read)
            .map_err(|error| StoreError::io("open", path, error))?;
        match scan(&file, from.unwrap_or_default(), records) {
            // A read during a write differs from one a moment later.
            Err(StoreError::Damaged { .. }) if reads < READS => reads += 1,
            scanned => return scanned,
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns whether the position of a checkpoint exists in this journal.
pub(crate) fn has(files: &dyn FileSystem, path: &Path, position: Position) -> Result<bool, StoreError> {
    let failed = |error| StoreError::io("read", path, error);
    let file = files
        .open(path, Access::Read)
        .map_err(|error| StoreError::io("open", path, error))?;
    let Position {
        records,
        offset,
        chain,
    } = position;
    if records == 0 || offset == 0 {
        return Ok(position == Position::default());
    }
    if file.length().map_err(failed)? < offset {
        return Ok(false);
    }
    let mut back = 4 << 10;
    loop {
        let start = offset.saturating_sub(back);
        let bytes = file.read_from(start, offset - start).map_err(failed)?;
        if start == 0 {
            let first = line::is_line(&bytes, chain);
            return Ok(first || line::ends_with_line(&bytes, chain).unwrap_or(false));
        }
        if let Some(ends) = line::ends_with_line(&bytes, chain) {
            return Ok(ends);
        }
        back *= 4;
    }
}

fn scan(file: &OpenFile, from: Position, records: u64) -> Result<Scan, StoreError> {
    let bytes = file
        .read_from(from.offset, u64::MAX)
        .map_err(|error| StoreError::io("read", file.path(), error))?;
    line::scan(file.path(), bytes, from, records)
}
