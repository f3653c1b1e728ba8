//! `child_cycle`: a pipeline runs itself through its children (Attractor 9.4).

use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;
use crate::syntax::shorten;
use crate::text::Span;

pub(crate) static RULE: Page = Page {
    code: "child_cycle",
    severity: Severity::Error,
    summary: "a pipeline runs itself through its children",
    source: "Attractor 9.4",
    text: include_str!("../../tests/rules/child_cycle.md"),
};

/// Maximum number of files of a cycle that are shown.
const SHOWN: usize = 6;

/// Returns the diagnostic for a file that names the first of some files, which in turn lead to it.
pub(crate) fn diagnostic(circle: &[String], span: Span) -> Diagnostic {
    let first = circle.first().map(|file| format!("`{}`", shorten(file)));
    let first = first.unwrap_or_default();
    let mut way: Vec<String> = circle.iter().map(|file| format!("`{}`", shorten(file))).collect();
    if way.len() > SHOWN {
        way.splice(SHOWN / 2..way.len() - SHOWN / 2, ["..".to_owned()]);
    }
    way.push(first.clone());
    Diagnostic::from_rule(
        &RULE,
        format!("child pipelines run each other in a cycle: {}", way.join(" -> ")),
        span,
    )
    .label(format!("leads back to {first}"))
    .note("each of them would start the next one endlessly")
    .help("to repeat stages, use an edge inside one pipeline, or `loop_restart=true`")
}
