//! Diagnostics as what rustc shows: `compile_error!` for errors, a deprecated item that is used for warnings.

use orchestra_graph::{Diagnostic, Source, render};
use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// The most errors, and the most warnings, that one pipeline gives.
pub(crate) const MAX: usize = 20;

/// An error with its text at a range of tokens.
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

/// A warning with its text at a token; it is a rustc warning of the lint `deprecated`.
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

/// `::a::b` from the first span to the last.
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

/// The error for a state that the macro should never be in.
pub(crate) fn bug(what: &str, span: Span) -> TokenStream {
    error(
        &format!("{what}; this is a bug of orchestra, please report it with the pipeline that shows it"),
        (span, span),
    )
}

/// A diagnostic in plain text, as every other face of the language shows it, but for its first line: rustc writes
/// the severity itself, so the message comes first and the code behind it.
pub(crate) fn text(source: &Source, fault: &Diagnostic) -> String {
    let text = render::text_one(source, fault, render::Style::Plain);
    let head = format!("{}[{}]: ", fault.severity.word(), fault.code);
    let Some(rest) = text.strip_prefix(&head) else {
        return text;
    };
    let (message, behind) = rest.split_once('\n').unwrap_or((rest, ""));
    format!("{message} [{}]\n{behind}", fault.code)
}
