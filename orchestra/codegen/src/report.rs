//! Diagnostics for rustc: `compile_error!` for errors, and the use of a deprecated item for warnings.

use orchestra_graph::{Diagnostic, Report, Severity, Source, render};
use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// Maximum number of errors, and of warnings, reported for one pipeline.
const MAX: usize = 20;

/// Returns the code of an error with a text at a range of tokens.
pub(crate) fn error(text: &str, (start, end): (Span, Span)) -> TokenStream {
    let mut body = Group::new(Delimiter::Brace, literal(text, end).into());
    body.set_span(end);
    let mut tokens = path(&["core", "compile_error"], start, end);
    tokens.extend([
        TokenTree::Punct(punct('!', Spacing::Alone, end)),
        TokenTree::Group(body),
    ]);
    tokens
}

/// Returns the code of a warning with a text at a token; rustc reports it under the lint `deprecated`.
pub(crate) fn warning(code: &str, text: &str, span: Span) -> TokenStream {
    let item = Ident::new(code, Span::call_site());
    let used = Ident::new(code, Span::call_site().located_at(span));
    quote::quote! {
        const _: () = {
            #[deprecated(note = #text)]
            #[allow(non_upper_case_globals)]
            const #item: () = ();
            #used
        };
    }
}

/// Returns the path `::a::b`, which spans from the first span to the last.
fn path(segments: &[&str], start: Span, end: Span) -> TokenStream {
    let mut tokens = TokenStream::new();
    for (index, segment) in segments.iter().enumerate() {
        let span = if index == 0 { start } else { end };
        tokens.extend([
            TokenTree::Punct(punct(':', Spacing::Joint, span)),
            TokenTree::Punct(punct(':', Spacing::Alone, span)),
            TokenTree::Ident(Ident::new(segment, span)),
        ]);
    }
    tokens
}

fn punct(character: char, spacing: Spacing, span: Span) -> Punct {
    let mut punct = Punct::new(character, spacing);
    punct.set_span(span);
    punct
}

fn literal(text: &str, span: Span) -> TokenTree {
    let mut literal = Literal::string(text);
    literal.set_span(span);
    TokenTree::Literal(literal)
}

/// Returns the code of the error for an internal state that must not occur.
pub(crate) fn bug(what: &str, span: Span) -> TokenStream {
    error(
        &format!("{what}; this is a bug of orchestra, please report it with the pipeline that shows it"),
        (span, span),
    )
}

/// Returns the first errors and warnings of a report in full. Reports the number of the remaining ones at `location`.
pub(crate) fn first(
    report: &Report,
    location: (Span, Span),
    spans: impl Fn(orchestra_graph::Span) -> (Span, Span),
) -> TokenStream {
    let mut tokens = TokenStream::new();
    let mut rest = [0usize; 2];
    let mut shown = [0usize; 2];
    for diagnostic in &report.diagnostics {
        let kind = match diagnostic.severity {
            Severity::Error => 0,
            Severity::Warning => 1,
            Severity::Info => continue,
        };
        if shown[kind] == MAX {
            rest[kind] += 1;
            continue;
        }
        shown[kind] += 1;
        let text = text(&report.source, diagnostic);
        let location = spans(diagnostic.span);
        tokens.extend(match kind {
            0 => error(&text, location),
            _ => warning(diagnostic.code, &text, location.0),
        });
    }
    if rest[0] > 0 {
        let text = format!("{}: ... and {} more errors", report.source.name(), rest[0]);
        tokens.extend(error(&text, location));
    }
    if rest[1] > 0 {
        let text = format!("{}: ... and {} more warnings", report.source.name(), rest[1]);
        tokens.extend(warning("more_warnings", &text, location.0));
    }
    tokens
}

/// Returns a diagnostic in plain text, as the other tools of the language show it, except for its first line: rustc
/// prints the severity itself, so the message comes first and the code follows it.
pub(crate) fn text(source: &Source, diagnostic: &Diagnostic) -> String {
    let text = render::text_one(source, diagnostic, render::Style::Plain);
    let head = format!("{}[{}]: ", diagnostic.severity.word(), diagnostic.code);
    let Some(rest) = text.strip_prefix(&head) else {
        return text;
    };
    let (message, behind) = rest.split_once('\n').unwrap_or((rest, ""));
    format!("{message} [{}]\n{behind}", diagnostic.code)
}
