//! The tables of the kinds of events, from the source of their type.

use std::fmt::Write as _;

use syn::{Attribute, Expr, Field, Fields, Item, Lit, Meta, Type};

/// Returns a section for each kind of event. The sources define `EventKind`, and the types whose fields its kinds share.
pub(crate) fn page(sources: &[String]) -> String {
    let files: Vec<syn::File> = sources
        .iter()
        .map(|source| syn::parse_file(source).unwrap())
        .collect();
    let Some(Item::Enum(kinds)) = find(&files, "EventKind") else {
        panic!("no `EventKind`");
    };
    let mut page = String::new();
    for kind in &kinds.variants {
        write!(page, "\n## {}\n\n{}\n", kind.ident, doc(&kind.attrs)).unwrap();
        let Fields::Named(fields) = &kind.fields else {
            continue;
        };
        page.push_str("\n| Field | Type | Content |\n|---|---|---|\n");
        for field in &fields.named {
            rows(&mut page, &files, field);
        }
    }
    page
}

/// Writes the row of a field, or those of the fields that it stands for.
fn rows(page: &mut String, files: &[syn::File], field: &Field) {
    let serde = serde(&field.attrs);
    if serde.split(", ").any(|word| word == "skip") {
        return;
    }
    if !serde.contains("flatten") {
        return row(page, field);
    }
    let name = inner_name(&field.ty);
    let Some(Item::Struct(shared)) = find(files, &name) else {
        panic!("no `{name}`");
    };
    for field in &shared.fields {
        rows(page, files, field);
    }
}

/// Returns the name of a type, or of that which a `Box` contains.
fn inner_name(ty: &Type) -> String {
    let Type::Path(path) = ty else {
        return text_of(ty);
    };
    let last = path.path.segments.last().unwrap();
    if let syn::PathArguments::AngleBracketed(arguments) = &last.arguments
        && let Some(syn::GenericArgument::Type(inner)) = arguments.args.first()
    {
        return inner_name(inner);
    }
    last.ident.to_string()
}

fn find<'a>(files: &'a [syn::File], name: &str) -> Option<&'a Item> {
    files.iter().flat_map(|file| &file.items).find(|item| match item {
        Item::Enum(item) => item.ident == name,
        Item::Struct(item) => item.ident == name,
        _ => false,
    })
}

fn row(page: &mut String, field: &Field) {
    let serde = serde(&field.attrs);
    let renamed = serde
        .split("rename = \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let own = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
    let name = renamed.unwrap_or(&own);
    let mut kind = form(&field.ty, &serde);
    if serde.contains("skip_serializing_if") {
        kind.push_str(", optional");
    }
    let text = doc(&field.attrs);
    // The name of the field in JSON says it.
    let text = text
        .replace("; serialized as `duration_ms`", "")
        .replace("; serialized as `delay_ms`", "");
    writeln!(page, "| `{name}` | {kind} | {} |", super::cell(&text)).unwrap();
}

/// Returns the JSON form of a type.
fn form(ty: &Type, serde: &str) -> String {
    if serde.contains("millis") {
        return "milliseconds".to_owned();
    }
    let Type::Path(path) = ty else {
        return text_of(ty);
    };
    let last = path.path.segments.last().unwrap();
    let inner = match &last.arguments {
        syn::PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().find_map(|argument| match argument {
                syn::GenericArgument::Type(ty) => Some(form(ty, serde)),
                _ => None,
            })
        }
        _ => None,
    };
    let name = last.ident.to_string();
    match (name.as_str(), inner) {
        ("Option" | "Box", Some(inner)) => inner,
        ("Vec", Some(inner)) => format!("list of {inner}"),
        ("String" | "RunId" | "NodeName", _) => "text".to_owned(),
        ("bool", _) => "`true` or `false`".to_owned(),
        ("u8" | "u32" | "u64" | "usize" | "i32" | "i64", _) => "number".to_owned(),
        ("Value", _) => "JSON".to_owned(),
        _ => format!("`{name}`"),
    }
}

fn text_of(ty: &Type) -> String {
    match ty {
        Type::Path(path) => path
            .path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect::<Vec<_>>()
            .join("::"),
        _ => "value".to_owned(),
    }
}

/// Returns the tokens of the `serde` attributes, as text.
fn serde(attributes: &[Attribute]) -> String {
    let lists = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("serde") => Some(list.tokens.to_string()),
        _ => None,
    });
    lists.collect::<Vec<_>>().join(", ")
}

/// Returns the first paragraph of a doc comment.
fn doc(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    let lines: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}
