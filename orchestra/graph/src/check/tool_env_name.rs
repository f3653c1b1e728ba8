//! `tool_env_name`: an attribute sets an environment variable that the engine itself sets (rule F12).

use crate::attribute_family::AttributeFamily;
use crate::diagnostic::Diagnostic;
use crate::text::Span;

pub(crate) const CODE: &str = "tool_env_name";

/// How the names of the engine's variables begin.
const RESERVED: &str = "ORCHESTRA_";

/// Returns the fault of a name behind `tool_env.`. That it is an identifier is a matter of the syntax.
pub(crate) fn fault(name: &str, span: Span) -> Option<Diagnostic> {
    let is_reserved = name.to_ascii_uppercase().starts_with(RESERVED);
    is_reserved.then(|| {
        let shown = crate::syntax::shorten(name);
        Diagnostic::error(
            CODE,
            format!("`{}{shown}` sets a variable of the engine", AttributeFamily::TOOL_ENV.prefix),
            span,
        )
        .label("reserved name")
        .note(format!(
            "by variables that begin with `{RESERVED}` the engine tells a command its node, its folder and its files"
        ))
        .help("choose another name")
    })
}
