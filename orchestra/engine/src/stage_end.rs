//! The end of an attempt: an outcome, or a suspension, which only the engine creates (rule K2).

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use orchestra_core::Outcome;
use serde_json::Value;

/// The end of an attempt of a stage.
///
/// A handler creates one from its [`Outcome`]. It can pass on a [`Suspension`] that a call of the engine returned as an
/// error, but it cannot create one, and no text in an outcome is interpreted as one.
///
/// ```
/// use orchestra_engine::{AskError, Outcome, Question, QuestionKind, StageContext, StageEnd};
/// async fn confirm(stage: StageContext) -> StageEnd {
///     match stage.ask(Question::new(QuestionKind::Confirm, "Delete the branch?")).await {
///         Ok(answer) => Outcome::success().notes(format!("{answer:?}")).into(),
///         // Nobody can be asked: the run stops here, and makes this attempt again when it is resumed.
///         Err(AskError::Suspended(suspension)) => suspension.into(),
///         Err(error) => Outcome::fail(error.to_string()).into(),
///     }
/// }
/// assert_eq!(StageEnd::from(Outcome::success()).outcome(), Some(&Outcome::success()));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct StageEnd(Result<Finished, Suspension>);

/// An outcome with the context values that the engine itself recorded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finished {
    pub(crate) outcome: Outcome,
    /// Values that are written under any key. [`Outcome::context_updates`] are only written if the stage may (rule K1).
    pub(crate) recorded: BTreeMap<String, Value>,
}

impl Finished {
    /// Converts an outcome of the engine: its context updates are recorded by the engine.
    pub(crate) fn by_engine(mut outcome: Outcome) -> Finished {
        let recorded = std::mem::take(&mut outcome.context_updates);
        Finished { outcome, recorded }
    }

    /// Records a value under a key that only the engine writes.
    pub(crate) fn record(mut self, key: &str, value: impl Into<Value>) -> Finished {
        self.recorded.insert(key.to_owned(), value.into());
        self
    }

    /// Replaces the outcome, but not the values that the engine recorded.
    pub(crate) fn replace(self, with: impl FnOnce(Outcome) -> Outcome) -> Finished {
        Finished {
            outcome: with(self.outcome),
            recorded: self.recorded,
        }
    }
}

impl From<Outcome> for Finished {
    fn from(outcome: Outcome) -> Finished {
        Finished {
            outcome,
            recorded: BTreeMap::new(),
        }
    }
}

impl StageEnd {
    /// Returns the outcome. Returns `None` if the run is suspended.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.0.as_ref().ok().map(|finished| &finished.outcome)
    }

    /// Returns why the run is suspended. Returns `None` if the stage has an outcome.
    pub fn suspension(&self) -> Option<&Suspension> {
        self.0.as_ref().err()
    }

    pub(crate) fn into_result(self) -> Result<Finished, Suspension> {
        self.0
    }
}

impl From<Outcome> for StageEnd {
    fn from(outcome: Outcome) -> StageEnd {
        StageEnd(Ok(outcome.into()))
    }
}

impl From<Finished> for StageEnd {
    fn from(finished: Finished) -> StageEnd {
        StageEnd(Ok(finished))
    }
}

impl From<Suspension> for StageEnd {
    fn from(suspension: Suspension) -> StageEnd {
        StageEnd(Err(suspension))
    }
}

/// The reason why a run is paused with a stage that has not ended. The attempt is made again when the run is resumed.
///
/// Only the engine creates one: if nobody can be asked ([`StageContext::ask`](crate::StageContext::ask)), if the budget
/// of the run is used up ([`StageContext::reserve`](crate::StageContext::reserve)), or if a child run of the stage is
/// itself suspended. It is a source of the error that these calls return. So it is passed on by a handler that returns
/// such an error in its `Result`, and by a backend whose [`BackendError`](crate::BackendError) is caused by it.
///
/// ```
/// use orchestra_engine::{OverBudget, StageEnd};
/// fn end_of(over: OverBudget) -> Option<StageEnd> {
///     over.suspension().cloned().map(StageEnd::from)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspension {
    cause: SuspensionCause,
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SuspensionCause {
    /// A person has to answer, and nobody can be asked.
    WaitsForHuman,
    /// The budget of the run is used up.
    OverBudget,
    /// A child run did a part of its work and cannot be resumed here and now.
    ChildStuck,
}

impl Suspension {
    pub(crate) fn new(cause: SuspensionCause, reason: impl Into<String>) -> Suspension {
        Suspension {
            cause,
            reason: reason.into(),
        }
    }

    pub(crate) fn cause(&self) -> SuspensionCause {
        self.cause
    }

    /// Returns the reason as a message.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Finds the suspension that caused an error.
    pub(crate) fn in_error(error: &(dyn Error + 'static)) -> Option<Suspension> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(suspension) = error.downcast_ref::<Suspension>() {
                return Some(suspension.clone());
            }
            next = error.source();
        }
        None
    }
}

impl fmt::Display for Suspension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Error for Suspension {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::backend::BackendError;

    #[test]
    fn a_suspension_is_found_behind_the_errors_that_it_caused_and_nowhere_else() {
        let suspension = Suspension::new(SuspensionCause::WaitsForHuman, "no terminal");
        let error = BackendError::retryable("the conversation broke")
            .caused_by(BackendError::terminal("nobody answers").caused_by(suspension.clone()));
        assert_eq!(Suspension::in_error(&error), Some(suspension));
        let other = BackendError::terminal("waits_for_human").code("waits_for_human");
        assert_eq!(Suspension::in_error(&other), None);
    }
}
