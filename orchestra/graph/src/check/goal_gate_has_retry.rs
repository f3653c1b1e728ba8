//! `goal_gate_has_retry`: an unsatisfied goal gate has no retry target (Attractor 7.2, rule R7).

use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::{Input, Once};
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "goal_gate_has_retry",
    severity: Severity::Warning,
    summary: "a goal gate has no `retry_target`",
    source: "Attractor 7.2, rule R7",
    text: include_str!("../../tests/rules/goal_gate_has_retry.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let targets = [Known::RetryTarget, Known::FallbackRetryTarget];
    let of_graph = &input.graph().attributes;
    // `retry_target_exists` reports a target that does not exist.
    if targets.iter().any(|known| of_graph.filled(*known).is_some()) {
        return;
    }
    let mut once = Once::default();
    for (_, node) in input.nodes_with(&[Known::GoalGate]) {
        let named = targets
            .iter()
            .any(|known| node.attributes.filled(*known).is_some());
        let Some(gate) = node.attributes.get(Known::GoalGate) else {
            continue;
        };
        if named || !node.attributes.is_goal_gate() || !once.first(gate) {
            continue;
        }
        diagnostics.push(
            Diagnostic::from_rule(
                &RULE,
                format!("goal gate `{}` has no `retry_target`", node.id),
                gate.key_span.to(gate.value_span),
            )
            .label("nowhere to go when unsatisfied")
            .note("a run that reaches the exit before this stage has succeeded continues at the target; without one it fails")
            .help("add `retry_target` to the node, or to the graph for all gates")
            .node(&*node.id),
        );
    }
}
