//! The error of the artifact store.

use std::io;
use std::path::PathBuf;

use crate::store::StoreError;

/// The error returned when an artifact cannot be stored or retrieved (Attractor 5.5).
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
        /// The requested id.
        id: String,
        /// The most similar stored id.
        near: Option<String>,
    },
    /// A text is not a valid artifact id.
    #[error(
        "`{}` cannot be the id of an artifact: 1 to {limit} bytes are allowed, no control characters, no white space \
         at either end, and no `.` or `..` between slashes",
        .id.escape_debug()
    )]
    BadId {
        /// The text, cut if it is too long.
        id: String,
        /// Maximum length of an id in bytes.
        limit: usize,
    },
    /// A name is too long.
    #[error("the name of artifact `{}` has {length} bytes, and {limit} are allowed", .id.escape_debug())]
    LongName {
        /// The id of the artifact.
        id: String,
        /// The length of the name in bytes.
        length: usize,
        /// Maximum length of a name in bytes.
        limit: usize,
    },
    /// The data is nested too deeply to be parsed again.
    #[error("the data of artifact `{}` is nested deeper than {limit} levels; store it as text", .id.escape_debug())]
    TooDeep {
        /// The id of the artifact.
        id: String,
        /// Maximum nesting depth of the data.
        limit: usize,
    },
    /// The file of an artifact differs from what was stored.
    #[error(
        "artifact `{}` is damaged: `{}` {found}; store it again, or go back to an earlier checkpoint",
        .id.escape_debug(), .path.display()
    )]
    Damaged {
        /// The id of the artifact.
        id: String,
        /// The file.
        path: PathBuf,
        /// The problem with the file, such as "is gone".
        found: String,
    },
    /// An I/O error, a damaged artifact index, or the loss of the run to another process.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The error that ends a run whose artifacts cannot be trusted.
impl From<ArtifactError> for StoreError {
    fn from(error: ArtifactError) -> StoreError {
        match error {
            ArtifactError::Store(error) => error,
            other => StoreError::io("use", "artifacts".as_ref(), io::Error::other(other)),
        }
    }
}

impl ArtifactError {
    /// Returns the machine-readable error code.
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
