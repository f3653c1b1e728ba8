//! Goal gates: what must have succeeded before a run may end well (Attractor 3.4, rule R7).

use std::fmt::Write as _;

use orchestra_graph::condition::Facts;
use orchestra_graph::table::ConditionRow;
use orchestra_graph::{Decision, Next, NodeIndex, Pipeline, Role, Rule};

use crate::effect::Observation;
use crate::failure::RunFailure;
use crate::line::{Flow, Records, Step, facts};
use crate::outcome::Status;
use crate::state::Line;

impl Step<'_> {
    /// Where unsatisfied goal gates send a run that is about to end well (Attractor 3.4, rule R7).
    pub(crate) fn gates(&mut self, line: &Line, from: NodeIndex) -> Result<Option<NodeIndex>, Flow> {
        let pipeline = self.pipeline;
        let Some(unsatisfied) = first_unsatisfied(pipeline, line, from) else {
            return Ok(None);
        };
        let gate = unsatisfied.gate;
        let row = pipeline.stage(gate).row();
        let settings = &pipeline.settings;
        let targets = [
            row.retry_target,
            row.fallback_retry_target,
            settings.retry_target,
            settings.fallback_retry_target,
        ];
        let target = targets.into_iter().flatten().next();
        let spent = self.totals.reroutes >= settings.max_goal_gate_reroutes;
        let Some(target) = target.filter(|_| !spent) else {
            return Err(Flow::Abort(RunFailure::GoalGate {
                node: row.id.to_string(),
                outcome: unsatisfied.status.word().to_owned(),
                reason: unsatisfied.reason.to_owned(),
                condition: unsatisfied.condition,
                limit: target.map(|_| settings.max_goal_gate_reroutes),
            }));
        };
        self.totals.reroutes += 1;
        let reroute = self.totals.reroutes;
        self.tell(|| Observation::GoalGateUnsatisfied {
            gate,
            target,
            reroute,
        });
        self.tell(|| Observation::Routed {
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

/// A goal gate that does not let a run end well.
struct Unsatisfied<'l> {
    gate: NodeIndex,
    status: &'l Status,
    reason: &'l str,
    /// The gate's own condition, with the values that it saw.
    condition: Option<String>,
}

/// The first goal gate, in the order of the table, that was visited and is not satisfied.
///
/// A gate without a condition is satisfied by a success. A condition is asked of the gate's own outcome and of the
/// context as it is now; on the exit itself, which has no outcome, of the stage that ran last.
fn first_unsatisfied<'l>(pipeline: &'l Pipeline, line: &'l Line, from: NodeIndex) -> Option<Unsatisfied<'l>> {
    let gates = pipeline.nodes.iter().zip(0..).filter(|(row, _)| row.goal_gate);
    let records = Records::new(pipeline, line);
    let mut states = gates.filter_map(|(row, at)| {
        let gate = NodeIndex(at);
        let condition = row
            .goal_condition
            .and_then(|at| pipeline.conditions.get(at as usize));
        let mut seen = facts(pipeline, line, pipeline.stage(gate), &records);
        let (status, reason) = if row.role == Role::Exit {
            condition.filter(|_| gate == from)?;
            (&line.last.status, line.last.failure_reason.as_str())
        } else {
            let outcome = line.outcomes.get(gate)?;
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

/// A condition with the values of the keys that it reads.
fn describe(condition: &ConditionRow, seen: &Facts<'_>) -> String {
    let mut text = format!("`{}` is false", condition.text);
    for key in condition.keys.iter() {
        let _ = write!(text, ", {key} is `{}`", seen.text(key));
    }
    text
}
