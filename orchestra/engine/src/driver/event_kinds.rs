//! The conversion of results of the machine to events.

use std::time::Duration;

use orchestra_core::{RunFailure, SharedPipeline};
use orchestra_graph::{Decision, Next, NodeIndex, Tested};

use crate::event::{EventKind, NodeName, PauseCode, TestedCondition};
use crate::run_status::RunStatus;
use crate::store::StoreError;

/// The reason of a pause because a signal interrupted the program.
pub(crate) const INTERRUPTED: &str = "interrupted";

impl EventKind {
    /// Returns the event of a routing decision.
    pub(crate) fn of_decision(
        pipeline: &SharedPipeline,
        branch: Option<String>,
        from: NodeIndex,
        decision: Decision,
    ) -> EventKind {
        let (edge, to) = match decision.next {
            Next::Edge(edge) => (Some(pipeline.edge_number(edge)), Some(pipeline.edge(edge).to)),
            Next::Jump(target) => (None, Some(target)),
            Next::End { .. } | Next::Fail(_) => (None, None),
        };
        EventKind::EdgeSelected {
            branch,
            from: NodeName::new(pipeline, from),
            to: to.map(|node| NodeName::new(pipeline, node)),
            edge,
            rule: decision.rule,
            tested: EventKind::of_tests(pipeline, decision.tested),
        }
    }

    /// Converts the conditions that were tested for a decision.
    pub(crate) fn of_tests(pipeline: &SharedPipeline, tested: Vec<Tested>) -> Vec<TestedCondition> {
        let tested = tested.into_iter().map(|tested| {
            let edge = pipeline.edge(tested.edge);
            TestedCondition {
                to: NodeName::new(pipeline, edge.to),
                edge: Some(pipeline.edge_number(tested.edge)),
                condition: pipeline
                    .condition(edge)
                    .map_or_else(String::new, |condition| condition.text().to_owned()),
                held: tested.held,
                values: tested.values,
            }
        });
        tested.collect()
    }

    /// Returns the event of the end of a run.
    pub(crate) fn of_end(ended: &Result<Option<RunFailure>, StoreError>, duration: Duration) -> EventKind {
        match ended {
            Ok(None) => EventKind::PipelineCompleted {
                duration,
                artifact_count: 0,
            },
            Ok(Some(RunFailure::Cancelled { reason })) => EventKind::PipelineCancelled {
                reason: reason.clone(),
                duration,
            },
            Ok(Some(failure @ RunFailure::WaitsForHuman { node, .. })) => EventKind::PipelinePaused {
                code: PauseCode::WaitsForHuman,
                reason: failure.to_string(),
                gate: Some(node.clone()),
                duration,
            },
            Ok(Some(failure)) if RunStatus::from_failure(Some(failure)) == RunStatus::Paused => {
                EventKind::PipelinePaused {
                    code: match failure {
                        RunFailure::Paused { reason } if reason == INTERRUPTED => PauseCode::Interrupted,
                        RunFailure::Paused { .. } => PauseCode::Requested,
                        _ => PauseCode::Budget,
                    },
                    reason: failure.to_string(),
                    gate: None,
                    duration,
                }
            }
            Ok(Some(failure)) => EventKind::PipelineFailed {
                error: failure.to_string(),
                failure: Some(failure.clone()),
                duration,
            },
            // The records so far are valid, and the run can be resumed from them.
            Err(error) => EventKind::PipelinePaused {
                code: PauseCode::Store,
                reason: error.to_string(),
                gate: None,
                duration,
            },
        }
    }
}
