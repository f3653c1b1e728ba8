//! `implicit_node`: a node is mentioned by edges but never declared (rule L8).

use crate::check::Check;
use crate::check::input::{Input, meant};
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "implicit_node",
    severity: Severity::Warning,
    summary: "edges name a node that is never declared",
    source: "rule L8",
    text: include_str!("../../tests/rules/implicit_node.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    for (at, node) in input.nodes() {
        // `reachability` reports a name without incoming edges, with the same suggestion.
        let unled = input.analysis.incoming(at).is_empty() && !input.reached[at.at()];
        if !input.is_implicit(at) || input.is_ghost(at) || unled || input.is_twin[at.at()] {
            continue;
        }
        let near = input.near(&node.id);
        if !input.is_surely_undeclared(at) {
            continue;
        }
        let diagnostic = Diagnostic::from_rule(
            &RULE,
            format!("node `{}` is never declared", node.id),
            node.span,
        )
        .label("first named here")
        .note("as in plain Graphviz it becomes a node with the defaults that are in effect, here a stage without instructions")
        .node(&*node.id);
        let help = format!("declare it, as in `{} [label=\"..\"]`", node.id);
        diagnostics.push(meant(
            diagnostic,
            node.span,
            near.map(|near| input.id(near)),
            help,
        ));
    }
}
