//! `#[derive(Outcome)]`: an enum whose variants are the outcomes of a handler.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::ParseStream;
use syn::{Data, DeriveInput, Fields, LitStr, Path};

use crate::invocation::crate_option;
use crate::{krate, names};

/// Expands `#[derive(Outcome)]`.
pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    expand(&input).unwrap_or_else(|error| error.to_compile_error())
}

fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        let error = "`derive(Outcome)` wants an enum, one variant for each outcome word";
        return Err(syn::Error::new(input.ident.span(), error));
    };
    if !input.generics.params.is_empty() {
        let error = "an enum of outcomes cannot be generic, because its words are constants";
        return Err(syn::Error::new_spanned(&input.generics, error));
    }
    if data.variants.is_empty() {
        let error = "an enum of outcomes has one variant at least";
        return Err(syn::Error::new(input.ident.span(), error));
    }
    let mut krate_path: Option<Path> = None;
    for attribute in input
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("outcome"))
    {
        krate_path = Some(attribute.parse_args_with(|input: ParseStream<'_>| crate_option(input))?);
    }
    let krate = krate::path(krate_path.as_ref());
    let mut words: Vec<String> = Vec::new();
    let mut variants = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            let error = "an outcome word carries no fields; return `Outcome` to say more";
            return Err(syn::Error::new_spanned(&variant.fields, error));
        }
        let mut word = names::snake(&variant.ident.to_string());
        for attribute in variant
            .attrs
            .iter()
            .filter(|attribute| attribute.path().is_ident("outcome"))
        {
            let given: LitStr = attribute.parse_args()?;
            word = given.value();
            if !orchestra_graph::is_identifier(&word) {
                let error = "an outcome word is made of letters, digits and `_`";
                return Err(syn::Error::new(given.span(), error));
            }
        }
        if words.contains(&word) {
            let error = format!("two variants stand for the outcome `{word}`");
            return Err(syn::Error::new(variant.ident.span(), error));
        }
        words.push(word);
        variants.push(&variant.ident);
    }
    let ty = &input.ident;
    Ok(quote! {
        #[automatically_derived]
        impl #krate::__private::IntoOutcome for #ty {
            const WORDS: #krate::__private::Words = #krate::__private::Words::Only(&[#(#words),*]);

            fn into_outcome(self) -> #krate::__private::Outcome {
                #krate::__private::outcome(match self {
                    #(Self::#variants => #words,)*
                })
            }
        }
    })
}
