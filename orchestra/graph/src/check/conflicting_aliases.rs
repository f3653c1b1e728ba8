//! `conflicting_aliases`: one attribute is set under two spellings (rule L11).

use crate::diagnostic::Diagnostic;
use crate::text::Span;

pub(crate) const CODE: &str = "conflicting_aliases";

pub(crate) fn diagnostic(name: &str, first: (&str, Span), second: (&str, Span)) -> Diagnostic {
    let message = format!(
        "`{}` and `{}` are two spellings of one attribute",
        first.0, second.0
    );
    Diagnostic::warning(CODE, message, second.1)
        .label("this one holds")
        .related(first.1, "this one is lost")
        .help(format!("keep one of them, preferably as `{name}`"))
}
