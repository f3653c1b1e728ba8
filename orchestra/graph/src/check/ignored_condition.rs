//! `ignored_condition`: an edge has a condition that is not read (rule R11).

use crate::attribute::Known;
use crate::attributes::{Attribute, Origin};
use crate::check::Check;
use crate::check::input::{Input, Once};
use crate::diagnostic::Diagnostic;
use crate::model::Edge;
use crate::page::Page;
use crate::severity::Severity;
use crate::text::Span;

static RULE: Page = Page {
    code: "ignored_condition",
    severity: Severity::Error,
    summary: "an edge has a condition that is not read",
    source: "rule R11",
    text: include_str!("../../tests/rules/ignored_condition.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let mut once = Once::default();
    for (_, edge) in input.edges_with(&[Known::ConditionType, Known::ConditionValue]) {
        let Some((attribute, diagnostic)) = beside_condition(edge).or_else(|| value_alone(edge)) else {
            continue;
        };
        if once.first(attribute) {
            diagnostics.push(diagnostic.edge(input.id(edge.from), input.id(edge.to)));
        }
    }
}

/// Reports a `condition_type` or `condition_value` on an edge with a `condition`, which is read instead.
fn beside_condition(edge: &Edge) -> Option<(&Attribute, Diagnostic)> {
    edge.attributes.filled(Known::Condition)?;
    let condition = edge.attributes.get(Known::Condition)?;
    let ty = edge.attributes.get(Known::ConditionType);
    let value = edge
        .attributes
        .get(Known::ConditionValue)
        .filter(|value| asks(value));
    let lost = ty.or(value)?;
    // An edge may override a default.
    if lost.origin != Origin::Explicit && condition.origin == Origin::Explicit {
        return None;
    }
    let name = lost.key.name();
    let message = format!("`{name}` is not read beside `condition`");
    let span = lost.key_span.to(lost.value_span);
    let unconditional = value.is_none() && ty.is_some_and(is_unconditional);
    let diagnostic = if unconditional {
        Diagnostic::from_rule(&RULE, message, span)
            .severity(Severity::Warning)
            .note("the edge is taken only where its `condition` holds")
            .help(format!("remove `{name}`"))
    } else {
        Diagnostic::from_rule(&RULE, message, span)
            .note("the edge would be taken wherever its `condition` holds")
            .help("say both in `condition`, such as `outcome=success && context.ready`, or keep only one of them")
    };
    Some((
        lost,
        diagnostic
            .label("not read")
            .related(condition.value_span, "only this is read"),
    ))
}

/// Reports a `condition_value` that no `condition_type=conditional` reads.
fn value_alone(edge: &Edge) -> Option<(&Attribute, Diagnostic)> {
    let value = edge
        .attributes
        .get(Known::ConditionValue)
        .filter(|value| asks(value))?;
    let span = value.key_span.to(value.value_span);
    let Some(ty) = edge.attributes.get(Known::ConditionType) else {
        let diagnostic = Diagnostic::from_rule(
            &RULE,
            "`condition_value` is not read without a `condition_type`",
            span,
        )
        .label("not read")
        .note("the edge would be taken for every value")
        .help("write `condition_type=conditional` beside it")
        .fix(
            Span::new(value.key_span.start, value.key_span.start),
            "condition_type=conditional, ",
        );
        return Some((value, diagnostic));
    };
    // An edge may override a default.
    if ty.value.as_str() == Some("conditional") || value.origin != Origin::Explicit {
        return None;
    }
    let message = format!(
        "`condition_value` is not read beside `condition_type={}`",
        ty.value
    );
    let diagnostic = Diagnostic::from_rule(&RULE, message, span)
        .label("not read")
        .note("only `condition_type=conditional` reads it")
        .help("write `condition_type=conditional`, or remove `condition_value`");
    Some((value, diagnostic))
}

/// Returns whether an attribute contains more than white space.
fn asks(attribute: &Attribute) -> bool {
    attribute
        .value
        .as_str()
        .is_some_and(|text| !text.trim().is_empty())
}

fn is_unconditional(ty: &Attribute) -> bool {
    matches!(ty.value.as_str(), Some("always" | "unconditional"))
}
