//! The data that the events of the ends of attempts have in common.

use std::time::Duration;

use orchestra_core::Usage;

use super::{EventKind, StageRef};

/// How an attempt ended.
///
/// ```
/// use orchestra_engine::AttemptResult;
/// assert_eq!(AttemptResult::Cancelled.word(), "cancelled");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptResult {
    /// The attempt ended without a failure.
    Completed,
    /// The attempt failed.
    Failed,
    /// The attempt was cancelled.
    Cancelled,
}

impl AttemptResult {
    /// Returns the machine-readable name.
    pub const fn word(self) -> &'static str {
        match self {
            AttemptResult::Completed => "completed",
            AttemptResult::Failed => "failed",
            AttemptResult::Cancelled => "cancelled",
        }
    }
}

/// The end of an attempt: the data of [`StageCompleted`](EventKind::StageCompleted),
/// [`StageFailed`](EventKind::StageFailed) and [`StageCancelled`](EventKind::StageCancelled) in one form.
///
/// ```
/// use orchestra_engine::{AttemptResult, RunEvent};
/// let line = br#"{"schema":"orchestra.event/1","seq":9,"time":"2026-11-21T15:30:00.042Z","run":"nightly",
///     "event":"StageFailed","node":"test","index":3,"visit":2,"attempt":1,"error":"two tests failed",
///     "category":"retryable","will_retry":true,"duration_ms":12.5}"#;
/// let event = RunEvent::from_json(line)?;
/// let end = event.kind.attempt_end().expect("the event of an end");
/// assert_eq!((end.stage.to_string().as_str(), end.result), ("test#2/1", AttemptResult::Failed));
/// assert_eq!((end.error, end.will_retry), (Some("two tests failed"), true));
/// # Ok::<(), orchestra_engine::EventError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AttemptEnd<'e> {
    /// The attempt.
    pub stage: &'e StageRef,
    /// How it ended.
    pub result: AttemptResult,
    /// The name of the outcome. `None` if the attempt was cancelled.
    pub outcome: Option<&'e str>,
    /// The label that the stage prefers.
    pub preferred_label: Option<&'e str>,
    /// The reason of a failure.
    pub error: Option<&'e str>,
    /// `true` if the stage will be retried.
    pub will_retry: bool,
    /// A human-readable summary.
    pub notes: Option<&'e str>,
    /// The model usage of the attempt.
    pub usage: Usage,
    /// The duration of the attempt.
    pub duration: Duration,
}

impl EventKind {
    /// Returns whether the event is a start of an attempt that an earlier event has announced.
    pub(crate) fn starts_again(&self) -> bool {
        matches!(self, EventKind::StageStarted { repeat, replay, .. } if *repeat || *replay)
    }

    /// Returns the end of an attempt. Returns `None` if the event is not about such an end.
    pub fn attempt_end(&self) -> Option<AttemptEnd<'_>> {
        match self {
            EventKind::StageCompleted {
                stage,
                outcome,
                preferred_label,
                notes,
                usage,
                duration,
            } => Some(AttemptEnd {
                stage,
                result: AttemptResult::Completed,
                outcome: Some(outcome.word()),
                preferred_label: preferred_label.as_deref(),
                error: None,
                will_retry: false,
                notes: notes.as_deref(),
                usage: usage.as_deref().copied().unwrap_or_default(),
                duration: *duration,
            }),
            EventKind::StageFailed {
                stage,
                error,
                category: _,
                will_retry,
                usage,
                duration,
            } => Some(AttemptEnd {
                stage,
                result: AttemptResult::Failed,
                outcome: Some("fail"),
                preferred_label: None,
                error: Some(error),
                will_retry: *will_retry,
                notes: None,
                usage: usage.as_deref().copied().unwrap_or_default(),
                duration: *duration,
            }),
            EventKind::StageCancelled { stage, duration } => Some(AttemptEnd {
                stage,
                result: AttemptResult::Cancelled,
                outcome: None,
                preferred_label: None,
                error: None,
                will_retry: false,
                notes: None,
                usage: Usage::default(),
                duration: *duration,
            }),
            _ => None,
        }
    }
}
