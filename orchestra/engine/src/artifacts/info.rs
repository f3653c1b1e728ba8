//! Artifacts without their data.

use std::sync::Arc;

use serde::Serialize;

use crate::clock::Timestamp;
use crate::store::StoreError;

/// An artifact without its data (Attractor 5.5).
///
/// ```
/// let artifacts = orchestra_engine::ArtifactStore::in_memory();
/// let info = artifacts.store("answer", "The answer", 42)?;
/// assert_eq!((info.name.as_str(), info.size_bytes, info.is_file_backed), ("The answer", 2, false));
/// assert!(info.digest.starts_with("73475cb40a568e8d"));
/// assert_eq!(artifacts.list(), [info]);
/// # Ok::<(), orchestra_engine::ArtifactError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ArtifactInfo {
    /// The id, which is unique in the run.
    pub id: String,
    /// The human-readable name.
    pub name: String,
    /// The length of the JSON text in bytes.
    pub size_bytes: u64,
    /// The time at which this content was first stored under this id and name.
    pub stored_at: Timestamp,
    /// `true` if the data is in a file of its own.
    pub is_file_backed: bool,
    /// The SHA-256 digest of the JSON text in hexadecimal digits.
    pub digest: String,
}

pub(crate) type Guard = Arc<dyn Fn() -> Result<(), StoreError> + Send + Sync>;
