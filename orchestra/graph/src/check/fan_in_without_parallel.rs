//! `fan_in_without_parallel`: a fan-in that no fan-out leads to (Attractor 4.9).

use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::{Diagnostic, Severity};
use crate::kind;

pub(crate) static CHECK: Check = Check {
    code: "fan_in_without_parallel",
    severity: Severity::Warning,
    summary: "no fan-out leads to a fan-in",
    source: "Attractor 4.9, rule P6",
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    if !input.kinds.contains(&kind::FAN_IN) {
        return;
    }
    let kinds = input.kinds.iter().enumerate();
    let fan_outs = kinds
        .filter(|(_, kind)| **kind == kind::PARALLEL)
        .map(|(at, _)| at);
    let behind = input.forward.walk(fan_outs);
    for (at, node) in input.nodes() {
        if input.kind(at) != kind::FAN_IN || behind[at.at()] || !input.reached[at.at()] {
            continue;
        }
        diagnostics.push(
            Diagnostic::warning(
                CHECK.code,
                format!("no fan-out leads to the fan-in `{}`", node.id),
                node.span,
            )
            .label("nothing to collect here")
            .note(
                "a fan-in chooses among the results of a `component` node's branches, and fails without any",
            )
            .help("give the branching node `shape=component`, or this one another shape")
            .node(&*node.id),
        );
    }
}
