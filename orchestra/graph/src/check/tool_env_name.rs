//! `tool_env_name`: an attribute sets an environment variable that the engine itself sets (rule F12).

use crate::attribute::AttributeFamily;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;
use crate::text::Span;

pub(crate) static RULE: Page = Page {
    code: "tool_env_name",
    severity: Severity::Error,
    summary: "an attribute sets an environment variable that the engine itself sets",
    source: "rule F12",
    text: include_str!("../../tests/rules/tool_env_name.md"),
};

/// The prefix of the names of the engine's variables.
const RESERVED: &str = "ORCHESTRA_";

/// Returns the error for a reserved name after `tool_env.` or `tool_env_from.`. The syntax already ensures that the name is an identifier.
pub(crate) fn diagnostic(family: &AttributeFamily, name: &str, span: Span) -> Option<Diagnostic> {
    let is_reserved = name.to_ascii_uppercase().starts_with(RESERVED);
    is_reserved.then(|| {
        let shown = crate::syntax::shorten(name);
        Diagnostic::from_rule(
            &RULE,
            format!("`{}{shown}` sets a variable of the engine", family.prefix),
            span,
        )
        .label("reserved name")
        .note(format!(
            "variables that begin with `{RESERVED}` give a command its node, its folder and its files"
        ))
        .help("choose another name")
    })
}
