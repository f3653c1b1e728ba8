//! `parallel_reentry`: a branch leads back to its own fan-out (rule P1).

use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "parallel_reentry",
    severity: Severity::Warning,
    summary: "a branch leads back to its own fan-out",
    source: "Attractor 4.8, rule P1",
    text: include_str!("../../tests/rules/parallel_reentry.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    for back in input.joins().reentries(input.analysis) {
        let edge = input.edge(back.edge);
        if !input.reached[back.fan_out.at()] {
            continue;
        }
        let [from, to, fan_out] = [edge.from, edge.to, back.fan_out].map(|at| input.id(at));
        let (message, label) = if to == fan_out {
            (
                format!("a branch of `{fan_out}` leads back to `{fan_out}`"),
                "the branch fails here",
            )
        } else {
            (
                format!("a branch of `{fan_out}` leads back to `{to}`, and from there to `{fan_out}` again"),
                "the branch fails behind this",
            )
        };
        let mut diagnostic = Diagnostic::from_rule(&RULE, message, edge.to_span)
            .label(label)
            .related(input.node(back.fan_out).span, "the branches begin here")
            .note("a branch that reaches its own fan-out before the join fails, because the block would start inside itself")
            .edge(from, to);
        if let Some(join) = input.joins().join(back.fan_out) {
            let join = input.id(join);
            diagnostic = diagnostic.help(format!(
                "route the branch to the join `{join}`, and add the edge back after it"
            ));
        }
        diagnostics.push(diagnostic);
    }
}
