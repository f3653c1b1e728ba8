//! `success_only_into_exit`: a failure would end the run as a success (rules R3, R4).
//!
//! A plain edge is not followed after a failure, so the failure of a stage before the exit is visible. This is not so
//! if the node is configured otherwise, or at a routing node, whose plain edge is taken after a failure too.

use crate::attribute::Known;
use crate::check::Check;
use crate::check::failure_routed_as_success;
use crate::check::input::Input;
use crate::check::outcomes::{FAIL, failure_gets_past};
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "success_only_into_exit",
    severity: Severity::Info,
    summary: "a failure would end the run as a success",
    source: "rules R3, R4",
    text: include_str!("../../tests/rules/success_only_into_exit.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let Some(exit) = input.analysis.exit() else {
        return;
    };
    let graph = &input.graph().attributes;
    let all_route = graph.text_or_default(Known::OnFailure) == "route";
    for edge in input.analysis.incoming(exit) {
        let from = input.edge(*edge).from;
        if input.analysis.condition_id(*edge) != 0 || !input.reached[from.at()] {
            continue;
        }
        let attributes = &input.node(from).attributes;
        let why = match input.kind(from) {
            kind::START | kind::WAIT_HUMAN | kind::PARALLEL => continue,
            // `failure_routed_as_success` reports this case.
            kind::CONDITIONAL if failure_routed_as_success::find(input, from).is_some() => continue,
            kind::CONDITIONAL if input.outcomes.seen(from).words & FAIL == 0 => continue,
            kind::CONDITIONAL => "a routing node takes its edge without a condition after a failure too",
            _ if attributes.is_goal_gate() => continue,
            _ if attributes.flag(Known::AutoStatus) => {
                "`auto_status` counts a stage that says nothing as a success"
            }
            _ => match attributes.text(Known::OnFailure) {
                Some("route") => "`on_failure=\"route\"` follows plain edges after a failure",
                None if all_route => "the graph's `on_failure=\"route\"` follows plain edges after a failure",
                _ => continue,
            },
        };
        if !failure_gets_past(input, from) {
            continue;
        }
        let (id, end) = (input.id(from), input.id(exit));
        diagnostics.push(
            Diagnostic::from_rule(
                &RULE,
                format!("a failure before `{id} -> {end}` would end the run as a success"),
                input.edge(*edge).span(),
            )
            .label("taken after a failure too")
            .note(why)
            .help(format!(
                "add an edge with `condition=\"outcome=fail\"` to `{id}`, or make the stage a goal gate"
            ))
            .node(id)
            .edge(id, end),
        );
    }
}
