//! `edge_target_exists`: an edge leads to a node that does not exist (Attractor 7.2, rule L8).

use crate::check::Check;
use crate::check::input::{Input, meant};
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

pub(crate) static RULE: Page = Page {
    code: "edge_target_exists",
    severity: Severity::Error,
    summary: "an edge leads to a node that does not exist",
    source: "Attractor 7.2, rule L8",
    text: include_str!("../../tests/rules/edge_target_exists.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let exit = input.exit_candidate();
    for (at, node) in input.nodes() {
        // If the exit is missing, `terminal_node` reports the only end of the pipeline.
        if !input.is_ghost(at) || exit == Some(at) {
            continue;
        }
        let near = input.near(&node.id);
        if !input.is_surely_undeclared(at) {
            continue;
        }
        for edge in input.analysis.incoming(at) {
            let edge = input.edge(*edge);
            let from = input.id(edge.from);
            let diagnostic = Diagnostic::from_rule(
                &RULE,
                format!("edge points to unknown node `{}`", node.id),
                edge.to_span,
            )
            .label("no such node")
            .note("it is never declared and leads nowhere")
            .node(&*node.id)
            .edge(from, &*node.id);
            let help = format!("declare it, as in `{} [label=\"..\"]`", node.id);
            diagnostics.push(meant(
                diagnostic,
                edge.to_span,
                near.map(|near| input.id(near)),
                help,
            ));
        }
    }
}
