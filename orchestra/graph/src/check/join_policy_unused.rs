//! `join_policy_unused`: a number that the join policy of a fan-out does not read (rule P4).

use crate::attribute::Known;
use crate::attributes::Origin;
use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "join_policy_unused",
    severity: Severity::Warning,
    summary: "`join_k` or `join_quorum` has a join policy that does not use it",
    source: "Attractor 4.8, rule P4",
    text: include_str!("../../tests/rules/join_policy_unused.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    for (at, node) in input.nodes_with(&[Known::JoinK, Known::JoinQuorum]) {
        if input.kind(at) != kind::PARALLEL {
            continue;
        }
        let policy = node.attributes.text_or_default(Known::JoinPolicy);
        for (known, reader) in [(Known::JoinK, "k_of_n"), (Known::JoinQuorum, "quorum")] {
            let Some(attribute) = node.attributes.get(known) else {
                continue;
            };
            if policy == reader || attribute.origin != Origin::Explicit {
                continue;
            }
            let name = known.name();
            diagnostics.push(
                Diagnostic::from_rule(
                    &RULE,
                    format!("`{name}` has no effect under the join policy `{policy}`"),
                    attribute.key_span.to(attribute.value_span),
                )
                .label("never read")
                .note(format!("only `join_policy=\"{reader}\"` reads `{name}`"))
                .help(format!("add `join_policy=\"{reader}\"`, or remove `{name}`"))
                .node(&*node.id),
            );
        }
    }
}
