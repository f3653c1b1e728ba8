//! The lock file: the released versions of the pipelines of a project, and what a change means for their unfinished runs.

mod changes;
mod compatibility;
mod file;
mod positions;

pub use changes::{ChangeClass, VersionChange};
pub use compatibility::Compatibility;
pub use file::{LOCK_FILE, LockError, LockFile, LockedPipeline, LockedVersion};
pub(crate) use positions::Positions;
