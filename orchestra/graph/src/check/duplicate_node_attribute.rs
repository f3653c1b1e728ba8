//! `duplicate_node_attribute`: the same key is set twice on one owner.

use crate::diagnostic::Diagnostic;
use crate::text::Span;

pub(crate) const CODE: &str = "duplicate_node_attribute";

pub(crate) fn diagnostic(name: &str, first: Span, second: Span) -> Diagnostic {
    Diagnostic::warning(CODE, format!("`{name}` is set twice"), second)
        .label("this one holds")
        .related(first, "this one is lost")
        .note("the later value replaces the earlier one, as in Graphviz")
        .help("remove one of them")
}
