//! `parallel_nesting`: fan-outs are nested too deeply (rule P1).

use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "parallel_nesting",
    severity: Severity::Error,
    summary: "fan-outs nest too deeply",
    source: "Attractor 4.8, rule P1",
    text: include_str!("../../tests/rules/parallel_nesting.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

/// Maximum nesting depth of fan-outs.
const MAX_DEPTH: u32 = 32;

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    // Report only the innermost block that is too deep: the blocks around it are too deep because of it.
    let first_too_deep = MAX_DEPTH + 1;
    let depths = input.joins().depths(first_too_deep + 1);
    for (at, _) in depths.into_iter().filter(|(_, depth)| *depth == first_too_deep) {
        let node = input.node(at);
        diagnostics.push(
            Diagnostic::from_rule(
                &RULE,
                format!("more than {MAX_DEPTH} nested fan-outs, beginning with `{}`", node.id),
                node.span,
            )
            .label(format!("{MAX_DEPTH} more are nested inside it"))
            .note("each level multiplies the branches: two at each of 32 levels are four billion")
            .help("end a block before the next begins, or move the inner blocks to a file of their own that runs as one stage (`shape=folder`)")
            .node(&*node.id),
        );
    }
}
