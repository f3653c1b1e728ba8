//! `reachability`: no path leads from the start to a node (Attractor 7.2, rule L14).

use crate::check::Check;
use crate::check::input::{Input, meant};
use crate::diagnostic::Diagnostic;
use crate::model::NodeIndex;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "reachability",
    severity: Severity::Error,
    summary: "no path leads from the start to a node",
    source: "Attractor 7.2, rule L14",
    text: include_str!("../../tests/rules/reachability.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let Some(start) = input.analysis.starts().first().copied() else {
        return;
    };
    let unreached: Vec<bool> = input.reached.iter().map(|reached| !reached).collect();
    if !unreached.contains(&true) {
        return;
    }
    if input.analysis.starts().len() == 1 && input.analysis.outgoing(start).is_empty() {
        let id = input.id(start);
        diagnostics.push(
            Diagnostic::from_rule(
                &RULE,
                format!("the start `{id}` has no outgoing edge"),
                input.node(start).span,
            )
            .note("so no other node can be reached")
            .help(format!("add an edge from `{id}` to the first stage"))
            .node(id),
        );
        return;
    }
    // Report only the first nodes of an unreachable part: the rest is unreachable because of them.
    for at in input.forward.sources(&unreached) {
        let index = NodeIndex(at as u32);
        let node = input.node(index);
        let mut diagnostic =
            Diagnostic::from_rule(&RULE, format!("`{}` can never be reached", node.id), node.span)
                .label(format!("no path leads here from `{}`", input.id(start)))
                .node(&*node.id);
        let near = if input.is_implicit(index) {
            input.near(&node.id)
        } else {
            None
        };
        if input.is_implicit(index) {
            diagnostic = diagnostic.note("it is never declared: edges only lead away from it");
        } else if !input.analysis.incoming(index).is_empty() {
            diagnostic = diagnostic.note("the nodes that lead to it cannot be reached either");
        } else {
            diagnostic = diagnostic.note("edges, `retry_target` and `fallback_retry_target` count as edges");
        }
        let help = format!("add an edge to `{}`, or remove it", node.id);
        diagnostics.push(meant(
            diagnostic,
            node.span,
            near.map(|near| input.id(near)),
            help,
        ));
    }
}
