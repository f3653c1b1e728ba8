//! The summary of a run: its phase, the reason of its last stop, and its totals.

use orchestra_core::{RunFailure, Usage};
use serde::Serialize;

use crate::clock::Timestamp;
use crate::event::{AttemptResult, EventKind, RunEvent};
use crate::store::ReplayedFrom;

/// The phase of a run according to its events.
///
/// No event reports that the process of a run is gone: such a run stays in its phase until it is resumed. Whether a
/// process executes the run is known from its folder, see [`RunFolder::owner`](crate::RunFolder::owner).
///
/// ```
/// use orchestra_engine::RunPhase;
/// assert_eq!(RunPhase::default(), RunPhase::Accepted);
/// assert_eq!(RunPhase::parse("paused"), Some(RunPhase::Paused));
/// assert_eq!(RunPhase::Fail.word(), "fail");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RunPhase {
    /// The run has not started.
    #[default]
    Accepted,
    /// The run is in progress.
    Running,
    /// The run has stopped and can be resumed.
    Paused,
    /// The run succeeded.
    Success,
    /// The run failed.
    Fail,
    /// The run was cancelled.
    Cancelled,
}

impl RunPhase {
    const ALL: [RunPhase; 6] = [
        RunPhase::Accepted,
        RunPhase::Running,
        RunPhase::Paused,
        RunPhase::Success,
        RunPhase::Fail,
        RunPhase::Cancelled,
    ];

    /// Returns the machine-readable name.
    pub const fn word(self) -> &'static str {
        match self {
            RunPhase::Accepted => "accepted",
            RunPhase::Running => "running",
            RunPhase::Paused => "paused",
            RunPhase::Success => "success",
            RunPhase::Fail => "fail",
            RunPhase::Cancelled => "cancelled",
        }
    }

    /// Parses a machine-readable name. Returns `None` if it is unknown.
    pub fn parse(word: &str) -> Option<RunPhase> {
        RunPhase::ALL.into_iter().find(|phase| phase.word() == word)
    }
}

/// The summary of a run: its phase, the reason of its last stop, and its totals.
///
/// Its size does not depend on the length of the run. It is part of a [`RunView`](crate::RunView). A consumer that
/// stores the other facts elsewhere, such as the index of runs, stores the summary and applies later events to it.
///
/// ```
/// use orchestra_engine::{RunEvent, RunPhase, RunSummary};
/// let line = br#"{"schema":"orchestra.event/1","seq":1,"time":"2026-11-21T15:30:00.042Z","run":"nightly",
///     "event":"PipelineStarted","name":"release","goal":""}"#;
/// let event = RunEvent::from_json(line)?;
/// let mut summary = RunSummary::default();
/// assert!(summary.apply(&event));
/// assert!(!summary.apply(&event), "it was applied before");
/// assert_eq!((summary.phase, summary.started), (RunPhase::Running, Some(event.time)));
/// # Ok::<(), orchestra_engine::EventError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunSummary {
    /// The phase. It is not serialized: a consumer that knows whether a process executes the run reports more.
    #[serde(skip)]
    pub phase: RunPhase,
    /// The time at which the run started.
    pub started: Option<Timestamp>,
    /// The time of the last event.
    pub updated: Option<Timestamp>,
    /// The time at which the run ended. `None` while it can continue.
    pub ended: Option<Timestamp>,
    /// The machine-readable reason of a pause or a failure.
    pub code: Option<String>,
    /// The human-readable reason of a pause, a failure or a cancellation.
    pub reason: Option<String>,
    /// The node at which the run failed, or the gate that waits.
    pub node: Option<String>,
    /// The fencing token: the number of times that the run was opened for writing.
    pub fencing_token: u64,
    /// The number of checkpoints.
    pub checkpoints: u64,
    /// The last checkpoint, such as `cp_000012`.
    pub checkpoint: Option<String>,
    /// The checkpoint from which the run was started if it is a replay.
    pub replayed_from: Option<ReplayedFrom>,
    /// The number of restarts.
    pub restarts: u64,
    /// The number of stage attempts that began.
    pub stages: u64,
    /// The number of failed attempts.
    pub failures: u64,
    /// The number of attempts that were repeated because the run was interrupted.
    pub repeats: u64,
    /// The number of transitions.
    pub transitions: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The model usage of all stages.
    #[serde(flatten)]
    pub usage: Usage,
    /// The sequence number of the last event.
    pub events: u64,
}

impl RunSummary {
    /// Applies an event of the run. Returns `false`, and changes nothing, if the event was applied before.
    pub fn apply(&mut self, event: &RunEvent) -> bool {
        if event.seq <= self.events {
            return false;
        }
        self.events = event.seq;
        self.updated = Some(event.time);
        match &event.kind {
            EventKind::PipelineStarted { .. } => self.open(1, event.time),
            EventKind::PipelineResumed {
                checkpoint,
                fencing_token,
                replayed_from,
                ..
            } => {
                self.open(*fencing_token, event.time);
                if let (None, Some(run)) = (&self.replayed_from, replayed_from) {
                    self.replayed_from = Some(ReplayedFrom {
                        run: run.clone(),
                        checkpoint: checkpoint.clone(),
                    });
                }
            }
            EventKind::PipelineCompleted { .. } => self.close(RunPhase::Success, event.time),
            EventKind::PipelineFailed { error, failure, .. } => {
                let failure = failure.as_ref();
                self.code = failure.map(|failure| failure.code().to_owned());
                self.node = failure.and_then(RunFailure::node).map(str::to_owned);
                self.reason = Some(error.clone());
                self.close(RunPhase::Fail, event.time);
            }
            EventKind::PipelineCancelled { reason, .. } => {
                self.reason = Some(reason.clone());
                self.close(RunPhase::Cancelled, event.time);
            }
            EventKind::PipelinePaused {
                code, reason, gate, ..
            } => {
                self.code = Some(code.word().to_owned());
                self.reason = Some(reason.clone());
                self.node.clone_from(gate);
                self.phase = RunPhase::Paused;
            }
            EventKind::StageStarted { replay: true, .. } => {}
            EventKind::StageStarted { repeat, .. } => {
                self.stages += 1;
                self.repeats += u64::from(*repeat);
            }
            EventKind::EdgeSelected { .. } | EventKind::ParallelStarted { .. } => self.transitions += 1,
            EventKind::ToolCallCompleted { .. } => self.tool_calls += 1,
            EventKind::PipelineRestarted { restart, .. } => self.restarts = u64::from(*restart),
            EventKind::CheckpointSaved { checkpoint, .. } => {
                self.checkpoints += 1;
                self.checkpoint = (!checkpoint.is_empty()).then(|| checkpoint.clone());
            }
            kind => {
                if let Some(end) = kind.attempt_end() {
                    self.failures += u64::from(end.result == AttemptResult::Failed);
                    self.usage += end.usage;
                }
            }
        }
        true
    }

    /// Marks the run as running and clears the data of its last stop.
    fn open(&mut self, fencing_token: u64, time: Timestamp) {
        self.phase = RunPhase::Running;
        self.fencing_token = fencing_token;
        self.started.get_or_insert(time);
        self.ended = None;
        self.code = None;
        self.reason = None;
        self.node = None;
    }

    fn close(&mut self, phase: RunPhase, time: Timestamp) {
        self.phase = phase;
        self.ended = Some(time);
    }
}
