//! Goal gates: what must have succeeded before a run may end well (Attractor 3.4, rule R7).

use orchestra_graph::{Decision, Next, NodeIndex, Rule};

use crate::effect::Observation;
use crate::failure::RunFailure;
use crate::line::{Flow, Step};
use crate::state::Line;

impl Step<'_> {
    /// Where unsatisfied goal gates send a run that is about to end well (Attractor 3.4, rule R7).
    pub(crate) fn gates(&mut self, line: &Line, from: NodeIndex) -> Result<Option<NodeIndex>, Flow> {
        let nodes = self
            .pipeline
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, row)| row.goal_gate);
        let unsatisfied = nodes.filter_map(|(at, row)| {
            let node = NodeIndex(at as u32);
            let outcome = line.outcomes.get(node)?;
            (!outcome.status.is_success()).then_some((node, row, outcome))
        });
        let Some((gate, row, outcome)) = unsatisfied.into_iter().next() else {
            return Ok(None);
        };
        let settings = &self.pipeline.settings;
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
                outcome: outcome.status.word().to_owned(),
                reason: outcome.notes.clone().unwrap_or_default(),
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
