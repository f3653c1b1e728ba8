//! The path under which the user knows the `orchestra` crate.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::Path;

/// The path as seen from the invocation.
pub(crate) fn path(given: Option<&Path>) -> TokenStream {
    given.map_or_else(|| quote!(::orchestra), ToTokens::to_token_stream)
}

/// The path as seen from a module inside the invocation's.
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

/// The spans of the first and the last token of something.
pub(crate) fn ends(tokens: &impl ToTokens) -> (Span, Span) {
    let mut tokens = tokens.to_token_stream().into_iter();
    let first = tokens.next().map_or_else(Span::call_site, |token| token.span());
    let last = tokens.last().map_or(first, |token| token.span());
    (first, last)
}

/// Tokens moved to another place, where errors about them shall point; what they mean stays the same.
pub(crate) fn located(tokens: TokenStream, place: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            token.set_span(token.span().located_at(place));
            token
        })
        .collect()
}

/// A span that lies at a place, but whose names mean what they mean where the macro is called.
pub(crate) fn at(place: Span) -> Span {
    Span::call_site().located_at(place)
}
