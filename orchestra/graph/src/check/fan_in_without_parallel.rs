//! `fan_in_without_parallel`: a fan-in that no fan-out leads to (Attractor 4.9).

use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "fan_in_without_parallel",
    severity: Severity::Warning,
    summary: "no fan-out leads to a fan-in",
    source: "Attractor 4.9, rule P6",
    text: include_str!("../../tests/rules/fan_in_without_parallel.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
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
            Diagnostic::from_rule(
                &RULE,
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
