//! The errors of the index.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orchestra_engine::RunId;

/// An error of the index of runs. It never affects the runs themselves: their data is in the run folders, and the index
/// is only derived from it.
///
/// ```
/// use orchestra_sessions::{SessionError, SessionIndex};
/// let directory = tempfile::tempdir()?;
/// let error = SessionIndex::open(directory.path())?.run("nightly").unwrap_err();
/// assert!(matches!(&error, SessionError::UnknownRun { name, .. } if name == "nightly"));
/// assert_eq!((error.code(), error.to_string().as_str()), ("unknown_run", "unknown run `nightly`"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// An I/O operation failed.
    #[error("cannot {action} `{}`: {source}", .path.display())]
    Io {
        /// The operation, such as "read".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The database cannot be used, for example because the disk is full.
    #[error("the index of runs `{}` cannot be used: {source}", .path.display())]
    Database {
        /// The database file.
        path: PathBuf,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The database is damaged, and was damaged again after it was rebuilt.
    #[error("the index of runs `{}` is damaged, and again after it was rebuilt: {source}", .path.display())]
    Damaged {
        /// The database file.
        path: PathBuf,
        /// The damage that was found.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Another process held the index during the whole wait.
    #[error(
        "the index of runs `{}` is held by another process, and was not free within {waited:?}; \
         a process that was stopped while it wrote must go on or end", .path.display()
    )]
    Busy {
        /// The database file.
        path: PathBuf,
        /// The time waited.
        waited: Duration,
    },
    /// A newer version of the program created the database.
    #[error(
        "the index of runs `{}` is of version {found}, and this program knows version {known}: \
         use the newer program, or remove the file, which is rebuilt from the run folders", .path.display()
    )]
    Newer {
        /// The database file.
        path: PathBuf,
        /// The version of the database.
        found: i64,
        /// The version of this program.
        known: i64,
    },
    /// No run has this id, and none begins with it.
    #[error("unknown run `{}`{}", .name.escape_debug(), similar_text(.similar))]
    UnknownRun {
        /// The requested id.
        name: String,
        /// Runs with similar ids.
        similar: Vec<RunId>,
    },
    /// Several runs begin with this text.
    #[error("several runs begin with `{}`: {}", .prefix.escape_debug(), listed(.runs))]
    AmbiguousRun {
        /// The requested prefix.
        prefix: String,
        /// The matching runs.
        runs: Vec<RunId>,
    },
    /// The folder contains no run.
    #[error("`{}` is not a run folder: {reason}", .folder.display())]
    NotARun {
        /// The folder.
        folder: PathBuf,
        /// The reason, such as a missing file.
        reason: String,
    },
    /// A run outside of the runs folder has the id of another run.
    #[error("the run in `{}` cannot be listed: `{}` bears its name `{run}`", .folder.display(), .taken_by.display())]
    Taken {
        /// The id.
        run: RunId,
        /// The folder.
        folder: PathBuf,
        /// The folder of the run that has the id already.
        taken_by: PathBuf,
    },
    /// The thread that maintains the index has panicked.
    #[error("the index of runs has stopped; open it again")]
    Stopped,
}

impl SessionError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> SessionError {
        SessionError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Returns the machine-readable error code.
    pub fn code(&self) -> &'static str {
        match self {
            SessionError::Io { .. } => "session_io",
            SessionError::Database { .. } => "session_database",
            SessionError::Damaged { .. } => "session_damaged",
            SessionError::Busy { .. } => "session_busy",
            SessionError::Newer { .. } => "session_newer",
            SessionError::UnknownRun { .. } => "unknown_run",
            SessionError::AmbiguousRun { .. } => "ambiguous_run",
            SessionError::NotARun { .. } => "not_a_run",
            SessionError::Taken { .. } => "run_name_taken",
            SessionError::Stopped => "session_stopped",
        }
    }
}

fn similar_text(similar: &[RunId]) -> String {
    match similar {
        [] => String::new(),
        similar => format!("; did you mean {}?", listed(similar)),
    }
}

/// Returns the quoted ids as a list, at most five of them.
fn listed(runs: &[RunId]) -> String {
    const MOST: usize = 5;
    let names: Vec<String> = runs.iter().take(MOST).map(|run| format!("`{run}`")).collect();
    match runs.len().checked_sub(MOST) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_of_names_are_cut() {
        let runs: Vec<RunId> = (0..7).map(|n| RunId::new(format!("r{n}")).unwrap()).collect();
        let error = SessionError::AmbiguousRun {
            prefix: "r".to_owned(),
            runs: runs.clone(),
        };
        assert_eq!(
            error.to_string(),
            "several runs begin with `r`: `r0`, `r1`, `r2`, `r3`, `r4` and 2 more"
        );
        let error = SessionError::UnknownRun {
            name: "s0".to_owned(),
            similar: runs[..1].to_vec(),
        };
        assert_eq!(error.to_string(), "unknown run `s0`; did you mean `r0`?");
    }
}
