//! `start_no_incoming`: an edge leads back to the start (Attractor 7.2).

use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "start_no_incoming",
    severity: Severity::Error,
    summary: "an edge leads back to the start",
    source: "Attractor 7.2",
    text: include_str!("../../tests/rules/start_no_incoming.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let Some(start) = input.analysis.start() else {
        return;
    };
    let id = input.id(start);
    let first = input.analysis.outgoing(start).first();
    let first = first
        .map(|edge| input.edge(*edge).to)
        .filter(|first| *first != start);
    for edge in input.analysis.incoming(start) {
        let edge = input.edge(*edge);
        let diagnostic = Diagnostic::from_rule(
            &RULE,
            format!("an edge leads back to the start `{id}`"),
            edge.to_span,
        )
        .label("nothing may lead here")
        .note("the start only marks where a run begins; it does no work that could be repeated")
        .node(id)
        .edge(input.id(edge.from), id);
        diagnostics.push(match first {
            Some(first) => diagnostic.help(format!(
                "let the edge lead to `{}`, the first stage",
                input.id(first)
            )),
            None => diagnostic.help("lead the edge to the first stage"),
        });
    }
}
