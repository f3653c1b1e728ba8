//! The database file: opening, checking and migrating it.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::error::StationError;
use crate::schema::{APPLICATION, MIGRATIONS, VERSION};

/// Time to wait for another process that writes.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Database {
    path: PathBuf,
    connection: Mutex<Connection>,
}

impl Database {
    /// Opens the database. Creates it if it is missing, and migrates one of an earlier version after a backup.
    pub(crate) fn open(path: &Path) -> Result<Database, StationError> {
        create_private(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let failed = |error| failure(path, error);
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        let database = Database {
            path: path.to_owned(),
            connection: Mutex::new(connection),
        };
        database.prepare()?;
        Ok(database)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn prepare(&self) -> Result<(), StationError> {
        let (version, application, sound) = self.with(|connection| {
            connection.pragma_update(None, "foreign_keys", true)?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
            let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
            let sound: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
            Ok((version, application, sound))
        })?;
        if sound != "ok" {
            return Err(self.damaged(sound));
        }
        if version > VERSION {
            return Err(StationError::Newer {
                path: self.path.clone(),
                found: version,
                known: VERSION,
            });
        }
        let empty = version == 0 && self.is_empty()?;
        if application != APPLICATION && !empty {
            return Err(self.damaged("it is a database of another program".to_owned()));
        }
        if version < VERSION {
            if !empty {
                self.back_up(version)?;
            }
            self.migrate()?;
        }
        // Readers do not wait for writers. The mode is kept in the file.
        self.with(|connection| connection.pragma_update(None, "journal_mode", "WAL"))
    }

    fn is_empty(&self) -> Result<bool, StationError> {
        self.with(|connection| {
            let tables: i64 =
                connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            Ok(tables == 0)
        })
    }

    /// Copies the database before a migration.
    fn back_up(&self, version: i64) -> Result<(), StationError> {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".version-{version}"));
        let backup = PathBuf::from(name);
        if backup.exists() {
            return Ok(());
        }
        self.with(|connection| {
            let target = backup.to_string_lossy();
            connection.execute("VACUUM INTO ?1", [&*target]).map(drop)
        })
    }

    fn migrate(&self) -> Result<(), StationError> {
        self.write(|transaction| {
            // Another process may have migrated it meanwhile.
            let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
            let done = usize::try_from(version).unwrap_or(0);
            for statements in MIGRATIONS.iter().skip(done) {
                transaction.execute_batch(statements)?;
            }
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
            Ok(())
        })
    }

    fn damaged(&self, reason: String) -> StationError {
        StationError::Damaged {
            path: self.path.clone(),
            reason,
        }
    }

    /// Runs statements outside of a transaction.
    fn with<T>(&self, run: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StationError> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        run(&connection).map_err(|error| failure(&self.path, error))
    }

    /// Reads in a transaction, so that all rows are of one time.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, StationError> {
        self.transaction(TransactionBehavior::Deferred, read)
    }

    /// Writes in a transaction, which no other writer interrupts.
    pub(crate) fn write<T>(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, StationError> {
        self.transaction(TransactionBehavior::Immediate, write)
    }

    fn transaction<T>(
        &self,
        behavior: TransactionBehavior,
        run: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, StationError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = connection.transaction_with_behavior(behavior);
        let transaction = transaction.map_err(|error| failure(&self.path, error))?;
        let result = run(&transaction).and_then(|value| {
            transaction.commit()?;
            Ok(value)
        });
        result.map_err(|error| match error {
            Failure::Refused(error) => *error,
            Failure::Sql(error) => failure(&self.path, error),
        })
    }
}

/// The reason why a transaction is rolled back.
pub(crate) enum Failure {
    /// The request is refused.
    Refused(Box<StationError>),
    /// SQLite failed.
    Sql(rusqlite::Error),
}

impl From<StationError> for Failure {
    fn from(error: StationError) -> Failure {
        Failure::Refused(Box::new(error))
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Sql(error)
    }
}

fn failure(path: &Path, error: rusqlite::Error) -> StationError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StationError::Busy { path },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StationError::Damaged {
            path,
            reason: error.to_string(),
        },
        _ => StationError::Database {
            path,
            source: Box::<dyn Error + Send + Sync>::from(error),
        },
    }
}

/// Creates the file if it is missing, so that only its owner can read it.
fn create_private(path: &Path) -> Result<(), StationError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| StationError::io("create", folder, error))?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(StationError::io("create", path, error))
        }
        _ => Ok(()),
    }
}
