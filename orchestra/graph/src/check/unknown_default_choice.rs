//! `unknown_default_choice`: a human gate's default is none of its choices (rule H3).

use crate::attribute::Known;
use crate::check::Check;
use crate::check::duplicate_choice_key::choice;
use crate::check::input::{Input, meant};
use crate::diagnostic::{Diagnostic, Severity, did_you_mean};
use crate::kind;
use crate::label::{accelerator_key, normalize_label};

pub(crate) static CHECK: Check = Check {
    code: "unknown_default_choice",
    severity: Severity::Error,
    summary: "a human gate's default is none of its choices",
    source: "Attractor 6.5, rule H3",
    whole: true,
    run,
};

fn run(input: &Input<'_>, faults: &mut Vec<Diagnostic>) {
    for (at, node) in input.nodes_with(&[Known::DefaultChoice]) {
        let edges = input.analysis.outgoing(at);
        let Some(attribute) = node.attributes.get(Known::DefaultChoice) else {
            continue;
        };
        let wanted = attribute.value.as_str().unwrap_or_default().trim();
        let free = || {
            edges
                .iter()
                .any(|edge| input.edge(*edge).attributes.flag(Known::Freeform))
        };
        if input.kind(at) != kind::WAIT_HUMAN || wanted.is_empty() || edges.is_empty() || free() {
            continue;
        }
        let normal = normalize_label(wanted);
        let names = |edge: &crate::EdgeIndex| {
            let label = choice(input, *edge).unwrap_or_default();
            input.id(input.edge(*edge).to) == wanted
                || normalize_label(label) == normal
                || accelerator_key(label).eq_ignore_ascii_case(wanted)
        };
        if edges.iter().any(names) {
            continue;
        }
        let shown = crate::syntax::shorten(wanted);
        let labels: Vec<&str> = edges.iter().filter_map(|edge| choice(input, *edge)).collect();
        let listed: Vec<String> = labels.iter().take(8).map(|label| format!("`{label}`")).collect();
        let fault = Diagnostic::error(
            CHECK.code,
            format!("the gate `{}` has no choice `{shown}`", node.id),
            attribute.value_span,
        )
        .label("no such choice")
        .note(format!(
            "its choices are {}; the default is taken when nobody answers in time",
            listed.join(", ")
        ))
        .node(&*node.id);
        let targets = edges.iter().map(|edge| input.id(input.edge(*edge).to));
        let near = did_you_mean(wanted, labels.iter().copied().chain(targets));
        faults.push(match near {
            Some(near) => fault
                .help(format!("did you mean `{near}`?"))
                .fix(attribute.value_span, format!("\"{near}\"")),
            None => meant(
                fault,
                attribute.value_span,
                None,
                "name the key or label of a choice, or the node that it leads to",
            ),
        });
    }
}
