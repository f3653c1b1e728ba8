//! Goal gates: stages that must have succeeded before a run may end successfully (Attractor 3.4, rule R7).

use std::fmt::Write as _;

use orchestra_graph::condition::Facts;
use orchestra_graph::table::Condition;
use orchestra_graph::{Decision, Next, NodeIndex, Pipeline, Role, Rule};

use crate::effect::Observation;
use crate::failure::RunFailure;
use crate::outcome::Status;
use crate::path::ExecutionPath;
use crate::routing::{Records, facts};
use crate::transition::{StepResult, Transition};

impl Transition<'_> {
    /// Checks the goal gates of a run that is about to end successfully. Returns the node to which an unsatisfied gate
    /// sends the run; `None` if all gates are satisfied (Attractor 3.4, rule R7).
    pub(crate) fn check_goal_gates(
        &mut self,
        path: &ExecutionPath,
        from: NodeIndex,
    ) -> Result<Option<NodeIndex>, StepResult> {
        let pipeline = self.pipeline;
        let Some(unsatisfied) = first_unsatisfied(pipeline, path, from) else {
            return Ok(None);
        };
        let gate = unsatisfied.gate;
        let stage = pipeline.stage(gate);
        let row = stage.row();
        let settings = &pipeline.settings;
        let targets = [
            row.retry_target,
            row.fallback_retry_target,
            settings.retry_target,
            settings.fallback_retry_target,
        ];
        let limit = settings.max_goal_gate_reroutes;
        let target = match targets.into_iter().flatten().next() {
            Some(target) if self.totals.reroutes < limit => target,
            target => {
                return Err(StepResult::Abort(RunFailure::GoalGate {
                    node: stage.id().to_owned(),
                    outcome: unsatisfied.status.word().to_owned(),
                    reason: unsatisfied.reason.to_owned(),
                    condition: unsatisfied.condition,
                    limit: target.is_some().then_some(limit),
                }));
            }
        };
        self.totals.reroutes += 1;
        let reroute = self.totals.reroutes;
        self.emit(|| Observation::GoalGateUnsatisfied {
            gate,
            target,
            reroute,
        });
        self.emit(|| Observation::Routed {
            branch: Default::default(),
            from,
            decision: Decision {
                next: Next::Jump(target),
                rule: Rule::GoalGate,
                tested: Vec::new(),
            },
        });
        Ok(Some(target))
    }
}

/// An unsatisfied goal gate.
struct Unsatisfied<'l> {
    gate: NodeIndex,
    status: &'l Status,
    reason: &'l str,
    /// The condition of the gate, with the values that it was evaluated with.
    condition: Option<String>,
}

/// Returns the first goal gate, in the order of the node table, that was visited and is not satisfied.
///
/// A gate without a condition is satisfied by a success. A condition is evaluated with the outcome of the gate and the
/// current context; the condition of the exit, which has no outcome, with the stage that ran last.
fn first_unsatisfied<'l>(
    pipeline: &'l Pipeline,
    path: &'l ExecutionPath,
    from: NodeIndex,
) -> Option<Unsatisfied<'l>> {
    let gates = pipeline.nodes.iter().zip(0..).filter(|(row, _)| row.goal_gate);
    let records = Records::new(pipeline, path);
    let mut states = gates.filter_map(|(row, at)| {
        let gate = NodeIndex(at);
        let condition = pipeline.goal_condition(row);
        let mut seen = facts(pipeline, path, pipeline.stage(gate), &records);
        let (status, reason) = if row.role == Role::Exit {
            if condition.is_none() || gate != from {
                return None;
            }
            (&path.last.status, path.last.failure_reason.as_str())
        } else {
            let outcome = path.outcomes.get(gate)?;
            let reason = outcome.notes.as_deref().unwrap_or_default();
            seen.outcome = outcome.status.word();
            seen.failure_reason = if outcome.status.is_success() { "" } else { reason };
            seen.preferred_label = "";
            (&outcome.status, reason)
        };
        let satisfied = condition.map_or_else(|| status.is_success(), |condition| condition.holds(&seen));
        (!satisfied).then(|| Unsatisfied {
            gate,
            status,
            reason,
            condition: condition.map(|condition| describe(condition, &seen)),
        })
    });
    states.next()
}

/// Describes a condition with the values of the keys that it reads.
fn describe(condition: Condition<'_>, seen: &Facts<'_>) -> String {
    let mut text = format!("`{}` is false", condition.text());
    for key in condition.keys() {
        let _ = write!(text, ", {key} is `{}`", seen.text(key));
    }
    text
}
