//! `child_invalid`: a child pipeline has errors (Attractor 9.4).

use crate::diagnostic::{Diagnostic, Report};
use crate::syntax::shorten;
use crate::text::Span;

pub(crate) const CODE: &str = "child_invalid";

pub(crate) fn diagnostic(file: &str, report: &Report, span: Span) -> Diagnostic {
    let count = report.errors().count();
    let errors = if count == 1 { "error" } else { "errors" };
    Diagnostic::error(
        CODE,
        format!("child pipeline `{}` has {count} {errors}", shorten(file)),
        span,
    )
    .label("cannot be run")
    .help(format!(
        "mend what is reported of `{}`",
        shorten(report.source.name())
    ))
}
