//! The reason of a pause.

use serde::{Deserialize, Serialize};

/// The machine-readable reason of a pause.
///
/// ```
/// use orchestra_engine::PauseCode;
/// assert_eq!(PauseCode::Budget.word(), "budget");
/// assert_eq!(serde_json::to_string(&PauseCode::WaitsForHuman)?, r#""waits_for_human""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PauseCode {
    /// A human gate waits, and nobody can be asked.
    #[default]
    WaitsForHuman,
    /// A signal interrupted the program.
    Interrupted,
    /// A user or a program requested it.
    Requested,
    /// A budget was reached.
    Budget,
    /// The run folder cannot be written.
    Store,
}

impl PauseCode {
    /// Returns the machine-readable name.
    pub const fn word(self) -> &'static str {
        match self {
            PauseCode::WaitsForHuman => "waits_for_human",
            PauseCode::Interrupted => "interrupted",
            PauseCode::Requested => "requested",
            PauseCode::Budget => "budget",
            PauseCode::Store => "store",
        }
    }
}
