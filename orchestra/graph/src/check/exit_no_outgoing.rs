//! `exit_no_outgoing`: the exit has an outgoing edge (Attractor 7.2).

use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "exit_no_outgoing",
    severity: Severity::Error,
    summary: "the exit has an outgoing edge",
    source: "Attractor 7.2",
    text: include_str!("../../tests/rules/exit_no_outgoing.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let Some(exit) = input.analysis.exit() else {
        return;
    };
    let id = input.id(exit);
    for edge in input.analysis.outgoing(exit) {
        let edge = input.edge(*edge);
        diagnostics.push(
            Diagnostic::from_rule(
                &RULE,
                format!("the exit `{id}` has an outgoing edge"),
                edge.from_span,
            )
            .label("the run ends here")
            .note("the edge would never be taken")
            .help(format!(
                "let the edge begin at the stage before `{id}`, or give `{id}` another shape"
            ))
            .node(id)
            .edge(id, input.id(edge.to)),
        );
    }
}
