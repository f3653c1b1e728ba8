//! The errors of reading, writing and owning a run folder.

use std::io;
use std::path::{Path, PathBuf};

use super::layout::{CHECKPOINT, JOURNAL, MANIFEST};
use super::owner::Owner;
use crate::limit::SystemError;

/// Maximum number of bytes of a file that are read at once.
pub(crate) const MAX_WHOLE: u64 = 1 << 30;

/// The error of a run folder that cannot be written, read or owned.
///
/// ```
/// use orchestra_engine::{Engine, StartError};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// std::fs::write(directory.path().join("mine.txt"), "")?;
/// let start = Engine::builder().build()?.start(pipeline, ()).run_dir(directory.path());
/// let StartError::Store(error) = start.await.unwrap_err() else { panic!() };
/// assert_eq!(error.code(), "store_occupied");
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// An I/O error.
    #[error("cannot {action} `{}`: {}", .path.display(), SystemError(.source))]
    Io {
        /// The failed action, such as "write".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The folder of a new run is not empty.
    #[error("the run folder `{}` exists and is not empty", .path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
    },
    /// The path is not a plain file or folder. Links are never followed.
    #[error("`{}` is not a plain {expected}; the engine follows no links inside a run folder", .path.display())]
    NotPlain {
        /// The path.
        path: PathBuf,
        /// The expected kind.
        expected: &'static str,
    },
    /// A file is larger than the engine reads, or would be larger than it writes.
    #[error("`{}` is larger than {limit} bytes", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// A name would lead out of the run folder, or is invalid on some file systems.
    #[error("`{}` cannot name a file of a run", .name.escape_debug())]
    BadName {
        /// The name.
        name: String,
    },
    /// A value has no JSON form.
    #[error("cannot write `{}` as JSON: {source}", .path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: serde_json::Error,
    },
    /// The folder does not contain a run.
    #[error("`{}` holds no run: it has no `{missing}`{}", .path.display(), unborn(.missing))]
    NoRun {
        /// The folder.
        path: PathBuf,
        /// The missing file.
        missing: &'static str,
    },
    /// The content of a file differs from what was written and cannot be trusted (rule D3).
    #[error(
        "`{}` is damaged at line {line} (byte {offset}): expected {expected}, found {found}; {}",
        .path.display(), repair(.path, *.line)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The offset of the line in bytes.
        offset: u64,
        /// The expected content.
        expected: String,
        /// The actual content.
        found: String,
    },
    /// The journal ends before a record that another file refers to: records were lost (rule D3).
    #[error(
        "`{}` ends behind record {records}, but `{}` was written behind record {proven}: records were cut off; \
         restore the file from a copy, or accept the loss when the run is resumed: it then goes on from the latest state \
         that is left, and what was done since is done again", .path.display(), .by.display()
    )]
    JournalCut {
        /// The journal.
        path: PathBuf,
        /// The number of its records.
        records: u64,
        /// The least number of records that it had.
        proven: u64,
        /// The file that proves it.
        by: PathBuf,
    },
    /// A file in the run folder belongs to another run or pipeline (rule D3).
    #[error(
        "`{}` belongs to {found}, and the run folder to {expected}; restore the file from a copy of this run folder",
        .path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The actual owner of the file.
        found: String,
        /// The expected owner of the file.
        expected: String,
    },
    /// Another process changed a file of a run that this process owns (rule D5). This process writes nothing more.
    #[error(
        "`{}` was changed during the run: expected {expected}, found {found}; nothing more was written. No tool \
         may change the files that the engine keeps in a run folder", .path.display()
    )]
    Tampered {
        /// The file.
        path: PathBuf,
        /// Its state after the last write.
        expected: String,
        /// Its current state.
        found: String,
    },
    /// The run folder was removed while the run was in progress. This process does not create it again.
    #[error("the run folder `{}` was removed during the run; the run cannot be resumed", .path.display())]
    FolderGone {
        /// The folder.
        path: PathBuf,
    },
    /// A file has an unknown schema version.
    #[error(
        "`{}` has the form `{found}`, and this version reads `{supported}`; \
         use the version of the program that wrote it", .path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: String,
        /// The supported schema.
        supported: &'static str,
    },
    /// The run has no checkpoint of that name (rule D4).
    #[error(
        "the run in `{}` has no checkpoint `{}`; it has `cp_000000` to `{last}`",
        .path.display(), .name.escape_debug()
    )]
    NoCheckpoint {
        /// The run folder.
        path: PathBuf,
        /// The name.
        name: String,
        /// The last checkpoint.
        last: String,
    },
    /// The folder is a copy of a run that a server executes.
    #[error(
        "the run in `{}` is a copy: {server} executes it; answer, cancel or resume it there, or replay it here",
        .path.display()
    )]
    Exported {
        /// The run folder.
        path: PathBuf,
        /// The address of the server.
        server: String,
    },
    /// The folder for a copy of a run holds something else.
    #[error("`{}` holds {found}; export the run to another folder", .path.display())]
    NotACopy {
        /// The folder.
        path: PathBuf,
        /// The content of the folder.
        found: String,
    },
    /// The run belongs to another process (rule D5).
    #[error(
        "the run in `{}` is owned by {}; wait for it to end, or stop it; one that is frozen can be replaced by \
         taking the run over", .path.display(), named(.by)
    )]
    Owned {
        /// The run folder.
        path: PathBuf,
        /// The owner. `None` if it has not recorded itself yet.
        by: Option<Box<Owner>>,
    },
    /// Another process has locked the run folder, as a process does for a moment when it recovers or inspects the run.
    #[error(
        "the run folder `{}` stays locked by {}, which is about to take the run up or looks at it; try again, or end \
         that process if it is frozen", .path.display(), numbered(*.pid)
    )]
    Busy {
        /// The run folder.
        path: PathBuf,
        /// The process id, if the system reports it.
        pid: Option<u32>,
    },
    /// The owner of the run started this process, for example as a tool of a stage, so it cannot take over the run.
    #[error(
        "the run in `{}` is owned by {by}, which has started this process; only others can take the run over",
        .path.display()
    )]
    OwnProcess {
        /// The run folder.
        path: PathBuf,
        /// The owner.
        by: Box<Owner>,
    },
    /// Another process has taken over the run (rule D5). This process writes nothing more.
    #[error(
        "the run in `{}` was taken over by {}; this process writes nothing more to it",
        .path.display(), named(.by)
    )]
    OwnershipLost {
        /// The run folder.
        path: PathBuf,
        /// The new owner. `None` if it cannot be read.
        by: Option<Box<Owner>>,
    },
}

/// Returns the advice for a folder without a required file.
fn unborn(missing: &str) -> &'static str {
    match missing {
        MANIFEST => "; a run that ended before it began leaves such a folder, which can be removed",
        _ => "; restore the file from a copy",
    }
}

fn named(owner: &Option<Box<Owner>>) -> String {
    owner
        .as_ref()
        .map_or_else(|| "another process".to_owned(), ToString::to_string)
}

fn numbered(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// Returns the advice for a damaged file.
fn repair(path: &Path, line: u64) -> String {
    let journal = path.file_name().is_some_and(|name| name == JOURNAL);
    match line.checked_sub(2) {
        Some(last) if journal => format!(
            "what comes before is sound: replay the run from `cp_{last:06}` or earlier, or restore the file from a copy"
        ),
        _ => "restore the file from a copy, or start the run anew".to_owned(),
    }
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> StoreError {
        if source.get_ref().is_some_and(|source| source.is::<NotAFile>()) {
            return StoreError::NotPlain {
                path: path.to_owned(),
                expected: "file",
            };
        }
        if source.kind() == io::ErrorKind::FileTooLarge && source.raw_os_error().is_none() {
            return StoreError::TooLarge {
                path: path.to_owned(),
                limit: MAX_WHOLE,
            };
        }
        StoreError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Creates the error of a checkpoint whose checksum is right but whose state is invalid.
    pub(crate) fn damaged_state(folder: &Path, error: &impl std::fmt::Display) -> StoreError {
        StoreError::Damaged {
            path: folder.join(CHECKPOINT),
            line: 1,
            offset: 0,
            expected: "a state that fits the pipeline".to_owned(),
            found: error.to_string(),
        }
    }

    /// Creates the error of a record whose checksum is right but whose content is invalid.
    pub(crate) fn damaged_record(folder: &Path, number: u64, error: &impl std::fmt::Display) -> StoreError {
        StoreError::Damaged {
            path: folder.join(JOURNAL),
            line: number + 1,
            offset: 0,
            expected: "a record that can be understood".to_owned(),
            found: error.to_string(),
        }
    }

    /// Returns a copy of an error that concerns the whole run: a failure of the disk, or an action of another process.
    /// Returns `None` for other errors.
    pub(crate) fn of_all(&self) -> Option<StoreError> {
        match self {
            StoreError::Io { action, path, source } => {
                let source = match source.raw_os_error() {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => io::Error::new(source.kind(), source.to_string()),
                };
                Some(StoreError::io(action, path, source))
            }
            StoreError::Tampered {
                path,
                expected,
                found,
            } => Some(StoreError::Tampered {
                path: path.clone(),
                expected: expected.clone(),
                found: found.clone(),
            }),
            StoreError::FolderGone { path } => Some(StoreError::FolderGone { path: path.clone() }),
            StoreError::OwnershipLost { path, by } => Some(StoreError::OwnershipLost {
                path: path.clone(),
                by: by.clone(),
            }),
            _ => None,
        }
    }

    /// Returns the machine-readable error code.
    pub fn code(&self) -> &'static str {
        match self {
            StoreError::Io { .. } => "store_io",
            StoreError::Occupied { .. } => "store_occupied",
            StoreError::NotPlain { .. } => "store_not_plain",
            StoreError::TooLarge { .. } => "store_too_large",
            StoreError::BadName { .. } => "store_bad_name",
            StoreError::Json { .. } => "store_json",
            StoreError::NoRun { .. } => "store_no_run",
            StoreError::Damaged { .. } => "store_damaged",
            StoreError::JournalCut { .. } => "journal_cut",
            StoreError::Foreign { .. } => "store_foreign",
            StoreError::Tampered { .. } => "store_tampered",
            StoreError::FolderGone { .. } => "run_folder_gone",
            StoreError::Version { .. } => "store_version",
            StoreError::NoCheckpoint { .. } => "store_no_checkpoint",
            StoreError::Exported { .. } => "run_exported",
            StoreError::NotACopy { .. } => "store_not_a_copy",
            StoreError::Owned { .. } => "store_owned",
            StoreError::Busy { .. } => "store_busy",
            StoreError::OwnProcess { .. } => "store_own_process",
            StoreError::OwnershipLost { .. } => "store_ownership_lost",
        }
    }
}

/// The error of a path that is not a regular file but a link, a folder, a pipe, a device or a socket.
#[derive(Debug)]
pub(crate) struct NotAFile;

impl std::fmt::Display for NotAFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it is not a regular file")
    }
}

impl std::error::Error for NotAFile {}

impl From<NotAFile> for io::Error {
    fn from(error: NotAFile) -> io::Error {
        io::Error::other(error)
    }
}
