//! The fold that derives the session of a run from its manifest and its events. All content of the index is computed
//! here.

use std::time::Duration;

use orchestra_engine::{
    EventKind, NodeName, ReplayedFrom, RunEvent, RunId, TestedCondition, Timestamp, Usage,
};
use serde_json::Value;

use crate::rows::{Session, SessionStatus, StageState};

/// A change that an event makes to the stage, transition or tool call rows of a run.
pub(crate) enum Change<'e> {
    /// An attempt at a stage began.
    StageStarted {
        node: &'e NodeName,
        branch: Option<&'e str>,
        index: u64,
        visit: u32,
        attempt: u32,
        repeat: bool,
    },
    /// An attempt ended.
    StageEnded(StageEnd<'e>),
    /// All attempts in progress are interrupted.
    StagesInterrupted,
    /// The next node was chosen, or a parallel block began.
    Transition {
        branch: Option<&'e str>,
        from: &'e NodeName,
        to: Option<&'e NodeName>,
        rule: &'static str,
        branches: Option<u32>,
        tested: &'e [TestedCondition],
    },
    /// A tool call ended.
    ToolCall {
        node: &'e NodeName,
        branch: Option<&'e str>,
        tool: &'e str,
        duration: Duration,
        error: Option<&'e str>,
    },
}

/// The end of an attempt.
pub(crate) struct StageEnd<'e> {
    pub(crate) node: &'e NodeName,
    pub(crate) branch: Option<&'e str>,
    pub(crate) index: u64,
    pub(crate) visit: u32,
    pub(crate) attempt: u32,
    pub(crate) state: StageState,
    pub(crate) outcome: Option<&'e str>,
    pub(crate) preferred_label: Option<&'e str>,
    pub(crate) error: Option<&'e str>,
    pub(crate) will_retry: bool,
    pub(crate) notes: Option<&'e str>,
    pub(crate) usage: Usage,
    pub(crate) duration: Duration,
}

impl Session {
    /// Creates the session of a run from its manifest alone. Missing values stay empty.
    pub(crate) fn from_manifest(run: RunId, manifest: &Value) -> Session {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let file = match &manifest["pipeline"]["file"] {
            Value::Null => &manifest["file"],
            file => file,
        };
        Session {
            run,
            name: text(&manifest["name"]),
            goal: text(&manifest["goal"]),
            file: text(file),
            folder: Default::default(),
            status: SessionStatus::Accepted,
            simulated: manifest["simulated"] == true,
            started: serde_json::from_value(manifest["started"].clone()).ok(),
            updated: None,
            ended: None,
            code: None,
            reason: None,
            node: None,
            fencing_token: 0,
            checkpoints: 0,
            checkpoint: None,
            replayed_from: serde_json::from_value(manifest["replayed_from"].clone()).ok(),
            restarts: 0,
            stages: 0,
            failures: 0,
            repeats: 0,
            transitions: 0,
            tool_calls: 0,
            usage: Usage::default(),
            events: 0,
            skipped_lines: 0,
        }
    }

    /// Applies an event. An event that was applied before changes nothing.
    pub(crate) fn apply<'e>(&mut self, event: &'e RunEvent) -> Option<Change<'e>> {
        if event.seq <= self.events {
            return None;
        }
        self.events = event.seq;
        self.updated = Some(event.time);
        match &event.kind {
            EventKind::PipelineStarted { name, goal } => {
                self.open(1);
                self.started.get_or_insert(event.time);
                fill(&mut self.name, name);
                fill(&mut self.goal, goal);
                None
            }
            EventKind::PipelineResumed {
                checkpoint,
                fencing_token,
                replayed_from,
                ..
            } => {
                self.open(*fencing_token);
                self.started.get_or_insert(event.time);
                if let (None, Some(run)) = (&self.replayed_from, replayed_from) {
                    self.replayed_from = Some(ReplayedFrom {
                        run: run.clone(),
                        checkpoint: checkpoint.clone(),
                    });
                }
                Some(Change::StagesInterrupted)
            }
            EventKind::PipelineCompleted { .. } => self.close(SessionStatus::Success, event.time),
            EventKind::PipelineFailed { error, failure, .. } => {
                self.code = failure.as_ref().map(|failure| failure.code().to_owned());
                self.node = failure
                    .as_ref()
                    .and_then(|failure| failure.node())
                    .map(str::to_owned);
                self.reason = Some(error.clone());
                self.close(SessionStatus::Fail, event.time)
            }
            EventKind::PipelineCancelled { reason, .. } => {
                self.reason = Some(reason.clone());
                self.close(SessionStatus::Cancelled, event.time)
            }
            EventKind::PipelinePaused {
                code, reason, gate, ..
            } => {
                self.code = Some(code.word().to_owned());
                self.reason = Some(reason.clone());
                self.node.clone_from(gate);
                self.status = SessionStatus::Paused;
                Some(Change::StagesInterrupted)
            }
            EventKind::StageStarted {
                node,
                branch,
                index,
                visit,
                attempt,
                repeat,
            } => {
                self.stages += 1;
                self.repeats += u64::from(*repeat);
                Some(Change::StageStarted {
                    node,
                    branch: branch.as_deref(),
                    index: *index,
                    visit: *visit,
                    attempt: *attempt,
                    repeat: *repeat,
                })
            }
            EventKind::StageCompleted {
                node,
                branch,
                index,
                visit,
                attempt,
                outcome,
                preferred_label,
                notes,
                usage,
                duration,
            } => Some(self.ended(StageEnd {
                node,
                branch: branch.as_deref(),
                index: *index,
                visit: *visit,
                attempt: *attempt,
                state: StageState::Completed,
                outcome: Some(outcome.word()),
                preferred_label: preferred_label.as_deref(),
                error: None,
                will_retry: false,
                notes: notes.as_deref(),
                usage: usage.as_deref().copied().unwrap_or_default(),
                duration: *duration,
            })),
            EventKind::StageFailed {
                node,
                branch,
                index,
                visit,
                attempt,
                error,
                will_retry,
                usage,
                duration,
                ..
            } => {
                self.failures += 1;
                Some(self.ended(StageEnd {
                    node,
                    branch: branch.as_deref(),
                    index: *index,
                    visit: *visit,
                    attempt: *attempt,
                    state: StageState::Failed,
                    outcome: Some("fail"),
                    preferred_label: None,
                    error: Some(error),
                    will_retry: *will_retry,
                    notes: None,
                    usage: usage.as_deref().copied().unwrap_or_default(),
                    duration: *duration,
                }))
            }
            EventKind::StageCancelled {
                node,
                branch,
                index,
                visit,
                attempt,
                duration,
            } => Some(self.ended(StageEnd {
                node,
                branch: branch.as_deref(),
                index: *index,
                visit: *visit,
                attempt: *attempt,
                state: StageState::Cancelled,
                outcome: None,
                preferred_label: None,
                error: None,
                will_retry: false,
                notes: None,
                usage: Usage::default(),
                duration: *duration,
            })),
            EventKind::EdgeSelected {
                branch,
                from,
                to,
                rule,
                tested,
            } => {
                self.transitions += 1;
                Some(Change::Transition {
                    branch: branch.as_deref(),
                    from,
                    to: to.as_ref(),
                    rule: rule.word(),
                    branches: None,
                    tested,
                })
            }
            EventKind::ParallelStarted {
                node,
                branch,
                branch_count,
                tested,
            } => {
                self.transitions += 1;
                Some(Change::Transition {
                    branch: branch.as_deref(),
                    from: node,
                    to: None,
                    rule: "parallel",
                    branches: Some(*branch_count),
                    tested,
                })
            }
            EventKind::ToolCallCompleted {
                node,
                branch,
                tool,
                error,
                duration,
            } => {
                self.tool_calls += 1;
                Some(Change::ToolCall {
                    node,
                    branch: branch.as_deref(),
                    tool,
                    duration: *duration,
                    error: error.as_deref(),
                })
            }
            EventKind::PipelineRestarted { restart, .. } => {
                self.restarts = u64::from(*restart);
                None
            }
            EventKind::CheckpointSaved { checkpoint, .. } => {
                self.checkpoints += 1;
                self.checkpoint = (!checkpoint.is_empty()).then(|| checkpoint.clone());
                None
            }
            _ => None,
        }
    }

    /// Marks the run as running again and clears the data of its last stop.
    fn open(&mut self, fencing_token: u64) {
        self.status = SessionStatus::Running;
        self.fencing_token = fencing_token;
        self.ended = None;
        self.code = None;
        self.reason = None;
        self.node = None;
    }

    fn close<'e>(&mut self, status: SessionStatus, time: Timestamp) -> Option<Change<'e>> {
        self.status = status;
        self.ended = Some(time);
        Some(Change::StagesInterrupted)
    }

    fn ended<'e>(&mut self, ended: StageEnd<'e>) -> Change<'e> {
        self.usage += ended.usage;
        Change::StageEnded(ended)
    }
}

/// Sets an empty field: the values of the manifest take precedence.
fn fill(field: &mut String, text: &str) {
    if field.is_empty() {
        text.clone_into(field);
    }
}
