//! `node_id_case_clash`: two ids differ only in case (rule D2).

use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "node_id_case_clash",
    severity: Severity::Error,
    summary: "two node ids differ only in case",
    source: "rule D2",
    text: include_str!("../../tests/rules/node_id_case_clash.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    for (later, first) in &input.twins {
        // A name without outgoing edges is reported as a misspelling.
        if input.is_ghost(*later) || input.is_ghost(*first) {
            continue;
        }
        let (later, first) = (input.node(*later), input.node(*first));
        let mut diagnostic = Diagnostic::from_rule(
            &RULE,
            format!("`{}` and `{}` differ only in case", first.id, later.id),
            later.span,
        )
        .label("this node")
        .related(first.span, "and this one")
        .note("each stage has a folder named by its id, and many file systems ignore case")
        .node(&*later.id);
        diagnostic = if first.declared && !later.declared {
            diagnostic
                .help(format!("did you mean `{}`?", first.id))
                .fix(later.span, &*first.id)
        } else {
            diagnostic.help("rename one of them, or spell it the same everywhere")
        };
        diagnostics.push(diagnostic);
    }
}
