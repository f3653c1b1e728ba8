//! `child_not_found`: the file of a child pipeline cannot be read (Attractor 4.11, 9.4).

use crate::child_reader::ReadError;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;
use crate::syntax::shorten;
use crate::text::Span;

pub(crate) static RULE: Page = Page {
    code: "child_not_found",
    severity: Severity::Error,
    summary: "the file of a child pipeline cannot be read",
    source: "Attractor 4.11 and 9.4",
    text: include_str!("../../tests/rules/child_not_found.md"),
};

pub(crate) fn diagnostic(file: &str, path: &str, error: &ReadError, limit: usize, span: Span) -> Diagnostic {
    let shown = shorten(file);
    match error {
        ReadError::Missing => Diagnostic::from_rule(&RULE, format!("no child pipeline `{shown}`"), span)
            .label("no such file")
            .note(format!("looked for `{}`", shorten(path)))
            .help("a child's path is relative to the folder of the file that names it; correct it, or add the file"),
        ReadError::TooLong(length) => Diagnostic::from_rule(
            &RULE,
            format!("child pipeline `{shown}` has {length} bytes; the limit is {limit}"),
            span,
        )
        .label("too long")
        .help("split it into pipelines of its own"),
        ReadError::Other(words) => Diagnostic::from_rule(
            &RULE,
            format!("child pipeline `{shown}` cannot be read: {}", shorten(words)),
            span,
        )
        .label("cannot be read")
        .note(format!("it is `{}`", shorten(path)))
        .help("name a file that can be read"),
    }
}

pub(crate) fn absolute(file: &str, span: Span) -> Diagnostic {
    Diagnostic::from_rule(
        &RULE,
        format!("child pipeline `{}` is named by an absolute path", shorten(file)),
        span,
    )
    .label("begins with `/`")
    .note("a path of one machine would not be found on another")
    .help("write the path relative to the folder of this file")
}
