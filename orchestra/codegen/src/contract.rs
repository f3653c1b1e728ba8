//! The declared values of a pipeline as Rust types: `Inputs`, `Results`, `keys`, and `values` for words.

use std::collections::BTreeMap;

use orchestra_graph::table::Pipeline;
use orchestra_graph::{Contract, Field, ValueType};

use crate::code::Code;
use crate::names::{NameScope, pascal, screaming, snake};

/// Writes the types. `may_be_missing` returns whether a value may be missing when a run has succeeded.
pub(crate) fn write(code: &mut Code, pipeline: &Pipeline, may_be_missing: &dyn Fn(&str) -> bool) {
    let contract = Contract::from_pipeline(pipeline);
    if contract.inputs().iter().all(|input| input.optional) {
        code.push("impl __orchestra::__private::StartsWithoutInputs for Mark{}");
    }
    if contract.is_empty() {
        return;
    }
    let mut scope = NameScope::default();
    let words: BTreeMap<&str, String> = contract
        .keys()
        .filter(|(_, value_type)| words_of(value_type).is_some())
        .map(|(key, _)| (key, scope.claim(pascal(key))))
        .collect();
    if !words.is_empty() {
        code.doc("The words that declared values may be.");
        code.push("pub mod values{");
        for (key, value_type) in contract.keys() {
            if let (Some(name), Some(list)) = (words.get(key), words_of(value_type)) {
                words_enum(code, key, name, list);
            }
        }
        code.push("}");
    }
    let type_of =
        |key: &str, value_type: &ValueType| rust_type(value_type, words.get(key).map(String::as_str));
    code.doc("The declared keys of the context, with the types of their values.");
    code.push("pub mod keys{use super::__orchestra;");
    if !words.is_empty() {
        code.push("use super::values;");
    }
    let mut scope = NameScope::default();
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    for (key, value_type) in contract.keys() {
        let name = scope.claim(screaming(key));
        code.doc(&format!("`{key}: {value_type}`"));
        let ty = type_of(key, value_type);
        code.push("pub const ")
            .push(&name)
            .push(":__orchestra::engine::DeclaredKey<")
            .push(&ty);
        code.push(">=__orchestra::engine::DeclaredKey::new(")
            .string(key)
            .push(");");
        names.insert(key, name);
    }
    code.push("}");
    if !contract.inputs().is_empty() {
        inputs(code, contract.inputs(), &type_of);
    }
    results(code, &contract, &names, &type_of, may_be_missing);
}

/// Returns the words of a type, also of the items of a list.
fn words_of(value_type: &ValueType) -> Option<&[String]> {
    match value_type {
        ValueType::Words(words) => Some(words),
        ValueType::List(item) => words_of(item),
        _ => None,
    }
}

/// Returns the Rust type of a value.
fn rust_type(value_type: &ValueType, words: Option<&str>) -> String {
    match value_type {
        ValueType::Text => "::std::string::String".to_owned(),
        ValueType::Integer => "i64".to_owned(),
        ValueType::Number => "f64".to_owned(),
        ValueType::Boolean => "bool".to_owned(),
        ValueType::Words(_) => format!("values::{}", words.unwrap_or_default()),
        ValueType::List(item) => format!("::std::vec::Vec<{}>", rust_type(item, words)),
        ValueType::Object => "__orchestra::__private::JsonObject".to_owned(),
        _ => "__orchestra::__private::JsonValue".to_owned(),
    }
}

fn words_enum(code: &mut Code, key: &str, name: &str, words: &[String]) {
    let mut scope = NameScope::default();
    scope.claim("ALL".to_owned());
    let variants: Vec<String> = words.iter().map(|word| scope.claim(pascal(word))).collect();
    code.doc(&format!("The words of `{key}`."));
    code.push("#[::core::prelude::v1::derive(::core::clone::Clone,::core::marker::Copy,::core::fmt::Debug,");
    code.push("::core::cmp::PartialEq,::core::cmp::Eq,::core::hash::Hash)]pub enum ")
        .push(name)
        .push("{");
    for (variant, word) in variants.iter().zip(words) {
        code.doc(&format!("`{word}`"));
        code.push(variant).push(",");
    }
    code.push("}impl ").push(name).push("{");
    code.doc("All words, in the order of the file.");
    code.push("pub const ALL:&'static[").push(name).push("]=&[");
    for variant in &variants {
        code.push(name).push("::").push(variant).push(",");
    }
    code.push("];");
    code.doc("The word as the pipeline writes it.");
    code.push("pub const fn as_str(self)->&'static str{match self{");
    for (variant, word) in variants.iter().zip(words) {
        code.push(name)
            .push("::")
            .push(variant)
            .push("=>")
            .string(word)
            .push(",");
    }
    code.push("}}}impl super::__orchestra::engine::ContextValue for ")
        .push(name);
    code.push("{fn into_value(self)->super::__orchestra::__private::JsonValue{self.as_str().into()}");
    code.push("fn from_value(value:&super::__orchestra::__private::JsonValue)->::core::option::Option<Self>");
    code.push("{let word=value.as_str()?;Self::ALL.iter().copied().find(|known|known.as_str()==word)}}");
}

fn optional(ty: &str, is_optional: bool) -> String {
    if is_optional {
        format!("::core::option::Option<{ty}>")
    } else {
        ty.to_owned()
    }
}

fn inputs(code: &mut Code, inputs: &[Field], type_of: &dyn Fn(&str, &ValueType) -> String) {
    let mut scope = NameScope::default();
    let fields: Vec<(String, &Field)> = inputs
        .iter()
        .map(|input| (scope.claim(snake(&input.key)), input))
        .collect();
    code.doc("The inputs of the pipeline: `engine.start(PIPELINE.with(Inputs { .. }), handlers)`.");
    code.push(
        "#[::core::prelude::v1::derive(::core::clone::Clone,::core::fmt::Debug,::core::cmp::PartialEq)]",
    );
    code.push("pub struct Inputs{");
    for (name, input) in &fields {
        code.doc(&format!("`{input}`"));
        let ty = optional(&type_of(&input.key, &input.value_type), input.optional);
        code.push("pub ").push(name).push(": ").push(&ty).push(",");
    }
    code.push("}impl __orchestra::engine::DeclaredInputs<Mark> for Inputs{fn into_values(self)->");
    code.push("::std::vec::Vec<(&'static str,__orchestra::__private::JsonValue)>{");
    code.push("use __orchestra::engine::ContextValue as _;let mut values=::std::vec::Vec::new();");
    for (name, input) in &fields {
        if input.optional {
            code.push("if let ::core::option::Option::Some(value)=self.")
                .push(name);
            code.push("{values.push((")
                .string(&input.key)
                .push(",value.into_value()));}");
        } else {
            code.push("values.push((")
                .string(&input.key)
                .push(",self.")
                .push(name)
                .push(".into_value()));");
        }
    }
    code.push("values}}");
}

fn results(
    code: &mut Code,
    contract: &Contract,
    names: &BTreeMap<&str, String>,
    type_of: &dyn Fn(&str, &ValueType) -> String,
    may_be_missing: &dyn Fn(&str) -> bool,
) {
    let mut scope = NameScope::default();
    code.doc(
        "The declared values after a run that succeeded. Those that not every such run sets are optional.",
    );
    code.push(
        "#[::core::prelude::v1::derive(::core::clone::Clone,::core::fmt::Debug,::core::cmp::PartialEq)]",
    );
    code.push("pub struct Results{");
    let mut fields = Vec::new();
    for (key, value_type) in contract.keys() {
        let (name, missing) = (scope.claim(snake(key)), may_be_missing(key));
        code.doc(&format!("`{key}: {value_type}`"));
        let ty = optional(&type_of(key, value_type), missing);
        code.push("pub ").push(&name).push(": ").push(&ty).push(",");
        fields.push((name, key, missing));
    }
    code.push("}impl Results{");
    code.doc("Reads the values from the final context of a run. Returns `None` if one that every success sets is missing.");
    code.push("pub fn from_context(context:&__orchestra::engine::Context)->::core::option::Option<Results>{");
    code.push("::core::option::Option::Some(Results{");
    for (name, key, missing) in fields {
        let constant = names.get(key).map(String::as_str).unwrap_or_default();
        code.push(&name)
            .push(":keys::")
            .push(constant)
            .push(".get(context)");
        code.push(if missing { "," } else { "?," });
    }
    code.push("})}}");
}
