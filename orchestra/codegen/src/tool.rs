//! `#[tool]`: a function becomes a tool for models. Only the comments on its arguments are removed from its code.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::{
    Attribute, Expr, ExprLit, FnArg, Ident, Lit, LitStr, Meta, Pat, Path, ReturnType, Signature, Token, Type,
    Visibility,
};

use crate::invocation::crate_option;
use crate::krate;
use crate::signature::{Errors, Purpose, check_argument, check_call, check_returned};

/// Maximum length of a name that all providers accept.
const MAX_LENGTH: usize = 64;

/// The options of `#[tool(..)]`.
#[derive(Default)]
struct Options {
    name: Option<LitStr>,
    repository: Option<LitStr>,
    read_only: bool,
    krate: Option<Path>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Options> {
        const FORM: &str = "expected `name = \"..\"`, `repo = \"..\"`, `read_only` or `crate = path`";
        let mut options = Options::default();
        while !input.is_empty() {
            if input.peek(Token![crate]) {
                options.krate = Some(crate_option(input)?);
            } else {
                let word: Ident = input
                    .parse()
                    .map_err(|error| syn::Error::new(error.span(), FORM))?;
                match word.to_string().as_str() {
                    "name" => options.name = Some(text(input, "run-tests")?),
                    "repo" => options.repository = Some(text(input, "backend")?),
                    "read_only" => options.read_only = true,
                    _ => return Err(syn::Error::new(word.span(), FORM)),
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

/// Parses `= "word"`, where the word is a name.
fn text(input: ParseStream<'_>, example: &str) -> syn::Result<LitStr> {
    input.parse::<Token![=]>()?;
    let text: LitStr = input.parse()?;
    let word = text.value();
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if word.is_empty() || word.len() > MAX_LENGTH || !word.chars().all(legal) {
        let error =
            format!("a name is made of up to {MAX_LENGTH} letters, digits, `-` and `_`, such as `{example}`");
        return Err(syn::Error::new(text.span(), error));
    }
    Ok(text)
}

/// A function whose body is not parsed.
struct Function {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    signature: Signature,
    body: TokenStream,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Function> {
        Ok(Function {
            attributes: input.call(Attribute::parse_outer)?,
            visibility: input.parse()?,
            signature: input.parse()?,
            body: input.parse()?,
        })
    }
}

/// Expands `#[tool]` on a function.
pub(crate) fn function(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut function: Function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(_) => {
            let error =
                syn::Error::new(Span::call_site(), "`#[tool]` stands on a function").to_compile_error();
            return quote! { #item #error };
        }
    };
    let arguments = Argument::all(&mut function.signature);
    let signed = arguments.and_then(|arguments| {
        check(&function.signature)?;
        Ok((
            arguments,
            syn::parse2::<Options>(options)?,
            description(&function)?,
        ))
    });
    let Function {
        attributes,
        visibility,
        signature,
        body,
    } = &function;
    let item = quote! { #(#attributes)* #visibility #signature #body };
    let name = &signature.ident;
    match signed {
        Ok((arguments, options, description)) => {
            let tool = expand(&function, &arguments, &options, &description);
            quote! { #item #tool }
        }
        Err(error) => {
            // Generate the type anyway, so that a set that names it causes no second error; an `impl` cannot contain
            // it.
            let errors = error.to_compile_error();
            let ty = signature
                .receiver()
                .is_none()
                .then(|| quote! { #[allow(non_camel_case_types)] #visibility struct #name {} });
            quote! { #item #errors #ty }
        }
    }
}

fn expand(function: &Function, arguments: &[Argument], options: &Options, description: &str) -> TokenStream {
    let (name, visibility) = (&function.signature.ident, &function.visibility);
    let krate = krate::path(options.krate.as_ref());
    let agents = quote!(#krate::__private::agents);
    let written = match &options.name {
        Some(given) => given.value(),
        None => plain(name),
    };
    let (configured, model) = (written.replace('_', "-"), written.replace('-', "_"));
    let repository = options.repository.as_ref().map(LitStr::value);
    let (full, repository) = match &repository {
        Some(repository) => (
            format!("{}:{configured}", repository.replace('_', "-")),
            quote!(::core::option::Option::Some(#repository)),
        ),
        None => (configured, quote!(::core::option::Option::None)),
    };
    let (mut constants, mut parameters, mut reads, mut passed) = (
        TokenStream::new(),
        TokenStream::new(),
        TokenStream::new(),
        Vec::new(),
    );
    for (at, argument) in arguments.iter().enumerate() {
        let Argument::Value {
            name,
            description,
            ty,
        } = argument
        else {
            passed.push(quote!(context));
            continue;
        };
        let (constant, value) = (format_ident!("__A{at}"), format_ident!("argument{at}"));
        // One constant for each type, so that an invalid argument type is reported once, at its own location.
        let span = krate::at(krate::ends(ty).1);
        let call = quote_spanned!(span=> #agents::argument::<#ty>());
        constants.extend(quote!(const #constant: #agents::Argument<#ty> = #call;));
        parameters.extend(quote!(let parameters = (#constant.add)(parameters, #name, #description);));
        reads.extend(quote!(let #value = (#constant.take)(&mut arguments, #name)?;));
        passed.push(quote!(#value));
    }
    let span = krate::at(name.span());
    let run = if function.signature.asyncness.is_some() {
        quote_spanned!(span=> #name(#(#passed),*).await)
    } else {
        // Blocking work must not hold up the threads of other tasks.
        quote_spanned!(span=> #krate::__private::blocking(move || #name(#(#passed),*)).await)
    };
    let returned = match &function.signature.output {
        ReturnType::Default => krate::at(name.span()),
        ReturnType::Type(_, ty) => krate::at(krate::ends(ty).1),
    };
    let answer = if is_result(&function.signature.output) {
        quote_spanned! {returned=>
            match #run {
                ::core::result::Result::Ok(value) => #agents::output(&value),
                ::core::result::Result::Err(error) => ::core::result::Result::Err(#agents::error(error)),
            }
        }
    } else {
        quote_spanned! {returned=>
            let value = #run;
            #agents::output(&value)
        }
    };
    let read_only = options.read_only;
    let doc = format!("The tool `{full}` as a set of tools.");
    quote! {
        #[doc = #doc]
        #[allow(non_camel_case_types)]
        #visibility struct #name {}

        const _: () = {
            #constants

            #[automatically_derived]
            impl ::core::default::Default for #name {
                fn default() -> Self {
                    Self {}
                }
            }

            #[automatically_derived]
            impl #agents::ToolSet for #name {
                const NAMES: #agents::ToolNames = #agents::ToolNames::List(&[#full]);

                fn register(self, registry: &mut #agents::ToolRegistry) {
                    let parameters = <#agents::Parameters as ::core::default::Default>::default();
                    #parameters
                    #agents::register(
                        registry,
                        #model,
                        #description,
                        parameters,
                        #repository,
                        #read_only,
                        |mut arguments, context| {
                            let _ = (&mut arguments, &context);
                            ::std::boxed::Box::pin(async move {
                                #reads
                                #answer
                            })
                        },
                    );
                }
            }
        };
    }
}

/// An argument of the function.
enum Argument {
    /// A value that the model provides.
    Value {
        name: String,
        description: String,
        ty: Box<Type>,
    },
    /// The context of the call.
    Context,
}

impl Argument {
    /// Returns the arguments of a function and removes their doc comments, which rustc does not allow there.
    fn all(signature: &mut Signature) -> syn::Result<Vec<Argument>> {
        let mut diagnostics = Errors::default();
        let mut arguments: Vec<Argument> = Vec::new();
        for argument in &mut signature.inputs {
            let typed = match argument {
                FnArg::Receiver(receiver) => {
                    diagnostics.add(&receiver, "a tool is a free function; it has no `self`");
                    continue;
                }
                FnArg::Typed(typed) => typed,
            };
            let description = doc(&typed.attrs);
            typed.attrs.retain(|attribute| !attribute.path().is_ident("doc"));
            let ident = match &*typed.pat {
                Pat::Ident(pattern) if pattern.subpat.is_none() && pattern.by_ref.is_none() => &pattern.ident,
                pattern => {
                    diagnostics.add(
                        pattern,
                        "an argument of a tool has a name, by which the model calls it",
                    );
                    continue;
                }
            };
            let ty = &typed.ty;
            if !check_argument(ty, Purpose::Tool, &mut diagnostics) {
                continue;
            }
            if !is_named(ty, "ToolContext") {
                arguments.push(Argument::Value {
                    name: plain(ident),
                    description,
                    ty: ty.clone(),
                });
            } else if arguments
                .iter()
                .any(|argument| matches!(argument, Argument::Context))
            {
                diagnostics.add(ty, "a tool takes one `ToolContext`");
            } else {
                arguments.push(Argument::Context);
            }
        }
        diagnostics.into_result(arguments)
    }
}

/// Reports signatures that cannot be a tool, whatever their arguments.
fn check(signature: &Signature) -> syn::Result<()> {
    let mut diagnostics = Errors::default();
    check_call(signature, Purpose::Tool, &mut diagnostics);
    check_returned(signature, Purpose::Tool, &mut diagnostics);
    diagnostics.into_result(())
}

fn description(function: &Function) -> syn::Result<String> {
    let text = doc(&function.attributes);
    if text.is_empty() {
        Err(syn::Error::new(
            function.signature.ident.span(),
            "a model chooses a tool by what it does; say so in a doc comment: `/// Runs the tests.`",
        ))
    } else {
        Ok(text)
    }
}

/// Returns the text of a doc comment, without the leading space of each line.
fn doc(attributes: &[Attribute]) -> String {
    let mut text = String::new();
    for attribute in attributes {
        let Meta::NameValue(meta) = &attribute.meta else {
            continue;
        };
        let Expr::Lit(ExprLit {
            lit: Lit::Str(line), ..
        }) = &meta.value
        else {
            continue;
        };
        if meta.path.is_ident("doc") {
            text.push_str(line.value().trim_end());
            text.push('\n');
        }
    }
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    lines.join("\n").trim().to_owned()
}

fn plain(ident: &Ident) -> String {
    let written = ident.to_string();
    written.strip_prefix("r#").unwrap_or(&written).to_owned()
}

fn is_named(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .is_some_and(|segment| segment.ident == name),
        _ => false,
    }
}

/// Returns whether a function returns a `Result`, by whatever path; an error of a tool is not a value for the model.
fn is_result(output: &ReturnType) -> bool {
    match output {
        ReturnType::Default => false,
        ReturnType::Type(_, ty) => is_named(ty, "Result"),
    }
}
