//! `bind!`: a type that represents a pipeline of another module, bound to handlers of this program.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Ident, Path, Token, Type, Visibility};

use crate::invocation::crate_option;
use crate::{krate, pipeline};

struct Bound {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    name: Ident,
    module: Path,
    handlers: Type,
    krate: Option<Path>,
}

impl Parse for Bound {
    fn parse(input: ParseStream<'_>) -> syn::Result<Bound> {
        const FORM: &str = "expected `pub NAME = path::to::module, handlers = (..)`";
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility: Visibility = input.parse()?;
        let name: Ident = input
            .parse()
            .map_err(|error| syn::Error::new(error.span(), FORM))?;
        input.parse::<Token![=]>()?;
        let module = input.call(Path::parse_mod_style)?;
        let (mut handlers, mut krate) = (None, None);
        while input.peek(Token![,]) {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            if input.peek(Token![crate]) {
                krate = Some(crate_option(input)?);
                continue;
            }
            let option: Ident = input
                .parse()
                .map_err(|error| syn::Error::new(error.span(), FORM))?;
            if option != "handlers" {
                return Err(syn::Error::new(option.span(), FORM));
            }
            input.parse::<Token![=]>()?;
            handlers = Some(input.parse::<Type>()?);
        }
        let _: Option<Token![;]> = input.parse()?;
        if !input.is_empty() {
            return Err(input.error(FORM));
        }
        match handlers {
            Some(handlers) => Ok(Bound {
                attributes,
                visibility,
                name,
                module,
                handlers,
                krate,
            }),
            None => Err(input.error(FORM)),
        }
    }
}

/// Expands `bind!`.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let bound: Bound = match syn::parse2(input) {
        Ok(bound) => bound,
        Err(error) => return error.to_compile_error(),
    };
    let Bound {
        attributes,
        visibility,
        name,
        module,
        handlers,
        krate,
    } = &bound;
    let krate = krate::path(krate.as_ref());
    let verify = pipeline::verify(&krate, &quote!(#module), handlers);
    quote! {
        #(#attributes)*
        #[::core::prelude::v1::derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
        #visibility struct #name;

        #[automatically_derived]
        impl #krate::__private::Binding<#handlers> for #name {
            fn into_pipeline(self) -> #krate::__private::SharedPipeline {
                #krate::__private::SharedPipeline::Static(&#module::PIPELINE)
            }

            fn configuration(
                &self,
            ) -> ::core::option::Option<#krate::__private::CompiledConfiguration> {
                #module::PIPELINE.configuration()
            }

            fn versions(&self) -> &'static [#krate::__private::CompiledVersion] {
                #module::PIPELINE.versions()
            }
        }

        #[automatically_derived]
        impl #krate::__private::Startable<#handlers> for #name {}

        #verify
    }
}
