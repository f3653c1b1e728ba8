//! `retry_target_exists`: a jump leads to a node that does not exist (Attractor 7.2).

use crate::attribute::Known;
use crate::attributes::Attributes;
use crate::check::Check;
use crate::check::input::{Input, Once};
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "retry_target_exists",
    severity: Severity::Warning,
    summary: "a `retry_target` or `fallback_retry_target` names no node",
    source: "Attractor 7.2",
    text: include_str!("../../tests/rules/retry_target_exists.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

const JUMPS: [Known; 2] = [Known::RetryTarget, Known::FallbackRetryTarget];

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let mut once = Once::default();
    check(input, &input.graph().attributes, None, &mut once, diagnostics);
    for (_, node) in input.nodes_with(&JUMPS) {
        check(input, &node.attributes, Some(&node.id), &mut once, diagnostics);
    }
}

fn check(
    input: &Input<'_>,
    attributes: &Attributes,
    node: Option<&str>,
    once: &mut Once,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for known in JUMPS {
        let Some(attribute) = attributes.get(known) else {
            continue;
        };
        let target = attribute.value.as_str().unwrap_or_default().trim();
        if target.is_empty() || input.graph().find(target).is_some() || !once.first(attribute) {
            continue;
        }
        let shown = crate::syntax::shorten(target);
        let mut diagnostic = Diagnostic::from_rule(
            &RULE,
            format!("`{}` names unknown node `{shown}`", known.name()),
            attribute.value_span,
        )
        .label("no such node")
        .note("the run would fail instead of continuing there");
        if let Some(node) = node {
            diagnostic = diagnostic.node(node);
        }
        diagnostics.push(match input.near(target).map(|near| input.id(near)) {
            Some(near) => diagnostic
                .help(format!("did you mean `{near}`?"))
                .fix(attribute.value_span, format!("\"{near}\"")),
            None => diagnostic.help("name a node of this pipeline"),
        });
    }
}
