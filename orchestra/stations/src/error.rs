//! The errors of the store.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use orchestra_graph::Report;

/// An error of the store of station workflows.
///
/// ```
/// use orchestra_stations::{StationError, StationStore};
/// let directory = tempfile::tempdir()?;
/// let store = StationStore::open(directory.path().join("stations.sqlite"))?;
/// let error = store.workflow("shipping").unwrap_err();
/// assert!(matches!(&error, StationError::UnknownWorkflow { name, .. } if name == "shipping"));
/// assert_eq!((error.code(), error.to_string().as_str()), ("unknown_workflow", "unknown workflow `shipping`"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StationError {
    /// An I/O operation failed.
    #[error("cannot {action} `{}`: {source}", .path.display())]
    Io {
        /// The operation, such as "create".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The database cannot be used, for example because the disk is full.
    #[error("the workflows in `{}` cannot be used: {source}", .path.display())]
    Database {
        /// The database file.
        path: PathBuf,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The database is damaged, or another program's. It is never replaced, because it holds original data.
    #[error("the workflows in `{}` are damaged: {reason}; restore the file from a backup", .path.display())]
    Damaged {
        /// The database file.
        path: PathBuf,
        /// The damage that was found.
        reason: String,
    },
    /// A newer version of the program wrote the database.
    #[error(
        "the workflows in `{}` are of version {found}, and this program knows version {known}: use the newer program",
        .path.display()
    )]
    Newer {
        /// The database file.
        path: PathBuf,
        /// The version of the database.
        found: i64,
        /// The version of this program.
        known: i64,
    },
    /// Another process wrote to the database during the whole wait.
    #[error("the workflows in `{}` are being written by another process; try again", .path.display())]
    Busy {
        /// The database file.
        path: PathBuf,
    },
    /// There is no such workflow.
    #[error("unknown workflow `{}`{}", .name.escape_debug(), similar_text(.similar.as_deref()))]
    UnknownWorkflow {
        /// The requested name or id.
        name: String,
        /// A workflow with a similar name.
        similar: Option<String>,
    },
    /// The workflow has no such version.
    #[error("workflow `{workflow}` has no version {version}; the latest is {latest}")]
    UnknownVersion {
        /// The name of the workflow.
        workflow: String,
        /// The requested version.
        version: u32,
        /// The latest version.
        latest: u32,
    },
    /// The workflow has no active version.
    #[error("workflow `{workflow}` has no active version; activate one, or name the version to use")]
    NoActiveVersion {
        /// The name of the workflow.
        workflow: String,
    },
    /// Another workflow has this name.
    #[error("there is a workflow `{name}` already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// Another workflow had this name, and its runs bear it.
    #[error("`{name}` is a former name of workflow `{workflow}`, and its runs bear it; choose another name")]
    FormerName {
        /// The name.
        name: String,
        /// The present name of the workflow.
        workflow: String,
    },
    /// The text behind `@` in the name of a version is not the number of one.
    #[error("`{}` is not the number of a version", .text.escape_debug())]
    InvalidVersion {
        /// The text.
        text: String,
    },
    /// The name cannot be that of a workflow.
    #[error(
        "`{}` cannot be the name of a workflow: write 1 to 100 letters, digits, blanks, dots, dashes and underscores",
        .name.escape_debug()
    )]
    InvalidName {
        /// The name.
        name: String,
    },
    /// The workflow was changed since the caller read it.
    #[error("workflow `{workflow}` was changed meanwhile; read it again and repeat the change")]
    Changed {
        /// The name of the workflow.
        workflow: String,
        /// The present entity tag.
        etag: String,
    },
    /// The workflow is archived and cannot be changed.
    #[error("workflow `{workflow}` is archived")]
    Archived {
        /// The name of the workflow.
        workflow: String,
    },
    /// The text has errors.
    #[error("the text has {} error(s), the first: {}", .report.errors().count(), first(.report))]
    Invalid {
        /// The diagnostics.
        report: Box<Report>,
    },
    /// A row cannot be printed as DOT.
    #[error("{row}: {reason}")]
    InvalidRow {
        /// The row, such as "station `pick`".
        row: String,
        /// The reason.
        reason: String,
    },
    /// The text contains something that rows cannot hold, such as subgraphs, so it can only be edited as text.
    #[error("the text cannot be edited as rows, because they would lose a part of it:\n{difference}")]
    NotRepresentable {
        /// What would change.
        difference: String,
    },
}

impl StationError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> StationError {
        StationError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Returns the machine-readable error code.
    pub fn code(&self) -> &'static str {
        match self {
            StationError::Io { .. } => "stations_io",
            StationError::Database { .. } => "stations_database",
            StationError::Damaged { .. } => "stations_damaged",
            StationError::Newer { .. } => "stations_newer",
            StationError::Busy { .. } => "stations_busy",
            StationError::UnknownWorkflow { .. } => "unknown_workflow",
            StationError::NoActiveVersion { .. } => "no_active_version",
            StationError::NameTaken { .. } | StationError::FormerName { .. } => "workflow_name_taken",
            StationError::UnknownVersion { .. } | StationError::InvalidVersion { .. } => "unknown_version",
            StationError::InvalidName { .. } => "workflow_name",
            StationError::Changed { .. } => "workflow_changed",
            StationError::Archived { .. } => "workflow_archived",
            StationError::Invalid { .. } => "invalid_workflow",
            StationError::InvalidRow { .. } => "invalid_row",
            StationError::NotRepresentable { .. } => "not_representable",
        }
    }
}

fn similar_text(similar: Option<&str>) -> String {
    similar.map_or_else(String::new, |similar| format!("; did you mean `{similar}`?"))
}

fn first(report: &Report) -> String {
    let first = report.errors().next();
    first.map_or_else(String::new, |diagnostic| diagnostic.message.to_string())
}
