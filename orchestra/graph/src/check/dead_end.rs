//! `dead_end`: a node other than the exit has no outgoing edge and does not set `end` (rule R6).

use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "dead_end",
    severity: Severity::Warning,
    summary: "a node other than the exit has no outgoing edge",
    source: "rule R6",
    text: include_str!("../../tests/rules/dead_end.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    // Under first-match routing such a node completes the run (rule R11).
    if input.first_match() || input.analysis.exits().is_empty() {
        return;
    }
    for (at, node) in input.nodes() {
        if !input.analysis.outgoing(at).is_empty() || !input.reached[at.at()] {
            continue;
        }
        if input.is_exit(at) || input.is_start(at) || input.is_ghost(at) || input.has(at, &[Known::End]) {
            continue;
        }
        // `parallel_no_join` reports a branch without a next step.
        let is_branch = input.analysis.incoming(at).iter().any(|edge| {
            let from = input.edge(*edge).from;
            input.kind(from) == kind::PARALLEL && input.analysis.outgoing(from).len() > 1
        });
        if is_branch {
            continue;
        }
        diagnostics.push(
            Diagnostic::from_rule(
                &RULE,
                format!("`{}` has no outgoing edge and is not the exit", node.id),
                node.span,
            )
            .label("a run that reaches this node fails")
            .note("a run succeeds only at the exit; at any other node it fails")
            .help(format!(
                "add an edge, or state the intention: `end=\"fail\"` or `end=\"success\"` on `{}`",
                node.id
            ))
            .node(&*node.id),
        );
    }
}
