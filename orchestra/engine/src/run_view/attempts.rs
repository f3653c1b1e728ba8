//! The attempts of a run: those in progress, and the latest of those that ended.

use std::collections::VecDeque;
use std::time::Duration;

use orchestra_core::Usage;

use crate::clock::Timestamp;
use crate::event::{AttemptEnd, AttemptResult, EventKind, RunEvent, StageRef};

/// An attempt in progress.
///
/// ```
/// use orchestra_engine::{RunEvent, RunView};
/// let line = br#"{"schema":"orchestra.event/1","seq":3,"time":"2026-11-21T15:30:00.042Z","run":"nightly",
///     "event":"StageStarted","node":"build","index":1,"visit":1,"attempt":1}"#;
/// let mut view = RunView::new();
/// view.apply(&RunEvent::from_json(line)?);
/// let running = &view.running()[0];
/// assert_eq!((running.stage.to_string().as_str(), running.repeat), ("build#1/1", false));
/// # Ok::<(), orchestra_engine::EventError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunningAttempt {
    /// The attempt.
    pub stage: StageRef,
    /// The time at which it began.
    pub started: Timestamp,
    /// `true` if it repeats an attempt that an interruption of the run cut short.
    pub repeat: bool,
}

/// An attempt that ended.
///
/// ```
/// use orchestra_engine::{AttemptResult, RunEvent, RunView};
/// let line = br#"{"schema":"orchestra.event/1","seq":4,"time":"2026-11-21T15:30:00.042Z","run":"nightly",
///     "event":"StageCompleted","node":"build","index":1,"visit":1,"attempt":1,"outcome":"success","duration_ms":2}"#;
/// let mut view = RunView::with_history(100);
/// view.apply(&RunEvent::from_json(line)?);
/// let ended = view.ended_attempts().next().expect("one attempt ended");
/// assert_eq!((ended.result, ended.outcome.as_deref()), (AttemptResult::Completed, Some("success")));
/// assert_eq!(ended.started, None, "the event of its start was not applied");
/// # Ok::<(), orchestra_engine::EventError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EndedAttempt {
    /// The attempt.
    pub stage: StageRef,
    /// The time at which it began. `None` if the event was not applied.
    pub started: Option<Timestamp>,
    /// The time at which it ended.
    pub ended: Timestamp,
    /// How it ended.
    pub result: AttemptResult,
    /// The name of the outcome. `None` if the attempt was cancelled.
    pub outcome: Option<String>,
    /// The reason of a failure.
    pub error: Option<String>,
    /// `true` if the stage will be retried.
    pub will_retry: bool,
    /// The model usage of the attempt.
    pub usage: Usage,
    /// The duration of the attempt.
    pub duration: Duration,
}

/// The attempts of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    running: Vec<RunningAttempt>,
    ended: VecDeque<EndedAttempt>,
    /// The maximum number of ended attempts to keep.
    history: usize,
}

impl Attempts {
    pub(super) fn with_history(history: usize) -> Attempts {
        Attempts {
            history,
            ..Attempts::default()
        }
    }

    /// Returns the attempts in progress, in the order in which they began.
    pub(super) fn running(&self) -> &[RunningAttempt] {
        &self.running
    }

    /// Returns the ended attempts that are kept, in the order in which they ended.
    pub(super) fn ended(&self) -> impl DoubleEndedIterator<Item = &EndedAttempt> + ExactSizeIterator {
        self.ended.iter()
    }

    pub(super) fn apply(&mut self, event: &RunEvent) {
        match &event.kind {
            EventKind::StageStarted { stage, repeat, .. } => {
                // An execution path runs one stage at a time, so the end of its previous attempt was lost.
                self.running
                    .retain(|running| running.stage.branch != stage.branch);
                self.running.push(RunningAttempt {
                    stage: stage.clone(),
                    started: event.time,
                    repeat: *repeat,
                });
            }
            EventKind::PipelineResumed { .. }
            | EventKind::PipelineRestarted { .. }
            | EventKind::PipelineCompleted { .. }
            | EventKind::PipelineFailed { .. }
            | EventKind::PipelineCancelled { .. }
            | EventKind::PipelinePaused { .. } => self.running.clear(),
            kind => {
                if let Some(end) = kind.attempt_end() {
                    self.end(event.time, &end);
                }
            }
        }
    }

    fn end(&mut self, time: Timestamp, end: &AttemptEnd<'_>) {
        let at = self
            .running
            .iter()
            .position(|running| running.stage == *end.stage);
        let began = at.map(|at| self.running.remove(at));
        if self.history == 0 {
            return;
        }
        if self.ended.len() >= self.history {
            self.ended.pop_front();
        }
        self.ended.push_back(EndedAttempt {
            stage: end.stage.clone(),
            started: began.map(|began| began.started),
            ended: time,
            result: end.result,
            outcome: end.outcome.map(str::to_owned),
            error: end.error.map(str::to_owned),
            will_retry: end.will_retry,
            usage: end.usage,
            duration: end.duration,
        });
    }
}
