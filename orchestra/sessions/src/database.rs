//! The database file: opening, checking, rebuilding, and transactions.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use crate::error::SessionError;
use crate::lock::{DatabaseLock, LockMode};
use crate::private;
use crate::schema;

const DATABASE: &str = ".sessions.sqlite";
const LOCK: &str = ".sessions.lock";
/// `Orcs`: the SQLite application id of the index.
const APPLICATION: i64 = 0x4f72_6373;
/// Maximum size in bytes of a file that is checked completely when it is opened. Damage in a larger file is detected
/// when it is read.
const MAX_CHECKED_SIZE: u64 = 4 << 20;
/// Maximum number of damaged databases during one transaction.
const MAX_DAMAGES: u32 = 5;
/// Maximum number of I/O errors before a transaction fails.
const MAX_FAILURES: u32 = 20;

pub(crate) struct Database {
    location: Location,
    patience: Duration,
    open: Option<Open>,
}

enum Location {
    File {
        path: PathBuf,
        lock: DatabaseLock,
    },
    /// The runs folder is not writable, so the index exists in memory only.
    Memory {
        path: PathBuf,
    },
}

struct Open {
    connection: Connection,
    /// The ids of the files of the write-ahead log and its index; `None` for files that do not exist.
    log_files: [Option<FileId>; 2],
}

type FileId = (u64, u64);

/// The kind of a transaction.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The reason why a transaction, or the opening before it, failed.
pub(crate) enum DatabaseError {
    /// Another process holds the database.
    Busy,
    /// The file is gone or was replaced.
    Moved,
    /// The content was not written by this version of the program, or is damaged.
    Unusable(Box<dyn std::error::Error + Send + Sync>),
    /// A permanent error.
    Final(SessionError),
    /// An error of the system or of SQLite that a new file would not fix.
    Sql(rusqlite::Error),
}

impl From<SessionError> for DatabaseError {
    fn from(error: SessionError) -> DatabaseError {
        DatabaseError::Final(error)
    }
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> DatabaseError {
        let code = match &error {
            rusqlite::Error::SqliteFailure(code, _) => *code,
            rusqlite::Error::SqlInputError { error: code, .. } => *code,
            // For example a value of an unexpected type, or a missing row.
            _ => return DatabaseError::Unusable(error.into()),
        };
        match code.code {
            _ if code.extended_code == ffi::SQLITE_READONLY_DBMOVED => DatabaseError::Moved,
            _ if code.extended_code == ffi::SQLITE_IOERR_SHORT_READ => DatabaseError::Unusable(error.into()),
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
                DatabaseError::Busy
            }
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::SchemaChanged
            | ErrorCode::TooBig
            // The generic SQLite error: a table or column is missing.
            | ErrorCode::Unknown => DatabaseError::Unusable(error.into()),
            _ => DatabaseError::Sql(error),
        }
    }
}

impl Database {
    /// Creates the database without opening it. If the folder is not writable, the index is kept in memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the lock file beside the database cannot be created.
    pub(crate) fn new(folder: &Path, patience: Duration) -> Result<Database, SessionError> {
        let path = folder.join(DATABASE);
        let lock = folder.join(LOCK);
        let location = match DatabaseLock::open(lock.clone()) {
            Ok(lock) => Location::File { path, lock },
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                Location::Memory { path }
            }
            Err(error) => return Err(SessionError::io("make", &lock, error)),
        };
        Ok(Database {
            location,
            patience,
            open: None,
        })
    }

    /// Creates a database in memory.
    #[cfg(test)]
    pub(crate) fn in_memory(folder: &Path) -> Database {
        Database {
            location: Location::Memory {
                path: folder.join(DATABASE),
            },
            patience: Duration::ZERO,
            open: None,
        }
    }

    fn path(&self) -> &Path {
        match &self.location {
            Location::File { path, .. } | Location::Memory { path } => path,
        }
    }

    /// Runs `work` in one transaction. Repeats it from the beginning if the database is held by another process, was
    /// removed or replaced, or is damaged. In the last cases `work` may find an empty database.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be used within the time limit, or the error of `work`.
    pub(crate) fn transaction<T>(
        &mut self,
        access: Access,
        mut work: impl FnMut(&Connection) -> Result<T, DatabaseError>,
    ) -> Result<T, SessionError> {
        let start = Instant::now();
        let deadline = start + self.patience;
        let (mut damages, mut failures) = (0, 0);
        loop {
            let error = match self.attempt(access, deadline, &mut work) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            match error {
                DatabaseError::Final(error) => return Err(error),
                // A file that is replaced while its connection is open can also cause an I/O error.
                DatabaseError::Sql(error) if is_io(&error) && failures < MAX_FAILURES => {
                    failures += 1;
                    self.open = None;
                    thread::sleep(Duration::from_millis(5));
                }
                // Only the folder may be read-only, in which SQLite has to create the log.
                DatabaseError::Sql(error) if is_read_only(&error) && self.leave_file() => {}
                DatabaseError::Sql(error) => return Err(self.failed(error)),
                DatabaseError::Busy if Instant::now() >= deadline => {
                    return Err(SessionError::Busy {
                        path: self.path().to_owned(),
                        waited: start.elapsed(),
                    });
                }
                DatabaseError::Busy => thread::sleep(Duration::from_millis(1)),
                DatabaseError::Unusable(source) => {
                    damages += 1;
                    if damages > MAX_DAMAGES {
                        return Err(SessionError::Damaged {
                            path: self.path().to_owned(),
                            source,
                        });
                    }
                    self.discard()?;
                }
                DatabaseError::Moved if Instant::now() >= deadline => {
                    return Err(SessionError::Damaged {
                        path: self.path().to_owned(),
                        source: "it is removed again and again".into(),
                    });
                }
                DatabaseError::Moved => self.open = None,
            }
        }
    }

    /// Switches to a database in memory. Returns whether the database was in a file before.
    fn leave_file(&mut self) -> bool {
        let Location::File { path, .. } = &self.location else {
            return false;
        };
        let path = path.clone();
        (self.location, self.open) = (Location::Memory { path }, None);
        true
    }

    fn attempt<T>(
        &mut self,
        access: Access,
        deadline: Instant,
        work: &mut impl FnMut(&Connection) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let (path, lock) = match &mut self.location {
            Location::File { path, lock } => (path, lock),
            Location::Memory { .. } => {
                let open = match &mut self.open {
                    Some(open) => open,
                    none => none.insert(Open {
                        connection: create_tables(Connection::open_in_memory()?, 0)?,
                        log_files: [None; 2],
                    }),
                };
                return transaction(&open.connection, access, work);
            }
        };
        let mut guard = lock
            .acquire(LockMode::Shared, deadline)?
            .ok_or(DatabaseError::Busy)?;
        let open = match self.open.take().filter(|open| open.is_at(path)) {
            Some(open) => self.open.insert(open),
            None => match open(path, self.patience) {
                Ok(open) => self.open.insert(open),
                Err(DatabaseError::Moved | DatabaseError::Unusable(_)) => {
                    drop(guard);
                    let exclusive = lock
                        .acquire(LockMode::Exclusive, deadline)?
                        .ok_or(DatabaseError::Busy)?;
                    // Another process may have created the database in the meantime.
                    self.open = match open(path, self.patience) {
                        Err(DatabaseError::Moved | DatabaseError::Unusable(_)) => {
                            Some(create(path, self.patience)?)
                        }
                        opened => Some(opened?),
                    };
                    drop(exclusive);
                    guard = lock
                        .acquire(LockMode::Shared, deadline)?
                        .ok_or(DatabaseError::Busy)?;
                    self.open
                        .as_mut()
                        .filter(|open| open.is_at(path))
                        .ok_or(DatabaseError::Moved)?
                }
                Err(error) => return Err(error),
            },
        };
        let value = transaction(&open.connection, access, work)?;
        // A write to a file that was removed in the meantime is not contained in the new file.
        if access == Access::Write && !open.is_at(path) {
            return Err(DatabaseError::Moved);
        }
        drop(guard);
        Ok(value)
    }

    /// Removes the database, so that the next transaction of any process rebuilds it.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be removed.
    pub(crate) fn discard(&mut self) -> Result<(), SessionError> {
        let open = self.open.take();
        let Location::File { path, .. } = &self.location else {
            return Ok(());
        };
        // Keep a file that another process has already recreated.
        if open.as_ref().is_none_or(|open| open.is_at(path)) {
            remove(path)?;
        }
        Ok(())
    }

    fn failed(&self, source: rusqlite::Error) -> SessionError {
        SessionError::Database {
            path: self.path().to_owned(),
            source: source.into(),
        }
    }
}

/// Returns whether the system does not allow this process to write the database or the files beside it.
fn is_read_only(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
    )
}

fn is_io(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
}

impl Drop for Database {
    /// Closes the connection. The last connection merges the log into the file and removes the log. The lock keeps
    /// other processes from replacing the file meanwhile, because then the log of the new file would be removed.
    fn drop(&mut self) {
        if let (Some(open), Location::File { lock, .. }) = (self.open.take(), &mut self.location) {
            let guard = lock.acquire(LockMode::Shared, Instant::now() + Duration::from_secs(1));
            drop(open);
            drop(guard);
        }
    }
}

fn transaction<T>(
    connection: &Connection,
    access: Access,
    work: &mut impl FnMut(&Connection) -> Result<T, DatabaseError>,
) -> Result<T, DatabaseError> {
    // A transaction that reads first and writes later could find that another process has written in between.
    connection.execute_batch(match access {
        Access::Read => "BEGIN DEFERRED",
        Access::Write => "BEGIN IMMEDIATE",
    })?;
    let done = work(connection).and_then(|value| {
        connection.execute_batch("COMMIT")?;
        Ok(value)
    });
    if done.is_err() && !connection.is_autocommit() {
        // If this fails too, the connection is unusable, and the next statement fails.
        let _ = connection.execute_batch("ROLLBACK");
    }
    done
}

impl Open {
    /// Returns whether the open files are still those at the path.
    fn is_at(&self, path: &Path) -> bool {
        // SQLite itself never removes the log while a connection is open.
        !has_moved(&self.connection, path)
            && (self.log_files == [None; 2] || self.log_files == log_files(path))
    }
}

/// Opens an existing database and checks it.
fn open(path: &Path, patience: Duration) -> Result<Open, DatabaseError> {
    let size = match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => found.len(),
        Ok(_) => return Err(DatabaseError::Unusable("it is not a plain file".into())),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(DatabaseError::Moved),
        Err(error) => return Err(SessionError::io("read", path, error).into()),
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match Connection::open_with_flags(path, flags) {
        Err(_) if !path.exists() => return Err(DatabaseError::Moved),
        connection => configured(connection?, patience)?,
    };
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    if application != APPLICATION {
        return Err(DatabaseError::Unusable("it belongs to another program".into()));
    }
    let origin = connection.query_row(schema::ORIGIN, [], |row| Ok((row.get(0)?, row.get(1)?)));
    let (created_by, recorded_inode): (i64, i64) = origin?;
    if version != created_by || version < schema::VERSION {
        return Err(DatabaseError::Unusable("it is of an older version".into()));
    }
    if version > schema::VERSION {
        return Err(DatabaseError::Final(SessionError::Newer {
            path: path.to_owned(),
            found: version,
            known: schema::VERSION,
        }));
    }
    // A restored copy may be next to the log of another file.
    if recorded_inode != file_id(path).map_or(0, |(_, inode)| inode.cast_signed()) {
        return Err(DatabaseError::Unusable("it was copied or moved here".into()));
    }
    // SQLite treats a truncated last page as if it ended in zeros.
    let page = number("page_size")?.unsigned_abs();
    if page == 0 || !size.is_multiple_of(page) {
        return Err(DatabaseError::Unusable("its last page is cut short".into()));
    }
    if size <= MAX_CHECKED_SIZE {
        let verdict: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
        if verdict != "ok" {
            return Err(DatabaseError::Unusable(verdict.into()));
        }
    }
    if has_moved(&connection, path) {
        return Err(DatabaseError::Moved);
    }
    Ok(Open {
        connection,
        log_files: log_files(path),
    })
}

/// Creates an empty database and replaces any existing one. The caller must hold the exclusive lock.
fn create(path: &Path, patience: Duration) -> Result<Open, DatabaseError> {
    // SQLite would take a leftover log for that of the new file.
    for ending in ["", "-wal", "-shm", "-journal"] {
        remove(&with_ending(path, ending))?;
    }
    // SQLite creates the log and its index with the permissions of this file.
    private::write(path, &[]).map_err(|error| SessionError::io("make", path, error))?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = configured(Connection::open_with_flags(path, flags)?, patience)?;
    // If a log cannot be shared, such as on some network file systems, SQLite keeps using its rollback journal.
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    let inode = file_id(path).ok_or(DatabaseError::Moved)?.1;
    let connection = create_tables(connection, inode.cast_signed())?;
    Ok(Open {
        connection,
        log_files: log_files(path),
    })
}

/// Creates the empty tables in one transaction.
fn create_tables(connection: Connection, inode: i64) -> Result<Connection, DatabaseError> {
    let (version, tables) = (schema::VERSION, schema::TABLES);
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;
        {tables}
        INSERT INTO origin (version, made_as, token, complete) VALUES ({version}, {inode}, random(), 0);
        PRAGMA application_id = {APPLICATION};
        PRAGMA user_version = {version};
        COMMIT;"
    ))?;
    Ok(connection)
}

fn configured(connection: Connection, patience: Duration) -> Result<Connection, DatabaseError> {
    connection.busy_timeout(patience)?;
    connection.set_prepared_statement_cache_capacity(64);
    // The log is synced before it is merged into the file, so that a power failure leaves an older but valid index.
    connection.execute_batch(
        "PRAGMA synchronous = NORMAL;
        PRAGMA cell_size_check = ON;
        PRAGMA trusted_schema = OFF;
        PRAGMA wal_autocheckpoint = 4000;
        PRAGMA journal_size_limit = 4194304;",
    )?;
    Ok(connection)
}

fn remove(path: &Path) -> Result<(), SessionError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(SessionError::io("remove", path, error)),
        _ => Ok(()),
    }
}

fn log_files(path: &Path) -> [Option<FileId>; 2] {
    ["-wal", "-shm"].map(|ending| file_id(&with_ending(path, ending)))
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut file = path.as_os_str().to_owned();
    file.push(ending);
    file.into()
}

#[cfg(unix)]
fn file_id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// On systems without file numbers, an open file cannot be removed or replaced.
#[cfg(not(unix))]
fn file_id(path: &Path) -> Option<FileId> {
    path.exists().then_some((0, 0))
}

/// Returns whether the file of a connection is no longer the one at its path.
#[cfg(unix)]
fn has_moved(connection: &Connection, _: &Path) -> bool {
    let mut moved = 0;
    let result = connection.file_control(Some(c"main"), rusqlite::FileControl::HasMoved(&mut moved));
    result.is_err() || moved != 0
}

#[cfg(not(unix))]
fn has_moved(_: &Connection, path: &Path) -> bool {
    !path.exists()
}
