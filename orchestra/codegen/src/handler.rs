//! `#[handler]` and `#[handlers]`: functions and methods become handlers; the user's code stays unchanged.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::{
    Attribute, FnArg, ImplItem, ItemImpl, LitStr, Path, ReceiverKind, ReturnType, Signature, Token, Type,
    Visibility,
};

use crate::invocation::crate_option;
use crate::krate;
use crate::signature::{Errors, Purpose, check_argument, check_call, check_returned};

/// The arguments of `#[handler(..)]`: `"kind"` and `crate = path`.
struct Arguments {
    kind: LitStr,
    krate: Option<Path>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Arguments> {
        const FORM: &str = "expected the handler kind in double quotes: `#[handler(\"KIND\")]`";
        let kind: LitStr = input
            .parse()
            .map_err(|error| syn::Error::new(error.span(), FORM))?;
        if !kind.value().split('.').all(orchestra_graph::is_identifier) {
            return Err(syn::Error::new(
                kind.span(),
                "a handler kind is made of letters, digits and `_`, in parts joined by dots, such as `lint.run`",
            ));
        }
        let mut krate = None;
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
            if !input.is_empty() {
                krate = Some(crate_option(input)?);
            }
        }
        Ok(Arguments { kind, krate })
    }
}

/// The argument of `#[handlers(..)]`: `crate = path`.
struct SetArguments {
    krate: Option<Path>,
}

impl Parse for SetArguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<SetArguments> {
        let krate = if input.is_empty() {
            None
        } else {
            Some(crate_option(input)?)
        };
        if input.is_empty() {
            Ok(SetArguments { krate })
        } else {
            Err(input.error("expected nothing more"))
        }
    }
}

/// The head of a function; the body is not parsed.
struct Function {
    visibility: Visibility,
    signature: Signature,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Function> {
        input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let signature = input.parse()?;
        input.parse::<TokenStream>()?;
        Ok(Function {
            visibility,
            signature,
        })
    }
}

/// Expands `#[handler("kind")]` on a function.
pub(crate) fn function(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function: Function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(_) => {
            let error =
                "`#[handler]` stands on a function, or on a method inside an `impl` block with `#[handlers]`";
            return with_error(item, syn::Error::new(Span::call_site(), error));
        }
    };
    let arguments: Arguments = match syn::parse2(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return with_error(item, error),
    };
    let signature = match HandlerSignature::new(&function.signature, false) {
        Ok(signature) => signature,
        Err(error) => {
            // Generate the type anyway, so that a pipeline bound to it causes no second error; an `impl` cannot contain
            // it.
            let method = function.signature.receiver().is_some();
            let errors = error.to_compile_error();
            if method {
                return quote! { #item #errors };
            }
            let name = &function.signature.ident;
            let visibility = &function.visibility;
            return quote! { #item #errors #[allow(non_camel_case_types)] #visibility struct #name {} };
        }
    };
    let name = &function.signature.ident;
    let visibility = &function.visibility;
    let krate = krate::path(arguments.krate.as_ref());
    let handler = Handler {
        number: 0,
        kind: &arguments.kind,
        call: quote!(#name),
        span: name.span(),
        signature: &signature,
        krate: &krate,
    };
    let (spec, constants, add) = (handler.name("S"), handler.constants(), handler.add());
    let doc = format!(
        "The handler of `{}` nodes as a set of handlers.",
        arguments.kind.value()
    );
    quote! {
        #item

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
            impl #krate::__private::HandlerSet for #name {
                const KINDS: #krate::__private::Kinds = #krate::__private::Kinds::List(&[#spec]);

                fn register(self, registry: &mut #krate::__private::Registry) {
                    let state = ::std::sync::Arc::new(self);
                    #add
                }
            }
        };
    }
}

/// Expands `#[handlers]` on an `impl` block.
pub(crate) fn set(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut block: ItemImpl = match syn::parse2(item.clone()) {
        Ok(block) => block,
        Err(_) => {
            let error = "`#[handlers]` stands on an `impl` block: `#[handlers] impl App { .. }`";
            return with_error(item, syn::Error::new(Span::call_site(), error));
        }
    };
    let arguments: SetArguments = match syn::parse2(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return with_error(item, error),
    };
    let krate = krate::path(arguments.krate.as_ref());
    let mut diagnostics = Errors::default();
    if let Some((of, _)) = &block.trait_ {
        diagnostics.add(
            of,
            "`#[handlers]` stands on an `impl` block of a type, not of a trait",
        );
    }
    if !block.generics.params.is_empty() {
        let error =
            "a set of handlers cannot be generic, because its kinds are constants; write a concrete type";
        diagnostics.add(&block.generics, error);
    }
    let mut methods = Vec::new();
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else {
            continue;
        };
        let Some(at) = method
            .attrs
            .iter()
            .position(|attribute| is_handler(attribute.path()))
        else {
            continue;
        };
        let attribute = method.attrs.remove(at);
        if let Some(second) = method.attrs.iter().find(|attribute| is_handler(attribute.path())) {
            diagnostics.add(second, "a method handles one kind; write a second method");
        }
        match (
            attribute.parse_args::<Arguments>(),
            HandlerSignature::new(&method.sig, true),
        ) {
            (Ok(arguments), Ok(signature)) => methods.push((method.sig.ident.clone(), arguments, signature)),
            (arguments, signature) => {
                for error in arguments.err().into_iter().chain(signature.err()) {
                    diagnostics.push(error);
                }
            }
        }
    }
    for (at, (_, arguments, _)) in methods.iter().enumerate() {
        if methods[..at]
            .iter()
            .any(|(_, before, _)| before.kind.value() == arguments.kind.value())
        {
            let error = format!("two methods handle `{}`", arguments.kind.value());
            diagnostics.push(syn::Error::new(arguments.kind.span(), error));
        }
    }
    let ty = &block.self_ty;
    if diagnostics.is_empty() && methods.is_empty() {
        let error = "no method of this block is marked with `#[handler(\"KIND\")]`";
        diagnostics.add(ty, error);
    }
    let errors = diagnostics.into_result(()).err();
    let errors = errors.map(|errors| errors.to_compile_error());
    let handlers: Vec<Handler<'_>> = methods
        .iter()
        .enumerate()
        .map(|(number, (name, arguments, signature))| Handler {
            number,
            kind: &arguments.kind,
            call: quote!(<#ty>::#name),
            span: name.span(),
            signature,
            krate: &krate,
        })
        .collect();
    let specs = handlers.iter().map(|handler| handler.name("S"));
    let constants = handlers.iter().map(Handler::constants);
    let adds = handlers.iter().map(Handler::add);
    quote! {
        #block
        #errors

        const _: () = {
            #(#constants)*

            #[automatically_derived]
            impl #krate::__private::HandlerSet for #ty {
                const KINDS: #krate::__private::Kinds = #krate::__private::Kinds::List(&[#(#specs),*]);

                fn register(self, registry: &mut #krate::__private::Registry) {
                    let state = ::std::sync::Arc::new(self);
                    #(#adds)*
                }
            }
        };
    }
}

fn is_handler(path: &Path) -> bool {
    path.segments
        .last()
        .is_some_and(|segment| segment.ident == "handler")
}

/// Returns the item unchanged, followed by an error.
fn with_error(item: TokenStream, error: syn::Error) -> TokenStream {
    let error = error.to_compile_error();
    quote! { #item #error }
}

/// The relevant parts of a handler's signature.
struct HandlerSignature {
    asynchronous: bool,
    method: bool,
    arguments: Vec<Type>,
    returned: Type,
}

impl HandlerSignature {
    fn new(signature: &Signature, method: bool) -> syn::Result<HandlerSignature> {
        let mut diagnostics = Errors::default();
        check_call(signature, Purpose::Handler, &mut diagnostics);
        let mut arguments = Vec::new();
        for (at, argument) in signature.inputs.iter().enumerate() {
            match argument {
                FnArg::Receiver(receiver) if !method => diagnostics.add(
                    receiver,
                    "a method becomes a handler when its `impl` block is marked with `#[handlers]`",
                ),
                FnArg::Receiver(receiver) => {
                    let plain = matches!(receiver.kind, ReceiverKind::Reference(_, _, None));
                    if !plain {
                        diagnostics.add(
                            receiver,
                            "a handler takes `&self`, because stages run at the same time; keep what changes in a lock",
                        );
                    }
                }
                FnArg::Typed(typed) => {
                    if method && at == 0 {
                        diagnostics.add(
                            typed,
                            "a handler of a set takes `&self` first; without it, mark a free function",
                        );
                    }
                    if check_argument(&typed.ty, Purpose::Handler, &mut diagnostics) {
                        arguments.push((*typed.ty).clone());
                    }
                }
            }
        }
        if method && signature.inputs.is_empty() {
            let error = "a handler of a set takes `&self` first; without it, mark a free function";
            diagnostics.add(&signature.ident, error);
        }
        check_returned(signature, Purpose::Handler, &mut diagnostics);
        let returned = match &signature.output {
            ReturnType::Default => syn::parse_quote!(()),
            ReturnType::Type(_, ty) => (**ty).clone(),
        };
        diagnostics.into_result(HandlerSignature {
            asynchronous: signature.asyncness.is_some(),
            method,
            arguments,
            returned,
        })
    }
}

/// The parts from which the code of a handler is generated.
struct Handler<'h> {
    /// The number of the handler in its set, which makes the names of its constants unique.
    number: usize,
    kind: &'h LitStr,
    call: TokenStream,
    span: Span,
    signature: &'h HandlerSignature,
    krate: &'h TokenStream,
}

impl Handler<'_> {
    fn name(&self, what: &str) -> Ident {
        format_ident!("__{what}{}", self.number)
    }

    fn argument(&self, at: usize) -> Ident {
        format_ident!("__A{}_{at}", self.number)
    }

    /// Returns one constant for each type of the signature, so that an invalid type is reported once, and the
    /// specification.
    fn constants(&self) -> TokenStream {
        let krate = self.krate;
        let mut constants = TokenStream::new();
        let mut fields = Vec::new();
        for (at, ty) in self.signature.arguments.iter().enumerate() {
            let name = self.argument(at);
            let span = krate::at(krate::ends(ty).1);
            let call = quote_spanned!(span=> #krate::__private::argument::<#ty>());
            constants.extend(quote!(const #name: #krate::__private::Argument<#ty> = #call;));
            fields.push(name);
        }
        let (spec, returned) = (self.name("S"), self.name("R"));
        let (kind, ty) = (self.kind, &self.signature.returned);
        let span = krate::at(krate::ends(ty).1);
        let call = quote_spanned!(span=> #krate::__private::returned::<#ty>());
        quote! {
            #constants
            const #returned: #krate::__private::Returned<#ty> = #call;
            const #spec: #krate::__private::KindSpec = #krate::__private::KindSpec {
                kind: #kind,
                fields: &[#(#fields.fields),*],
                words: #returned.words,
            };
        }
    }

    /// Returns the statement that adds the handler to `registry`, with `state` shared.
    fn add(&self) -> TokenStream {
        let (krate, call) = (self.krate, &self.call);
        let (spec, returned) = (self.name("S"), self.name("R"));
        let mut reads = TokenStream::new();
        let mut names = Vec::new();
        for at in 0..self.signature.arguments.len() {
            let (name, constant) = (format_ident!("argument{at}"), self.argument(at));
            reads.extend(quote! {
                let #name = match #constant.read(&stage) {
                    ::core::result::Result::Ok(value) => value,
                    ::core::result::Result::Err(end) => return *end,
                };
            });
            names.push(name);
        }
        let state = self.signature.method.then(|| quote!(&*state,));
        let span = krate::at(self.span);
        let run = if self.signature.asynchronous {
            quote_spanned!(span=> #call(#state #(#names),*).await)
        } else {
            // Blocking work must not hold up the thread of the engine.
            quote_spanned!(span=> #krate::__private::blocking(move || #call(#state #(#names),*)).await)
        };
        let shared =
            (!self.signature.asynchronous).then(|| quote!(let state = ::core::clone::Clone::clone(state);));
        quote_spanned! {span=>
            #krate::__private::add(registry, #spec, &state, |state, stage| {
                let _ = state;
                ::std::boxed::Box::pin(async move {
                    #reads
                    #shared
                    (#returned.end)(#run)
                })
            });
        }
    }
}
