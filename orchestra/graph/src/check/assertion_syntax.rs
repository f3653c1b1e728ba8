//! `assertion_syntax`: a part of `assert` is not an assertion.

use crate::assertion::parse_assertions;
use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::{Input, meant_in};
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;
use crate::text::Span;

static RULE: Page = Page {
    code: "assertion_syntax",
    severity: Severity::Error,
    summary: "a part of `assert` is not an assertion",
    source: "rules V1 to V4",
    text: include_str!("../../tests/rules/assertion_syntax.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

/// An example of each assertion.
const FORMS: [&str; 4] = [
    "`requires(ship, approve=Ship, since=build)`",
    "`handled(build)`",
    "`at_most(build, 5)`",
    "`total(attempts) <= 60`",
];

/// Returns the error for an `assert` that would otherwise be ignored: a second one, or one of a subgraph.
pub(crate) fn ignored(span: Span, is_second: bool) -> Diagnostic {
    let (message, help) = if is_second {
        (
            "a second `assert`: a pipeline has one",
            "write all assertions into one `assert`, separated by `;`",
        )
    } else {
        (
            "an assertion in a subgraph: it is about the whole pipeline",
            "move `assert` to the graph",
        )
    };
    Diagnostic::from_rule(&RULE, message, span).help(help)
}

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let Some(attribute) = input.graph().attributes.get(Known::Assert) else {
        return;
    };
    let text = attribute.value.as_str().unwrap_or_default();
    for error in parse_assertions(text).into_iter().filter_map(Result::err) {
        let span = if error.range.is_empty() {
            attribute.value_span
        } else {
            input.analysis.inside(attribute.value_span, error.range.clone())
        };
        let forms = FORMS.join(", ");
        let diagnostic = Diagnostic::from_rule(&RULE, error.message, span)
            .label("here in the assertion")
            .note(format!("the assertions are {forms}; `;` separates them"));
        diagnostics.push(meant_in(
            input.analysis.source(),
            diagnostic,
            (attribute, error.range),
            error.meant,
            "write it like the examples, or remove it",
        ));
    }
}
