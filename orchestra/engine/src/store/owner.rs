//! Who owns a run: a lock that dies with its process (rule D5).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// The process that owns a run: what `owner.lock` says.
///
/// ```
/// use orchestra_engine::Owner;
/// let said = r#"{"pid":4242,"host":"build-7","program":"orchestra","epoch":3,"since":"2026-11-21T15:30:00.042Z"}"#;
/// let owner: Owner = serde_json::from_str(said)?;
/// assert_eq!(
///     owner.to_string(),
///     "process 4242 (`orchestra`) on host `build-7`, since 2026-11-21T15:30:00.042Z"
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The process.
    pub pid: u32,
    /// The machine.
    pub host: String,
    /// The program.
    pub program: String,
    /// How many owners the run has had, with this one.
    pub epoch: u64,
    /// Since when.
    pub since: Timestamp,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Owner {
            pid,
            host,
            program,
            since,
            ..
        } = self;
        write!(f, "process {pid} (`{program}`) on host `{host}`, since {since}")
    }
}
