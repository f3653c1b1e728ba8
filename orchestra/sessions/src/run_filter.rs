//! The filter of the list of runs, and positions in the list.

use std::fmt;
use std::str::FromStr;

use orchestra_engine::{RunId, Timestamp};

use crate::rows::{Session, SessionStatus};

/// A filter for [`SessionIndex::list`](crate::SessionIndex::list).
///
/// ```
/// use orchestra_sessions::{RunFilter, SessionIndex, SessionStatus};
/// let directory = tempfile::tempdir()?;
/// let index = SessionIndex::open(directory.path())?;
/// let failed = index.list(&RunFilter::all().status(SessionStatus::Fail).name("release").limit(10))?;
/// assert!(failed.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    pub(crate) statuses: Vec<SessionStatus>,
    pub(crate) name: Option<String>,
    pub(crate) started_before: Option<Timestamp>,
    pub(crate) started_after: Option<Timestamp>,
    pub(crate) after: Option<RunCursor>,
    pub(crate) limit: Option<usize>,
}

impl RunFilter {
    /// Returns a filter that matches all runs.
    pub fn all() -> RunFilter {
        RunFilter::default()
    }

    /// Matches runs with this status only. Repeated calls match any of the given statuses.
    #[must_use]
    pub fn status(mut self, status: SessionStatus) -> RunFilter {
        self.statuses.push(status);
        self
    }

    /// Matches runs of the pipeline with this name only.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> RunFilter {
        self.name = Some(name.into());
        self
    }

    /// Matches runs that started before a time only.
    #[must_use]
    pub fn started_before(mut self, moment: Timestamp) -> RunFilter {
        self.started_before = Some(moment);
        self
    }

    /// Matches runs that started at or after a time only.
    #[must_use]
    pub fn started_after(mut self, moment: Timestamp) -> RunFilter {
        self.started_after = Some(moment);
        self
    }

    /// Matches the runs that follow this one in the list only.
    #[must_use]
    pub fn after(mut self, cursor: RunCursor) -> RunFilter {
        self.after = Some(cursor);
        self
    }

    /// Returns the latest `limit` runs only.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> RunFilter {
        self.limit = Some(limit);
        self
    }
}

/// The position of a run in the list of runs. Its text form can be handed to a client and parsed again.
///
/// ```
/// use orchestra_sessions::RunCursor;
/// let cursor: RunCursor = "1763739000042-nightly".parse()?;
/// assert_eq!(cursor.to_string(), "1763739000042-nightly");
/// assert!("nightly".parse::<RunCursor>().is_err());
/// # Ok::<(), orchestra_sessions::InvalidCursor>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCursor {
    pub(crate) started: Option<Timestamp>,
    pub(crate) run: RunId,
}

impl Session {
    /// Returns the position of the run in the list of runs.
    pub fn cursor(&self) -> RunCursor {
        RunCursor {
            started: self.summary.started,
            run: self.run.clone(),
        }
    }
}

impl fmt::Display for RunCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(started) = self.started {
            write!(f, "{}", started.as_millis())?;
        }
        write!(f, "-{}", self.run)
    }
}

/// The error for a text that is not the position of a run.
///
/// ```
/// use orchestra_sessions::{InvalidCursor, RunCursor};
/// assert_eq!("nightly".parse::<RunCursor>(), Err(InvalidCursor));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not a position in the list of runs")]
pub struct InvalidCursor;

impl FromStr for RunCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<RunCursor, InvalidCursor> {
        let (started, run) = text.split_once('-').ok_or(InvalidCursor)?;
        let started = match started {
            "" => None,
            millis => {
                let millis: u64 = millis.parse().map_err(|_| InvalidCursor)?;
                Some(Timestamp::from_millis(millis))
            }
        };
        let run = RunId::new(run).map_err(|_| InvalidCursor)?;
        Ok(RunCursor { started, run })
    }
}
