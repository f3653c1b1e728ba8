//! `conflicting_aliases`: an attribute is set under two names (rule L11).

use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;
use crate::text::Span;

pub(crate) static RULE: Page = Page {
    code: "conflicting_aliases",
    severity: Severity::Warning,
    summary: "an attribute is set under two names",
    source: "rule L11",
    text: include_str!("../../tests/rules/conflicting_aliases.md"),
};

pub(crate) fn diagnostic(name: &str, first: (&str, Span), second: (&str, Span)) -> Diagnostic {
    let message = format!(
        "`{}` and `{}` are two spellings of one attribute",
        first.0, second.0
    );
    Diagnostic::from_rule(&RULE, message, second.1)
        .label("this one takes effect")
        .related(first.1, "this one has no effect")
        .help(format!("keep one of them, preferably as `{name}`"))
}
