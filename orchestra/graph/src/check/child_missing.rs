//! `child_missing`: a stage runs a pipeline, but does not name it (Attractor 4.11, 9.4).

use crate::check::Check;
use crate::check::input::Input;
use crate::child_reference::{Named, named};
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "child_missing",
    severity: Severity::Error,
    summary: "a stage runs a pipeline, but names none",
    source: "Attractor 4.11 and 9.4",
    text: include_str!("../../tests/rules/child_missing.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    for (at, node) in input.nodes() {
        if !matches!(named(input.analysis, at), Some(Named::Nothing)) {
            continue;
        }
        let diagnostic = match input.kind(at) {
            kind::MANAGER_LOOP => Diagnostic::from_rule(
                &RULE,
                format!("manager loop `{}` does not say which pipeline it starts", node.id),
                node.span,
            )
            .help("write `stack.child_dotfile=\"child.dot\"` on the node or the graph"),
            _ => Diagnostic::from_rule(
                &RULE,
                format!("sub-pipeline node `{}` does not say which pipeline it runs", node.id),
                node.span,
            )
            .help(
                "write `subpipeline.file=\"child.dot\"` on the node, or `subpipeline.name=..` for a pipeline that \
                 the program registers",
            ),
        };
        diagnostics.push(diagnostic.label("runs nothing").node(&*node.id));
    }
}
