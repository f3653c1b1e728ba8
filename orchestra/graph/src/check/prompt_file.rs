//! `prompt_file`: the file of a prompt cannot be read (rule F3).

use crate::child_reader::ReadError;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;
use crate::syntax::shorten;
use crate::text::Span;

pub(crate) static RULE: Page = Page {
    code: "prompt_file",
    severity: Severity::Error,
    summary: "the file of a prompt cannot be read",
    source: "rule F3",
    text: include_str!("../../tests/rules/prompt_file.md"),
};

pub(crate) fn diagnostic(file: &str, path: &str, error: &ReadError, limit: usize, span: Span) -> Diagnostic {
    let shown = shorten(file);
    match error {
        ReadError::Missing => Diagnostic::from_rule(&RULE, format!("no prompt file `{shown}`"), span)
            .label("no such file")
            .note(format!("looked for `{}`", shorten(path)))
            .help(
                "the path is relative to the folder of the file that names it; correct it, or add the file",
            ),
        ReadError::TooLong(length) => Diagnostic::from_rule(
            &RULE,
            format!("prompt file `{shown}` has {length} bytes; the limit is {limit}"),
            span,
        )
        .label("too long")
        .help("write a shorter prompt, and let the model read the rest with its tools"),
        ReadError::Other(words) => Diagnostic::from_rule(
            &RULE,
            format!("prompt file `{shown}` cannot be read: {}", shorten(words)),
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
        format!("prompt file `{}` is named by an absolute path", shorten(file)),
        span,
    )
    .label("begins with `/`")
    .note("a path of one machine would not be found on another")
    .help("write the path relative to the folder of this file")
}

pub(crate) fn no_text(file: &str, span: Span) -> Diagnostic {
    Diagnostic::from_rule(
        &RULE,
        format!("prompt file `{}` holds no text", shorten(file)),
        span,
    )
    .label("empty, or not UTF-8")
    .help("write the prompt into it")
}

pub(crate) fn both(span: Span) -> Diagnostic {
    Diagnostic::from_rule(&RULE, "the node has both `prompt` and `prompt_file`", span)
        .label("a second prompt")
        .help("remove one of them")
}
