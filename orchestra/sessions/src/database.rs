//! The database file: opened, judged, made anew where it is missing or unfit, and transactions on it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use crate::error::SessionError;
use crate::gate::{Gate, Pass};
use crate::private;
use crate::tables;

const DATABASE: &str = ".sessions.sqlite";
const GATE: &str = ".sessions.lock";
/// `Orcs`: says whose database it is.
const APPLICATION: i64 = 0x4f72_6373;
/// A small file is looked through whenever it is opened; in a larger one damage is found where it is met.
const LOOKED_THROUGH: u64 = 4 << 20;
/// So often the database may be found damaged on the way to one answer.
const MOST_DAMAGES: u32 = 5;
/// How often the system may fail before it is believed.
const MOST_FAILURES: u32 = 20;

pub(crate) struct Database {
    place: Place,
    patience: Duration,
    open: Option<Open>,
}

enum Place {
    File {
        path: PathBuf,
        gate: Gate,
    },
    /// Nothing can be written in the runs folder, so the index lives as long as it is looked at.
    Memory {
        path: PathBuf,
    },
}

struct Open {
    connection: Connection,
    /// Which files are the write-ahead log and its index; `None` where there are none.
    beside: [Option<FileId>; 2],
}

type FileId = (u64, u64);

/// Whether a transaction changes anything.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Why a transaction, or the opening before it, came to nothing.
pub(crate) enum Fault {
    /// Somebody holds the database.
    Busy,
    /// The file is not there any more, or another one is.
    Moved,
    /// The content is not what this program wrote.
    Unfit(Box<dyn std::error::Error + Send + Sync>),
    /// Nothing helps.
    Final(SessionError),
    /// The system or SQLite fails, for a reason that a new file would share.
    Sql(rusqlite::Error),
}

impl From<SessionError> for Fault {
    fn from(error: SessionError) -> Fault {
        Fault::Final(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        let code = match &error {
            rusqlite::Error::SqliteFailure(code, _) => *code,
            rusqlite::Error::SqlInputError { error: code, .. } => *code,
            // A value of another type than this program writes, a row that is missing, and the like.
            _ => return Fault::Unfit(error.into()),
        };
        match code.code {
            _ if code.extended_code == ffi::SQLITE_READONLY_DBMOVED => Fault::Moved,
            _ if code.extended_code == ffi::SQLITE_IOERR_SHORT_READ => Fault::Unfit(error.into()),
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
                Fault::Busy
            }
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::SchemaChanged
            | ErrorCode::TooBig
            // The plain error of SQLite: a table or column is not there.
            | ErrorCode::Unknown => Fault::Unfit(error.into()),
            _ => Fault::Sql(error),
        }
    }
}

impl Database {
    /// Nothing is opened yet. Where the folder cannot be written, the index is kept in memory.
    ///
    /// # Errors
    /// The lock file beside the database cannot be made.
    pub(crate) fn new(folder: &Path, patience: Duration) -> Result<Database, SessionError> {
        let path = folder.join(DATABASE);
        let gate = folder.join(GATE);
        let place = match Gate::open(gate.clone()) {
            Ok(gate) => Place::File { path, gate },
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                Place::Memory { path }
            }
            Err(error) => return Err(SessionError::io("make", &gate, error)),
        };
        Ok(Database {
            place,
            patience,
            open: None,
        })
    }

    /// A database in memory.
    #[cfg(test)]
    pub(crate) fn in_memory(folder: &Path) -> Database {
        Database {
            place: Place::Memory {
                path: folder.join(DATABASE),
            },
            patience: Duration::ZERO,
            open: None,
        }
    }

    fn path(&self) -> &Path {
        match &self.place {
            Place::File { path, .. } | Place::Memory { path } => path,
        }
    }

    /// Does some work in one transaction. The work is done again from its beginning where the database is held by others,
    /// was removed or replaced, or is damaged; then it may find an empty one.
    ///
    /// # Errors
    /// The database cannot be used within the time that is allowed, or what the work says.
    pub(crate) fn transaction<T>(
        &mut self,
        access: Access,
        mut work: impl FnMut(&Connection) -> Result<T, Fault>,
    ) -> Result<T, SessionError> {
        let begun = Instant::now();
        let deadline = begun + self.patience;
        let (mut damages, mut failures) = (0, 0);
        loop {
            let fault = match self.attempt(access, deadline, &mut work) {
                Ok(value) => return Ok(value),
                Err(fault) => fault,
            };
            match fault {
                Fault::Final(error) => return Err(error),
                // A file that is replaced under an open connection shows itself so, too.
                Fault::Sql(error) if is_io(&error) && failures < MOST_FAILURES => {
                    failures += 1;
                    self.open = None;
                    thread::sleep(Duration::from_millis(5));
                }
                // The folder itself may be the one thing that cannot be written, and the log is a new file in it.
                Fault::Sql(error) if is_read_only(&error) && self.leave_file() => {}
                Fault::Sql(error) => return Err(self.failed(error)),
                Fault::Busy if Instant::now() >= deadline => {
                    return Err(SessionError::Busy {
                        path: self.path().to_owned(),
                        waited: begun.elapsed(),
                    });
                }
                Fault::Busy => thread::sleep(Duration::from_millis(1)),
                Fault::Unfit(source) => {
                    damages += 1;
                    if damages > MOST_DAMAGES {
                        return Err(SessionError::Damaged {
                            path: self.path().to_owned(),
                            source,
                        });
                    }
                    self.discard()?;
                }
                Fault::Moved if Instant::now() >= deadline => {
                    return Err(SessionError::Damaged {
                        path: self.path().to_owned(),
                        source: "it is removed again and again".into(),
                    });
                }
                Fault::Moved => self.open = None,
            }
        }
    }

    /// Goes on in memory; returns whether it was in a file before.
    fn leave_file(&mut self) -> bool {
        let Place::File { path, .. } = &self.place else {
            return false;
        };
        let path = path.clone();
        (self.place, self.open) = (Place::Memory { path }, None);
        true
    }

    fn attempt<T>(
        &mut self,
        access: Access,
        deadline: Instant,
        work: &mut impl FnMut(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let (path, gate) = match &mut self.place {
            Place::File { path, gate } => (path, gate),
            Place::Memory { .. } => {
                let open = match &mut self.open {
                    Some(open) => open,
                    none => none.insert(Open {
                        connection: made(Connection::open_in_memory()?, 0)?,
                        beside: [None; 2],
                    }),
                };
                return transaction(&open.connection, access, work);
            }
        };
        let mut inside = gate.pass(Pass::Shared, deadline)?.ok_or(Fault::Busy)?;
        let open = match self.open.take().filter(|open| open.is_at(path)) {
            Some(open) => self.open.insert(open),
            None => match open(path, self.patience) {
                Ok(open) => self.open.insert(open),
                Err(Fault::Moved | Fault::Unfit(_)) => {
                    drop(inside);
                    let alone = gate.pass(Pass::Alone, deadline)?.ok_or(Fault::Busy)?;
                    // Somebody else may have made it anew in between.
                    self.open = match open(path, self.patience) {
                        Err(Fault::Moved | Fault::Unfit(_)) => Some(create(path, self.patience)?),
                        opened => Some(opened?),
                    };
                    drop(alone);
                    inside = gate.pass(Pass::Shared, deadline)?.ok_or(Fault::Busy)?;
                    self.open
                        .as_mut()
                        .filter(|open| open.is_at(path))
                        .ok_or(Fault::Moved)?
                }
                Err(fault) => return Err(fault),
            },
        };
        let value = transaction(&open.connection, access, work)?;
        // What was written to a file that was removed meanwhile is not in the one that takes its place.
        if access == Access::Write && !open.is_at(path) {
            return Err(Fault::Moved);
        }
        drop(inside);
        Ok(value)
    }

    /// Gives the database up, so that the next transaction, of whatever process, makes it anew.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn discard(&mut self) -> Result<(), SessionError> {
        let open = self.open.take();
        let Place::File { path, .. } = &self.place else {
            return Ok(());
        };
        // What others have made anew already is not touched.
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

/// Whether the system does not let this process write the database, or what lies beside it.
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
    /// The last one out folds the log into the file and removes it. Nobody may replace the file meanwhile, or the log of the
    /// new one would go.
    fn drop(&mut self) {
        if let (Some(open), Place::File { gate, .. }) = (self.open.take(), &mut self.place) {
            let inside = gate.pass(Pass::Shared, Instant::now() + Duration::from_secs(1));
            drop(open);
            drop(inside);
        }
    }
}

fn transaction<T>(
    connection: &Connection,
    access: Access,
    work: &mut impl FnMut(&Connection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    // A transaction that reads first and writes later could find that somebody wrote in between.
    connection.execute_batch(match access {
        Access::Read => "BEGIN DEFERRED",
        Access::Write => "BEGIN IMMEDIATE",
    })?;
    let done = work(connection).and_then(|value| {
        connection.execute_batch("COMMIT")?;
        Ok(value)
    });
    if done.is_err() && !connection.is_autocommit() {
        // The connection is of no use where even this fails, and the next statement says so.
        let _ = connection.execute_batch("ROLLBACK");
    }
    done
}

impl Open {
    /// Whether these still are the files at the path.
    fn is_at(&self, path: &Path) -> bool {
        // SQLite itself never removes them while a connection is open.
        !has_moved(&self.connection, path) && (self.beside == [None; 2] || self.beside == beside(path))
    }
}

/// Opens a database that is there, and judges it.
fn open(path: &Path, patience: Duration) -> Result<Open, Fault> {
    let size = match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => found.len(),
        Ok(_) => return Err(Fault::Unfit("it is no plain file".into())),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(Fault::Moved),
        Err(error) => return Err(SessionError::io("read", path, error).into()),
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match Connection::open_with_flags(path, flags) {
        Err(_) if !path.exists() => return Err(Fault::Moved),
        connection => prepared(connection?, patience)?,
    };
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    if application != APPLICATION {
        return Err(Fault::Unfit("it belongs to another program".into()));
    }
    let origin = connection.query_row(tables::ORIGIN, [], |row| Ok((row.get(0)?, row.get(1)?)));
    let (made_by, made_as): (i64, i64) = origin?;
    if version != made_by || version < tables::VERSION {
        return Err(Fault::Unfit("it is of an older version".into()));
    }
    if version > tables::VERSION {
        return Err(Fault::Final(SessionError::Newer {
            path: path.to_owned(),
            found: version,
            known: tables::VERSION,
        }));
    }
    // A copy that was put back may lie beside a log of which it knows nothing.
    if made_as != file_id(path).map_or(0, |(_, inode)| inode.cast_signed()) {
        return Err(Fault::Unfit("it was copied or moved here".into()));
    }
    // SQLite takes a last page that is cut short for one that ends in zeros.
    let page = number("page_size")?.unsigned_abs();
    if page == 0 || !size.is_multiple_of(page) {
        return Err(Fault::Unfit("its last page is cut short".into()));
    }
    if size <= LOOKED_THROUGH {
        let verdict: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
        if verdict != "ok" {
            return Err(Fault::Unfit(verdict.into()));
        }
    }
    if has_moved(&connection, path) {
        return Err(Fault::Moved);
    }
    Ok(Open {
        connection,
        beside: beside(path),
    })
}

/// Makes an empty database, whatever is there. Nobody else may be inside.
fn create(path: &Path, patience: Duration) -> Result<Open, Fault> {
    // A log of an earlier file would be taken for one of the new.
    for ending in ["", "-wal", "-shm", "-journal"] {
        remove(&with_ending(path, ending))?;
    }
    // The log and its index get the permissions of the file.
    private::write(path, &[]).map_err(|error| SessionError::io("make", path, error))?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = prepared(Connection::open_with_flags(path, flags)?, patience)?;
    // Where a log cannot be shared, such as on some network folders, SQLite keeps to its journal.
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    let made_as = file_id(path).ok_or(Fault::Moved)?.1;
    let connection = made(connection, made_as.cast_signed())?;
    Ok(Open {
        connection,
        beside: beside(path),
    })
}

/// Fills an empty database with empty tables, all at once.
fn made(connection: Connection, made_as: i64) -> Result<Connection, Fault> {
    let (version, tables) = (tables::VERSION, tables::TABLES);
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;
        {tables}
        INSERT INTO origin (version, made_as, token, complete) VALUES ({version}, {made_as}, random(), 0);
        PRAGMA application_id = {APPLICATION};
        PRAGMA user_version = {version};
        COMMIT;"
    ))?;
    Ok(connection)
}

fn prepared(connection: Connection, patience: Duration) -> Result<Connection, Fault> {
    connection.busy_timeout(patience)?;
    connection.set_prepared_statement_cache_capacity(64);
    // The log is synced before it is folded into the file, so that a loss of power leaves an older index, but a sound one.
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

fn beside(path: &Path) -> [Option<FileId>; 2] {
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

/// Where files have no number, one that is open cannot be removed or replaced.
#[cfg(not(unix))]
fn file_id(path: &Path) -> Option<FileId> {
    path.exists().then_some((0, 0))
}

/// Whether the file of a connection is not the one at its path any more.
#[cfg(unix)]
fn has_moved(connection: &Connection, _: &Path) -> bool {
    let mut moved = 0;
    let asked = connection.file_control(Some(c"main"), rusqlite::FileControl::HasMoved(&mut moved));
    asked.is_err() || moved != 0
}

#[cfg(not(unix))]
fn has_moved(_: &Connection, path: &Path) -> bool {
    !path.exists()
}
