//! `child_not_found`: the file of a child pipeline cannot be read (Attractor 4.11, 9.4).

use crate::children::ReadError;
use crate::diagnostic::Diagnostic;
use crate::syntax::shorten;
use crate::text::Span;

pub(crate) const CODE: &str = "child_not_found";

pub(crate) fn diagnostic(
    file: &str,
    path: &str,
    diagnostic: &ReadError,
    limit: usize,
    span: Span,
) -> Diagnostic {
    let shown = shorten(file);
    match diagnostic {
        ReadError::Missing => Diagnostic::error(CODE, format!("no child pipeline `{shown}`"), span)
            .label("no such file")
            .note(format!("looked for `{}`", shorten(path)))
            .help("a child's path is relative to the folder of the file that names it; correct it, or add the file"),
        ReadError::TooLong(length) => Diagnostic::error(
            CODE,
            format!("child pipeline `{shown}` has {length} bytes; the limit is {limit}"),
            span,
        )
        .label("too long")
        .help("split it into pipelines of its own"),
        ReadError::Other(words) => Diagnostic::error(
            CODE,
            format!("child pipeline `{shown}` cannot be read: {}", shorten(words)),
            span,
        )
        .label("cannot be read")
        .note(format!("it is `{}`", shorten(path)))
        .help("name a file that can be read"),
    }
}

pub(crate) fn absolute(file: &str, span: Span) -> Diagnostic {
    Diagnostic::error(
        CODE,
        format!("child pipeline `{}` is named by an absolute path", shorten(file)),
        span,
    )
    .label("begins with `/`")
    .note("a path of one machine would not be found on another")
    .help("write the path relative to the folder of this file")
}
