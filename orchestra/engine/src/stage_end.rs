//! How an attempt of a stage ends: with an outcome, or with a suspension, which only the engine makes (rule K2).

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use orchestra_core::Outcome;
use serde_json::Value;

/// How an attempt of a stage ended.
///
/// A handler makes one of its [`Outcome`]. It hands on a [`Suspension`] that a call of the engine returned as an error;
/// it cannot make one itself, and no text in an outcome is read as one.
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

/// An outcome, and the context values that the engine itself recorded with it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finished {
    pub(crate) outcome: Outcome,
    /// These are written whatever the keys are; [`Outcome::context_updates`] only where the stage may (rule K1).
    pub(crate) recorded: BTreeMap<String, Value>,
}

impl Finished {
    /// Takes the context updates of an outcome that the engine made as its own.
    pub(crate) fn by_engine(mut outcome: Outcome) -> Finished {
        let recorded = std::mem::take(&mut outcome.context_updates);
        Finished { outcome, recorded }
    }

    /// Records a value under a key of the engine's own.
    pub(crate) fn record(mut self, key: &str, value: impl Into<Value>) -> Finished {
        self.recorded.insert(key.to_owned(), value.into());
        self
    }

    /// Replaces the outcome; what the engine recorded stays.
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
    /// Returns the outcome; `None` where the run is suspended.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.0.as_ref().ok().map(|finished| &finished.outcome)
    }

    /// Returns why the run is suspended; `None` where the stage has an outcome.
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

/// Why the run stops where it is, with a stage that has not ended; its attempt is made again when the run is resumed.
///
/// Only the engine makes one: where nobody can be asked ([`StageContext::ask`](crate::StageContext::ask)), where the
/// budget of the run is used up ([`StageContext::reserve`](crate::StageContext::reserve)), and where a run that the stage
/// started is suspended itself. It is a source of the error that these calls return, so a handler whose `Result` has such
/// an error, and a backend whose [`BackendError`](crate::BackendError) is caused by one, hands it on.
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

    /// Returns the reason, in words.
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
