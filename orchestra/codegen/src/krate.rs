//! The path by which the user's program refers to the `orchestra` crate.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::Path;

/// Returns the path relative to the invocation.
pub(crate) fn path(given: Option<&Path>) -> TokenStream {
    given.map_or_else(|| quote!(::orchestra), ToTokens::to_token_stream)
}

/// Returns the path relative to a module inside the module of the invocation.
pub(crate) fn inside_module(given: Option<&Path>) -> TokenStream {
    let Some(given) = given else {
        return quote!(::orchestra);
    };
    let first = given.segments.first().map(|segment| segment.ident.to_string());
    match first.as_deref() {
        _ if given.leading_colon.is_some() => quote!(#given),
        Some("super") => quote!(super::#given),
        Some("self") => {
            let rest = given.segments.iter().skip(1);
            quote!(super #(:: #rest)*)
        }
        _ => quote!(#given),
    }
}

/// Returns the spans of the first and the last token.
pub(crate) fn ends(tokens: &impl ToTokens) -> (Span, Span) {
    let mut tokens = tokens.to_token_stream().into_iter();
    let first = tokens.next().map_or_else(Span::call_site, |token| token.span());
    let last = tokens.last().map_or(first, |token| token.span());
    (first, last)
}

/// Moves tokens to another location, at which errors about them point. Their names resolve as before.
pub(crate) fn located(tokens: TokenStream, location: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            token.set_span(token.span().located_at(location));
            token
        })
        .collect()
}

/// Returns a span at another location, whose names resolve at the invocation of the macro.
pub(crate) fn at(location: Span) -> Span {
    Span::call_site().located_at(location)
}
