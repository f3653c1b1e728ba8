//! `#[derive(Attributes)]`: a struct whose fields are custom attributes of a node.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::parse::ParseStream;
use syn::{Data, DeriveInput, Expr, Fields, LitStr, Path, Token};

use crate::invocation::crate_option;
use crate::krate;

/// The options of `#[attribute(..)]` on a field.
#[derive(Default)]
struct FieldOptions {
    rename: Option<LitStr>,
    default: Option<Option<Expr>>,
}

/// Expands `#[derive(Attributes)]`.
pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    expand(&input).unwrap_or_else(|error| error.to_compile_error())
}

fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let wrong = "`derive(Attributes)` wants a struct with named fields, one for each attribute";
    let Data::Struct(data) = &input.data else {
        return Err(syn::Error::new(input.ident.span(), wrong));
    };
    let fields = match &data.fields {
        Fields::Named(fields) => fields.named.iter().collect::<Vec<_>>(),
        Fields::Unit => Vec::new(),
        Fields::Unnamed(fields) => return Err(syn::Error::new_spanned(fields, wrong)),
    };
    if !input.generics.params.is_empty() {
        let error = "a struct of attributes cannot be generic, because its fields are checked as constants";
        return Err(syn::Error::new_spanned(&input.generics, error));
    }
    let krate = krate::path(krate_of(input)?.as_ref());
    let mut constants = TokenStream::new();
    let mut specs = TokenStream::new();
    let mut reads = TokenStream::new();
    let mut names: Vec<String> = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let Some(ident) = &field.ident else {
            continue;
        };
        let options = field_options(field)?;
        let written = ident.to_string();
        let name = match &options.rename {
            Some(name) => name.value(),
            None => written.strip_prefix("r#").unwrap_or(&written).to_owned(),
        };
        if names.contains(&name) {
            let error = format!("two fields read the attribute `{name}`");
            return Err(syn::Error::new(ident.span(), error));
        }
        let (constant, ty) = (format_ident!("__F{at}"), &field.ty);
        let span = krate::at(krate::ends(ty).1);
        let call = quote_spanned!(span=> #krate::__private::field::<#ty>());
        constants.extend(quote!(const #constant: #krate::__private::Field<#ty> = #call;));
        let required = match &options.default {
            Some(_) => quote!(false),
            None => quote!(#constant.required),
        };
        specs.extend(quote! {
            #krate::__private::FieldSpec { name: #name, ty: #constant.ty, required: #required },
        });
        let read = match &options.default {
            None => quote!(#constant.read(stage, #name)?),
            Some(None) => {
                quote_spanned!(span=> #constant.read_or(stage, #name, <#ty as ::core::default::Default>::default)?)
            }
            Some(Some(default)) => quote!(#constant.read_or(stage, #name, || #default)?),
        };
        reads.extend(quote!(#ident: #read,));
        names.push(name);
    }
    let ty = &input.ident;
    Ok(quote! {
        const _: () = {
            #constants

            #[automatically_derived]
            impl #krate::__private::FromStage for #ty {
                const FIELDS: &'static [#krate::__private::FieldSpec] = &[#specs];

                fn from_stage(
                    stage: &#krate::__private::StageContext,
                ) -> ::core::result::Result<Self, #krate::__private::AttributeError> {
                    let _ = stage;
                    ::core::result::Result::Ok(Self { #reads })
                }
            }
        };
    })
}

fn field_options(field: &syn::Field) -> syn::Result<FieldOptions> {
    let mut options = FieldOptions::default();
    for attribute in field
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("attribute"))
    {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("rename") {
                let name: LitStr = meta.value()?.parse()?;
                if name.value().trim().is_empty() {
                    return Err(syn::Error::new(name.span(), "an attribute has a name"));
                }
                options.rename = Some(name);
            } else if meta.path.is_ident("default") {
                let given = meta.input.peek(Token![=]);
                options.default = Some(if given { Some(meta.value()?.parse()?) } else { None });
            } else {
                return Err(meta.error("expected `rename = \"..\"`, `default` or `default = EXPRESSION`"));
            }
            Ok(())
        })?;
    }
    Ok(options)
}

/// Returns the path in `#[attribute(crate = path)]` on the struct.
fn krate_of(input: &DeriveInput) -> syn::Result<Option<Path>> {
    let mut found = None;
    for attribute in input
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("attribute"))
    {
        found = Some(attribute.parse_args_with(|input: ParseStream<'_>| crate_option(input))?);
    }
    Ok(found)
}
