//! `output_schema`: the schema of an answer cannot be used (rule T8).

use crate::answer_schema::{MAX_BYTES, SchemaError};
use crate::child_reader::ReadError;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;
use crate::syntax::shorten;
use crate::text::Span;

pub(crate) static RULE: Page = Page {
    code: "output_schema",
    severity: Severity::Error,
    summary: "the schema of an answer cannot be used",
    source: "rule T8",
    text: include_str!("../../tests/rules/output_schema.md"),
};

/// Returns the diagnostic for a file that cannot be read.
pub(crate) fn unreadable(file: &str, path: &str, error: &ReadError, span: Span) -> Diagnostic {
    let shown = shorten(file);
    match error {
        ReadError::Missing => Diagnostic::from_rule(&RULE, format!("no schema file `{shown}`"), span)
            .label("no such file")
            .note(format!("looked for `{}`", shorten(path)))
            .help(
                "the path is relative to the folder of the file that names it; correct it, or add the file",
            ),
        ReadError::TooLong(length) => Diagnostic::from_rule(
            &RULE,
            format!("schema file `{shown}` has {length} bytes; the limit is {MAX_BYTES}"),
            span,
        )
        .label("too long")
        .help("describe less; the schema is sent to the model with each request"),
        ReadError::Other(words) => Diagnostic::from_rule(
            &RULE,
            format!("schema file `{shown}` cannot be read: {}", shorten(words)),
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
        format!("schema file `{}` is named by an absolute path", shorten(file)),
        span,
    )
    .label("begins with `/`")
    .note("a path of one machine would not be found on another")
    .help("write the path relative to the folder of this file")
}

pub(crate) fn no_text(file: &str, span: Span) -> Diagnostic {
    Diagnostic::from_rule(
        &RULE,
        format!("schema file `{}` is not UTF-8", shorten(file)),
        span,
    )
    .label("not a text")
    .help("write the schema into it, as JSON in UTF-8")
}

/// Returns the diagnostic for a text that is not a schema.
pub(crate) fn invalid(file: Option<&str>, error: &SchemaError, span: Span) -> Diagnostic {
    let message = match file {
        Some(file) => format!("schema file `{}`: {}", shorten(file), error.message),
        None => format!("the schema is invalid: {}", error.message),
    };
    let diagnostic = Diagnostic::from_rule(&RULE, message, span).help(&*error.help);
    match error.pointer.as_str() {
        "" => diagnostic,
        pointer => diagnostic.note(format!("at `#{}` in the schema", shorten(pointer))),
    }
}

pub(crate) fn both(span: Span) -> Diagnostic {
    let message = "the node has both `output_schema` and `output_schema_file`";
    Diagnostic::from_rule(&RULE, message, span)
        .label("a second schema")
        .help("remove one of them")
}

pub(crate) fn no_outputs(span: Span) -> Diagnostic {
    let message = "the schema is that of the `outputs` of the node, which has none";
    Diagnostic::from_rule(&RULE, message, span)
        .help("declare values such as `outputs=\"score: int\"`, or name a schema file")
}
