//! `parallel_no_join`: the branches of a fan-out never join (rule P1).

use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "parallel_no_join",
    severity: Severity::Error,
    summary: "the branches of a fan-out never join",
    source: "Attractor 4.8, rule P1",
    text: include_str!("../../tests/rules/parallel_no_join.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

/// Maximum number of diagnostics for which the branches are examined one by one.
const MAX_CLOSE_LOOKS: usize = 20;

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let Some(exit) = input.analysis.exit() else {
        return;
    };
    let joins = input.joins();
    let mut to_exit = Vec::new();
    let mut close_looks = 0;
    for at in joins.fan_outs() {
        let edges = input.analysis.outgoing(at);
        let misspelt = edges.iter().any(|edge| input.is_ghost(input.edge(*edge).to));
        if joins.join(at).is_some() || edges.is_empty() || misspelt || !input.reached[at.at()] {
            continue;
        }
        let node = input.node(at);
        let mut diagnostic = Diagnostic::from_rule(
            &RULE,
            format!("the branches of `{}` never join", node.id),
            node.span,
        )
        .label("no join behind this fan-out")
        .note("the run continues where all branches join: at a `tripleoctagon` that all reach, or at the first node that all must pass")
        .help("route every branch to one `tripleoctagon` node")
        .node(&*node.id);
        if close_looks < MAX_CLOSE_LOOKS {
            close_looks += 1;
            to_exit = vec![false; input.kinds.len()];
            input
                .backward
                .walk_on(exit.at(), &mut to_exit, |before| before != at.at());
        }
        let lost = edges.iter().map(|edge| input.edge(*edge));
        for edge in lost.filter(|edge| !to_exit[edge.to.at()]).take(4) {
            let label = format!("the branch `{}` leads nowhere near the others", input.id(edge.to));
            diagnostic = diagnostic.related(edge.to_span, label);
        }
        diagnostics.push(diagnostic);
    }
}
