//! The return values of handlers: their conversion to outcomes, and the outcome words that they may become.

use orchestra_core::Outcome;

use crate::stage_end::{StageEnd, Suspension};

/// The outcome words that a handler may return (rule C4). `fail` is always possible.
///
/// ```
/// use orchestra_engine::{KindSpec, Registry, Words, check_registry};
/// # use orchestra_engine::{Handler, HandlerFuture, Outcome, StageContext};
/// # use std::sync::Arc;
/// # use orchestra_graph::{Source, load};
/// # struct Idle;
/// # impl Handler for Idle {
/// #     fn run<'a>(&'a self, _: StageContext) -> HandlerFuture<'a> {
/// #         Box::pin(async { Outcome::success().into() })
/// #     }
/// # }
/// const SHIP: KindSpec = KindSpec { kind: "ship", fields: &[], words: Words::Only(&["done", "held"]) };
/// let mut registry = Registry::default();
/// registry.add(SHIP, Arc::new(Idle));
/// let text = r#"digraph { start -> ship; ship [type=ship, outcomes="don"]
///     ship -> exit [condition="outcome=don"] }"#;
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let violations = check_registry(&pipeline, &registry);
/// assert_eq!(violations[0].code, "outcome_never_returned");
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Words {
    /// The built-in words, and those that the node declares with `outcomes`.
    Open,
    /// Only these words.
    Only(&'static [&'static str]),
}

/// A return value of a handler: an [`Outcome`], nothing, an enum that derives `Outcome`, or a `Result` of one of these
/// (Attractor 5.2). An error fails the stage, and the reason includes the causes of the error. An error that was caused
/// by a [`Suspension`] suspends the run instead.
///
/// ```
/// use orchestra_engine::{IntoOutcome, Outcome, Status};
/// assert_eq!(().into_outcome().status, Status::Success);
/// let outcome = std::str::from_utf8(b"\xff").map(|_| Outcome::custom("read")).into_outcome();
/// assert_eq!(outcome.status, Status::Fail);
/// assert!(outcome.failure_reason.is_some_and(|reason| reason.contains("invalid utf-8")));
/// ```
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not an outcome",
    note = "return `Outcome`, `()`, an enum that derives `orchestra::Outcome`, or a `Result` of one of these"
)]
pub trait IntoOutcome {
    /// The outcome words that the value may become.
    const WORDS: Words;

    /// Returns the outcome.
    fn into_outcome(self) -> Outcome;

    /// Returns how the attempt ended.
    fn into_stage_end(self) -> StageEnd
    where
        Self: Sized,
    {
        self.into_outcome().into()
    }
}

impl IntoOutcome for Outcome {
    const WORDS: Words = Words::Open;

    fn into_outcome(self) -> Outcome {
        self
    }
}

impl IntoOutcome for () {
    const WORDS: Words = Words::Only(&["success"]);

    fn into_outcome(self) -> Outcome {
        Outcome::success()
    }
}

impl<T: IntoOutcome, E: Into<Box<dyn std::error::Error + Send + Sync>>> IntoOutcome for Result<T, E> {
    const WORDS: Words = T::WORDS;

    fn into_outcome(self) -> Outcome {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => Outcome::fail(error_chain(&*error.into())),
        }
    }

    fn into_stage_end(self) -> StageEnd {
        match self {
            Ok(value) => value.into_stage_end(),
            Err(error) => {
                let error = error.into();
                match Suspension::in_error(&*error) {
                    Some(suspension) => suspension.into(),
                    None => Outcome::fail(error_chain(&*error)).into(),
                }
            }
        }
    }
}

/// Formats an error and its causes in one line.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
