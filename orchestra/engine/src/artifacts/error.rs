//! Why an artifact cannot be stored or retrieved.

use std::io;
use std::path::PathBuf;

use crate::store::StoreError;

/// An artifact that cannot be stored or retrieved (Attractor 5.5).
///
/// ```
/// use orchestra_engine::{ArtifactError, ArtifactStore};
/// let artifacts = ArtifactStore::in_memory();
/// artifacts.store("report", "Test report", "all green")?;
/// let error = artifacts.retrieve("reprot").unwrap_err();
/// assert_eq!(error.to_string(), "no artifact `reprot` is stored; did you mean `report`?");
/// assert_eq!(error.code(), "artifact_not_found");
/// # Ok::<(), ArtifactError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// No artifact has this id.
    #[error("no artifact `{}` is stored{}", .id.escape_debug(), suggestion(.near.as_deref()))]
    NotFound {
        /// What was asked for.
        id: String,
        /// The nearest id that is there.
        near: Option<String>,
    },
    /// A text that can be the id of no artifact.
    #[error(
        "`{}` cannot be the id of an artifact: 1 to {limit} bytes are allowed, no control characters, no white space \
         at either end, and no `.` or `..` between slashes",
        .id.escape_debug()
    )]
    BadId {
        /// The text; a long one is cut.
        id: String,
        /// The most bytes that an id may have.
        limit: usize,
    },
    /// A name that is too long.
    #[error("the name of artifact `{}` has {length} bytes, and {limit} are allowed", .id.escape_debug())]
    LongName {
        /// The artifact.
        id: String,
        /// How many bytes the name has.
        length: usize,
        /// The most bytes that a name may have.
        limit: usize,
    },
    /// Data that could not be read again.
    #[error("the data of artifact `{}` is nested deeper than {limit} levels; store it as text", .id.escape_debug())]
    TooDeep {
        /// The artifact.
        id: String,
        /// The most levels that data may have.
        limit: usize,
    },
    /// The file of an artifact is not what was stored.
    #[error(
        "artifact `{}` is damaged: `{}` {found}; store it again, or go back to an earlier checkpoint",
        .id.escape_debug(), .path.display()
    )]
    Damaged {
        /// The artifact.
        id: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it, such as "is gone".
        found: String,
    },
    /// The system refuses, the index of the artifacts is damaged, or another process owns the run now.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What ends a run whose artifacts cannot be trusted.
impl From<ArtifactError> for StoreError {
    fn from(error: ArtifactError) -> StoreError {
        match error {
            ArtifactError::Store(error) => error,
            other => StoreError::io("use", "artifacts".as_ref(), io::Error::other(other)),
        }
    }
}

impl ArtifactError {
    /// The error as one word, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            ArtifactError::NotFound { .. } => "artifact_not_found",
            ArtifactError::BadId { .. } => "artifact_bad_id",
            ArtifactError::LongName { .. } => "artifact_long_name",
            ArtifactError::TooDeep { .. } => "artifact_too_deep",
            ArtifactError::Damaged { .. } => "artifact_damaged",
            ArtifactError::Store(error) => error.code(),
        }
    }
}

fn suggestion(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| {
        format!("; did you mean `{}`?", near.escape_debug())
    })
}
