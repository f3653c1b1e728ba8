//! `child_nesting`: child pipelines are nested too deeply, or there are too many of them (rule L10).

use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;
use crate::syntax::shorten;
use crate::text::Span;

pub(crate) static RULE: Page = Page {
    code: "child_nesting",
    severity: Severity::Error,
    summary: "child pipelines nest too deeply, or there are too many",
    source: "rule L10",
    text: include_str!("../../tests/rules/child_nesting.md"),
};

/// Maximum nesting depth of child pipelines, not counting the first pipeline.
pub(crate) const MAX_DEPTH: usize = 16;
/// Maximum number of files that are requested in all.
pub(crate) const MAX_FILES: usize = 256;

pub(crate) fn deep(file: &str, span: Span) -> Diagnostic {
    let message = format!("child pipelines nest more than {MAX_DEPTH} deep");
    limit(message, file, span)
}

pub(crate) fn many(file: &str, span: Span) -> Diagnostic {
    let message = format!("a pipeline has more than {MAX_FILES} child pipelines, including theirs");
    limit(message, file, span)
}

pub(crate) fn long(file: &str, bytes: usize, span: Span) -> Diagnostic {
    let message = format!("the child pipelines of one pipeline have more than {bytes} bytes");
    limit(message, file, span)
}

fn limit(message: String, file: &str, span: Span) -> Diagnostic {
    Diagnostic::from_rule(&RULE, message, span)
        .label("one too many")
        .note(format!("`{}` was not read", shorten(file)))
        .help("run fewer pipelines inside each other; use stages of one pipeline instead")
}
