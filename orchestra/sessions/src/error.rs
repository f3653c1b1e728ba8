//! Why the index of runs cannot be read or written.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orchestra_engine::RunId;

/// The index of runs cannot do what was asked. The runs themselves are never harmed by it: what they did stands in their
/// folders, and the index is only made from these.
///
/// ```
/// use orchestra_sessions::{SessionError, SessionIndex};
/// let place = tempfile::tempdir()?;
/// let error = SessionIndex::open(place.path())?.run("nightly").unwrap_err();
/// assert!(matches!(&error, SessionError::UnknownRun { name, .. } if name == "nightly"));
/// assert_eq!((error.code(), error.to_string().as_str()), ("unknown_run", "there is no run `nightly`"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The system refuses.
    #[error("cannot {action} `{}`: {source}", .path.display())]
    Io {
        /// What was to be done, such as "read".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The database cannot be used, such as on a full disk.
    #[error("the index of runs `{}` cannot be used: {source}", .path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The database is damaged, and what was made anew in its place soon was so too.
    #[error("the index of runs `{}` is damaged, and again after it was rebuilt: {source}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Another process has held the index all the time.
    #[error(
        "the index of runs `{}` is held by another process, and was not free within {waited:?}; \
         a process that was stopped while it wrote must go on or end", .path.display()
    )]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// A newer version of the program made the database.
    #[error(
        "the index of runs `{}` is of version {found}, and this program knows version {known}: \
         use the newer program, or remove the file, which is rebuilt from the run folders", .path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The version of this program.
        known: i64,
    },
    /// No run bears the name, and none begins with it.
    #[error("there is no run `{}`{}", .name.escape_debug(), similar_text(.similar))]
    UnknownRun {
        /// The name.
        name: String,
        /// Runs that may be meant.
        similar: Vec<RunId>,
    },
    /// Several runs begin with the text.
    #[error("several runs begin with `{}`: {}", .prefix.escape_debug(), listed(.runs))]
    AmbiguousRun {
        /// The text.
        prefix: String,
        /// Those runs.
        runs: Vec<RunId>,
    },
    /// A folder that holds no run.
    #[error("`{}` is no run folder: {reason}", .folder.display())]
    NotARun {
        /// The folder.
        folder: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// A run in a folder of its own bears the name of one in the runs folder.
    #[error("the run in `{}` cannot be listed: `{}` bears its name `{run}`", .folder.display(), .taken_by.display())]
    Taken {
        /// The name.
        run: RunId,
        /// The folder.
        folder: PathBuf,
        /// The folder of the run that has the name already.
        taken_by: PathBuf,
    },
    /// The thread that keeps the index has ended, by a fault of its own.
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

    /// The error as one word, for machines.
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

/// Names in quotes, at most five of them.
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
        assert_eq!(error.to_string(), "there is no run `s0`; did you mean `r0`?");
    }
}
