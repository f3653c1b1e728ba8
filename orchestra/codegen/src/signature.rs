//! The rules for the signatures of functions that become handlers or tools.

use std::fmt::Display;

use quote::ToTokens;
use syn::{ReturnType, Safety, Signature, Type};

/// The purpose of a marked function.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Handler,
    Tool,
}

impl Purpose {
    const fn noun(self) -> &'static str {
        match self {
            Purpose::Handler => "handler",
            Purpose::Tool => "tool",
        }
    }

    const fn caller(self) -> &'static str {
        match self {
            Purpose::Handler => "the engine",
            Purpose::Tool => "a model",
        }
    }
}

/// A collector of errors, so that all of them are reported.
#[derive(Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    pub(crate) fn add(&mut self, at: impl ToTokens, message: impl Display) {
        self.push(syn::Error::new_spanned(at, message));
    }

    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn into_result<T>(self, value: T) -> syn::Result<T> {
        self.0.map_or(Ok(value), Err)
    }
}

/// Reports a function that needs more than its arguments to be called.
pub(crate) fn check_call(signature: &Signature, purpose: Purpose, errors: &mut Errors) {
    let (noun, caller) = (purpose.noun(), purpose.caller());
    if !signature.generics.params.is_empty() {
        let error = format!("a {noun} cannot be generic, because nothing would say for which types");
        errors.add(&signature.generics, error);
    }
    if let Safety::Unsafe(marked) = &signature.safety {
        errors.add(
            marked,
            format!("a {noun} cannot be unsafe, because {caller} calls it"),
        );
    }
    if let Some(variadic) = &signature.variadic {
        errors.add(variadic, format!("a {noun} has a fixed number of arguments"));
    }
}

/// Reports a type of an argument that is borrowed or not named. Returns whether the type is valid.
pub(crate) fn check_argument(ty: &Type, purpose: Purpose, errors: &mut Errors) -> bool {
    match ty {
        Type::Reference(reference) => {
            let noun = purpose.noun();
            errors.add(
                reference,
                format!("arguments of a {noun} are owned; remove the `&`"),
            );
            false
        }
        Type::ImplTrait(ty) => {
            errors.add(ty, "name the type of the argument; `impl` would leave it open");
            false
        }
        _ => true,
    }
}

/// Reports a returned type that is not named.
pub(crate) fn check_returned(signature: &Signature, purpose: Purpose, errors: &mut Errors) {
    if let ReturnType::Type(_, ty) = &signature.output
        && let Type::ImplTrait(ty) = &**ty
    {
        let noun = purpose.noun();
        errors.add(
            ty,
            format!("name the type that the {noun} returns; `impl` would leave it open"),
        );
    }
}
