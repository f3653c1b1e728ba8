//! The status of a run that has ended.

use std::fmt;

use orchestra_core::RunFailure;
use serde::Serialize;

/// The status of a run that has ended.
///
/// ```
/// assert_eq!(orchestra_engine::RunStatus::Cancelled.to_string(), "cancelled");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// The exit was reached.
    Success,
    /// The run failed; the result has the failure.
    Fail,
    /// The run was paused and can be resumed: it waits for a person, reached a budget, or a pause was requested.
    Paused,
    /// The run was cancelled.
    Cancelled,
}

impl RunStatus {
    /// Returns the status of a run that ended with this failure, or without one.
    pub(crate) fn from_failure(failure: Option<&RunFailure>) -> RunStatus {
        match failure {
            None => RunStatus::Success,
            Some(RunFailure::Cancelled { .. }) => RunStatus::Cancelled,
            Some(
                RunFailure::WaitsForHuman { .. }
                | RunFailure::Paused { .. }
                | RunFailure::MaxTime { .. }
                | RunFailure::Budget { .. },
            ) => RunStatus::Paused,
            Some(_) => RunStatus::Fail,
        }
    }

    /// Returns the name of the status, for machines.
    pub const fn word(self) -> &'static str {
        match self {
            RunStatus::Success => "success",
            RunStatus::Fail => "fail",
            RunStatus::Paused => "paused",
            RunStatus::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
