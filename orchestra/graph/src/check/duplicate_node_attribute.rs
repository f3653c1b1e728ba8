//! `duplicate_node_attribute`: the same key is set twice on one owner.

use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;
use crate::text::Span;

pub(crate) static RULE: Page = Page {
    code: "duplicate_node_attribute",
    severity: Severity::Warning,
    summary: "an attribute is set twice",
    source: "rule L6",
    text: include_str!("../../tests/rules/duplicate_node_attribute.md"),
};

pub(crate) fn diagnostic(name: &str, first: Span, second: Span) -> Diagnostic {
    Diagnostic::from_rule(&RULE, format!("`{name}` is set twice"), second)
        .label("this one takes effect")
        .related(first, "this one has no effect")
        .note("the later value replaces the earlier one, as in Graphviz")
        .help("remove one of them")
}
