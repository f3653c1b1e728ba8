//! The conversion of the observations and results of the machine to events.

use std::time::Duration;

use orchestra_core::{EffectId, Observation, RunFailure, SharedPipeline, Usage};
use orchestra_graph::{Decision, Next, NodeIndex, Tested};

use crate::event::{EventKind, NodeName, PauseCode, StageRef, TestedCondition};
use crate::run_status::RunStatus;

/// The reason of a pause because a signal interrupted the program.
const INTERRUPTED: &str = "interrupted";
/// The maximum number of characters of an item in an event.
const MAX_ITEM_CHARS: usize = 200;

/// The facts about an observed stage that the machine does not record.
///
/// ```
/// use orchestra_core::{Context, Effect, Machine};
/// use orchestra_engine::{EventKind, ObservedStage};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut effects = Vec::new();
/// let machine = Machine::start(pipeline, Context::new(), 0, &mut effects);
/// let events = effects.into_iter().filter_map(|effect| match effect {
///     Effect::Observe(observation) => {
///         EventKind::from_observation(machine.pipeline(), observation, ObservedStage::default())
///     }
///     _ => None,
/// });
/// let names: Vec<&str> = events.map(|event| event.name()).collect();
/// assert_eq!(names, ["StageStarted", "StageCompleted", "EdgeSelected", "StageStarted"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ObservedStage {
    /// The time since the stage began or asked its question.
    pub duration: Duration,
    /// The usage of the attempt that has ended.
    pub usage: Option<Box<Usage>>,
    /// `true` if the attempt was in flight when another process stopped.
    pub repeat: bool,
    /// `true` if the attempt was made before by the run that is replayed.
    pub replay: bool,
}

impl EventKind {
    /// Returns the event of an observation of the machine. Returns `None` for an observation that is not reported, such
    /// as that of a note.
    pub fn from_observation(
        pipeline: &SharedPipeline,
        observation: Observation,
        stage: ObservedStage,
    ) -> Option<EventKind> {
        let name = |node: NodeIndex| NodeName::new(pipeline, node);
        let branch = |id: &EffectId| (!id.branch.is_empty()).then(|| id.branch.name(pipeline));
        let attempt = |id: &EffectId, index: u64| StageRef {
            node: name(id.node),
            branch: branch(id),
            index,
            visit: id.visit,
            attempt: id.attempt,
        };
        let ObservedStage {
            duration,
            usage,
            repeat,
            replay,
        } = stage;
        Some(match observation {
            Observation::StageStarted { id, index } => EventKind::StageStarted {
                stage: attempt(&id, index),
                repeat,
                replay,
            },
            Observation::StageCompleted { id, index, outcome } => EventKind::StageCompleted {
                stage: attempt(&id, index),
                outcome: outcome.status,
                preferred_label: outcome.preferred_label,
                notes: outcome.notes,
                usage,
                duration,
            },
            Observation::StageFailed {
                id,
                index,
                outcome,
                will_retry,
            } => EventKind::StageFailed {
                stage: attempt(&id, index),
                error: outcome.failure_reason.unwrap_or_default(),
                category: outcome.failure_category,
                will_retry,
                usage,
                duration,
            },
            Observation::SnapshotSaved { id, snapshot } => EventKind::SnapshotSaved {
                node: name(id.node),
                branch: branch(&id),
                snapshot: Box::new(snapshot.value),
                unfinished: snapshot.unfinished,
            },
            Observation::StageRetrying {
                id,
                index,
                attempts,
                delay,
            } => EventKind::StageRetrying {
                node: name(id.node),
                branch: branch(&id),
                index,
                attempt: id.attempt,
                max_attempts: attempts,
                delay,
            },
            Observation::StageCancelled { id, index } => EventKind::StageCancelled {
                stage: attempt(&id, index),
                duration,
            },
            Observation::Routed {
                branch,
                from,
                decision,
            } => {
                let branch = (!branch.is_empty()).then(|| branch.name(pipeline));
                EventKind::from_decision(pipeline, branch, from, decision)
            }
            Observation::ParallelStarted { id, branches, tested } => EventKind::ParallelStarted {
                node: name(id.node),
                branch: branch(&id),
                branch_count: branches,
                tested: tested_conditions(pipeline, tested),
            },
            Observation::ParallelBranchStarted { branch, index, item } => EventKind::ParallelBranchStarted {
                branch: branch.name(pipeline),
                index,
                edge: branch.steps().last().map(|step| pipeline.edge_number(step.edge)),
                item: item.map(|item| shown_item(&item)),
            },
            Observation::ParallelBranchCompleted {
                branch,
                index,
                status,
                reason,
                duration,
            } => EventKind::ParallelBranchCompleted {
                branch: branch.name(pipeline),
                index,
                status,
                success: status.is_success(),
                error: reason,
                duration,
            },
            Observation::ParallelCompleted {
                id,
                succeeded,
                failed,
                duration,
            } => EventKind::ParallelCompleted {
                node: name(id.node),
                branch: branch(&id),
                success_count: succeeded,
                failure_count: failed,
                duration,
            },
            Observation::InterviewStarted { id, question } => EventKind::InterviewStarted {
                node: name(id.node),
                branch: branch(&id),
                question,
            },
            Observation::InterviewCompleted {
                id,
                question,
                answer,
                by,
            } => EventKind::InterviewCompleted {
                node: name(id.node),
                branch: branch(&id),
                question_id: id.name(pipeline),
                question,
                answer,
                answered_by: by,
                duration,
            },
            Observation::InterviewTimeout {
                id,
                question,
                timeout,
                default,
            } => EventKind::InterviewTimeout {
                node: name(id.node),
                branch: branch(&id),
                question_id: id.name(pipeline),
                question,
                default,
                duration: timeout,
            },
            Observation::GoalGateUnsatisfied {
                gate,
                target,
                reroute,
            } => EventKind::GoalGateUnsatisfied {
                gate: name(gate),
                to: name(target),
                reroute,
            },
            Observation::Restarted { edge, restart } => {
                let edge = pipeline.edge(edge);
                EventKind::PipelineRestarted {
                    from: name(edge.from),
                    to: name(edge.to),
                    restart,
                }
            }
            _ => return None,
        })
    }

    /// Returns the event of a routing decision.
    pub(crate) fn from_decision(
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
            tested: tested_conditions(pipeline, decision.tested),
        }
    }

    /// Returns the event of the end of a run, or of its pause. The number of its artifacts is 0.
    pub fn from_end(failure: Option<&RunFailure>, duration: Duration) -> EventKind {
        match failure {
            None => EventKind::PipelineCompleted {
                duration,
                artifact_count: 0,
            },
            Some(RunFailure::Cancelled { reason }) => EventKind::PipelineCancelled {
                reason: reason.clone(),
                duration,
            },
            Some(failure @ RunFailure::WaitsForHuman { node, .. }) => EventKind::PipelinePaused {
                code: PauseCode::WaitsForHuman,
                reason: failure.to_string(),
                gate: Some(node.clone()),
                duration,
            },
            Some(failure) if RunStatus::from_failure(Some(failure)) == RunStatus::Paused => {
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
            Some(failure) => EventKind::PipelineFailed {
                error: failure.to_string(),
                failure: Some(failure.clone()),
                duration,
            },
        }
    }
}

/// Converts the conditions that were tested for a decision.
fn tested_conditions(pipeline: &SharedPipeline, tested: Vec<Tested>) -> Vec<TestedCondition> {
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

/// Returns the beginning of an item as plain text.
fn shown_item(item: &serde_json::Value) -> String {
    let text = item.as_str().map_or_else(|| item.to_string(), str::to_owned);
    text.chars().take(MAX_ITEM_CHARS).collect()
}
