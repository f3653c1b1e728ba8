//! `unknown_default_choice`: the default of a human gate is not one of its choices (rule H3).

use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::{Input, meant};
use crate::choice::{choice_meant, choice_named, graph_choices};
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::page::Page;
use crate::severity::Severity;
use crate::syntax::literal::quoted;

static RULE: Page = Page {
    code: "unknown_default_choice",
    severity: Severity::Error,
    summary: "the default of a human gate is not one of its choices",
    source: "Attractor 6.5, rule H3",
    text: include_str!("../../tests/rules/unknown_default_choice.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    for (at, node) in input.nodes_with(&[Known::DefaultChoice]) {
        let Some(attribute) = node.attributes.get(Known::DefaultChoice) else {
            continue;
        };
        let wanted = attribute.value.as_str().unwrap_or_default().trim();
        if input.kind(at) != kind::WAIT_HUMAN || wanted.is_empty() || input.analysis.outgoing(at).is_empty() {
            continue;
        }
        let choices = graph_choices(input.analysis, at);
        let names = choices
            .iter()
            .map(|choice| [&*choice.key, &*choice.label, input.id(choice.to)]);
        // If any text is an answer, the default may be any text.
        if choices.iter().any(|choice| choice.freeform) || choice_named(names.clone(), wanted).is_some() {
            continue;
        }
        let shown = crate::syntax::shorten(wanted);
        let listed: Vec<String> = choices
            .iter()
            .take(8)
            .map(|choice| format!("`{}`", choice.label))
            .collect();
        let listed = match listed.as_slice() {
            [] => "it has no choices".to_owned(),
            listed => format!("its choices are {}", listed.join(", ")),
        };
        let diagnostic = Diagnostic::from_rule(
            &RULE,
            format!("the gate `{}` has no choice `{shown}`", node.id),
            attribute.value_span,
        )
        .label("no such choice")
        .note(format!(
            "{listed}; the default is taken when nobody answers in time"
        ))
        .node(&*node.id);
        diagnostics.push(match choice_meant(names, wanted) {
            Some(near) => diagnostic
                .help(format!("did you mean `{near}`?"))
                .fix(attribute.value_span, quoted(near)),
            None => meant(
                diagnostic,
                attribute.value_span,
                None,
                "name the key or label of a choice, or the node that it leads to",
            ),
        });
    }
}
