//! The fold that derives the session of a run from its manifest and its events. All content of the index is computed
//! here and in [`RunSummary::apply`].

use std::time::Duration;

use orchestra_engine::{
    AttemptEnd, EventKind, ModelCall, NodeName, RunEvent, RunId, RunSummary, StageRef, TestedCondition,
    UnansweredQuestions,
};
use serde_json::Value;

use crate::rows::{Session, SessionStatus};

/// A change that an event makes to the rows of a run.
pub(crate) enum Change<'e> {
    /// An attempt at a stage began.
    StageStarted { stage: &'e StageRef, repeat: bool },
    /// An attempt began whose start was copied from the run that this one replays.
    StageReplayed(&'e StageRef),
    /// An attempt ended.
    StageEnded(AttemptEnd<'e>),
    /// All attempts in progress are interrupted.
    StagesInterrupted,
    /// The next node was chosen, or a parallel block began.
    Transition {
        branch: Option<&'e str>,
        from: &'e NodeName,
        to: Option<&'e NodeName>,
        edge: Option<u32>,
        rule: &'static str,
        branches: Option<u32>,
        tested: &'e [TestedCondition],
    },
    /// A branch of a parallel block began.
    BranchStarted { branch: &'e str, edge: u32 },
    /// The run or a stage warns.
    Warning {
        node: Option<&'e NodeName>,
        branch: Option<&'e str>,
        code: &'e str,
        message: &'e str,
        keys: &'e [String],
    },
    /// A tool call ended.
    ToolCall {
        node: &'e NodeName,
        branch: Option<&'e str>,
        tool: &'e str,
        duration: Duration,
        error: Option<&'e str>,
    },
    /// A model call ended.
    ModelCall(&'e ModelCall),
}

impl<'e> Change<'e> {
    fn from_event(kind: &'e EventKind) -> Option<Change<'e>> {
        Some(match kind {
            EventKind::PipelineResumed { .. }
            | EventKind::PipelineCompleted { .. }
            | EventKind::PipelineFailed { .. }
            | EventKind::PipelineCancelled { .. }
            | EventKind::PipelinePaused { .. } => Change::StagesInterrupted,
            EventKind::StageStarted {
                stage, replay: true, ..
            } => Change::StageReplayed(stage),
            EventKind::StageStarted { stage, repeat, .. } => Change::StageStarted {
                stage,
                repeat: *repeat,
            },
            EventKind::EdgeSelected {
                branch,
                from,
                to,
                edge,
                rule,
                tested,
            } => Change::Transition {
                branch: branch.as_deref(),
                from,
                to: to.as_ref(),
                edge: *edge,
                rule: rule.word(),
                branches: None,
                tested,
            },
            EventKind::ParallelStarted {
                node,
                branch,
                branch_count,
                tested,
            } => Change::Transition {
                branch: branch.as_deref(),
                from: node,
                to: None,
                edge: None,
                rule: "parallel",
                branches: Some(*branch_count),
                tested,
            },
            EventKind::ParallelBranchStarted {
                branch,
                edge: Some(edge),
                ..
            } => Change::BranchStarted { branch, edge: *edge },
            EventKind::PipelineWarning { code, message } => Change::Warning {
                node: None,
                branch: None,
                code,
                message,
                keys: &[],
            },
            EventKind::StageWarning {
                node,
                branch,
                code,
                message,
                keys,
            } => Change::Warning {
                node: Some(node),
                branch: branch.as_deref(),
                code,
                message,
                keys,
            },
            EventKind::ModelCallCompleted { call, .. } => Change::ModelCall(call),
            EventKind::ToolCallCompleted {
                node,
                branch,
                tool,
                error,
                duration,
                ..
            } => Change::ToolCall {
                node,
                branch: branch.as_deref(),
                tool,
                duration: *duration,
                error: error.as_deref(),
            },
            kind => Change::StageEnded(kind.attempt_end()?),
        })
    }
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
            summary: RunSummary {
                started: serde_json::from_value(manifest["started"].clone()).ok(),
                replayed_from: serde_json::from_value(manifest["replayed_from"].clone()).ok(),
                ..RunSummary::default()
            },
            skipped_lines: 0,
            unanswered: UnansweredQuestions::default(),
            snapshot: None,
        }
    }

    /// Applies an event. An event that was applied before changes nothing.
    pub(crate) fn apply<'e>(&mut self, event: &'e RunEvent) -> Option<Change<'e>> {
        if !self.summary.apply(event) {
            return None;
        }
        self.status = self.summary.phase.into();
        self.unanswered.apply(event);
        match &event.kind {
            EventKind::PipelineStarted { name, goal } => {
                fill(&mut self.name, name);
                fill(&mut self.goal, goal);
            }
            EventKind::SnapshotSaved {
                branch: None,
                snapshot,
                ..
            } if event.run == self.run => self.snapshot = Some(Value::clone(snapshot)),
            _ => {}
        }
        Change::from_event(&event.kind)
    }
}

/// Sets an empty field: the values of the manifest take precedence.
fn fill(field: &mut String, text: &str) {
    if field.is_empty() {
        text.clone_into(field);
    }
}
