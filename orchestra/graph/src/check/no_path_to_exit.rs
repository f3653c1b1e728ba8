//! `no_path_to_exit`: a node from which a run can neither reach the exit nor end otherwise (rule R6).

use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::model::NodeIndex;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "no_path_to_exit",
    severity: Severity::Warning,
    summary: "a run that reaches a node can never end",
    source: "rules R6, R10",
    text: include_str!("../../tests/rules/no_path_to_exit.md"),
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
    // `reachability` reports an exit that cannot be reached at all.
    if !input.reached[exit.at()] {
        return;
    }
    let ends = input.nodes().map(|(at, _)| at);
    let ends = ends.filter(|at| *at == exit || input.analysis.outgoing(*at).is_empty());
    let leads_out = input.backward.walk(ends.map(NodeIndex::at));
    let trapped: Vec<bool> = leads_out
        .iter()
        .zip(&input.reached)
        .map(|(out, reached)| !out && *reached)
        .collect();
    if !trapped.contains(&true) {
        return;
    }
    // Report only the innermost loop of connected nodes: the nodes that lead into it are trapped because of it.
    for at in input.backward.sources(&trapped) {
        let index = NodeIndex(at as u32);
        let node = input.node(index);
        diagnostics.push(
            Diagnostic::from_rule(
                &RULE,
                format!("no path leads from `{}` to the exit", node.id),
                node.span,
            )
            .label("a run that reaches this node never ends")
            .note("the run would repeat until a limit such as `max_node_visits` fails it")
            .help(format!(
                "add an edge that leaves the loop, towards `{}` or a node with `end=\"fail\"`",
                input.id(exit)
            ))
            .node(&*node.id),
        );
    }
}
