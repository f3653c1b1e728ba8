//! `child_invalid`: a child pipeline has errors (Attractor 9.4).

use crate::diagnostic::{Diagnostic, Report};
use crate::page::Page;
use crate::severity::Severity;
use crate::syntax::shorten;
use crate::text::Span;

pub(crate) static RULE: Page = Page {
    code: "child_invalid",
    severity: Severity::Error,
    summary: "a child pipeline has errors",
    source: "Attractor 9.4",
    text: include_str!("../../tests/rules/child_invalid.md"),
};

pub(crate) fn diagnostic(file: &str, report: &Report, span: Span) -> Diagnostic {
    let count = report.errors().count();
    let errors = if count == 1 { "error" } else { "errors" };
    Diagnostic::from_rule(
        &RULE,
        format!("child pipeline `{}` has {count} {errors}", shorten(file)),
        span,
    )
    .label("cannot be run")
    .help(format!("fix the errors in `{}`", shorten(report.source.name())))
}
