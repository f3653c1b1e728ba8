//! The kind of crash that the records of a run survive.

use serde::{Deserialize, Serialize};

/// The kind of crash that the records of a run survive (rules D1, D3).
///
/// ```
/// use orchestra_engine::Durability;
/// assert_eq!(Durability::default(), Durability::Full);
/// assert_eq!(serde_json::to_string(&Durability::Process)?, r#""process""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Durability {
    /// A loss of power: a stage counts as done when its record is on the disk.
    #[default]
    Full,
    /// The end of the process, but not a loss of power: a stage counts as done when the operating system has its
    /// record.
    Process,
    /// No crash: there is no journal. A run can only be resumed after a pause or its end.
    None,
}
