//! The tables of a JSON schema.

use std::fmt::Write as _;

use serde_json::Value;

/// Returns a table for the root of a schema and one for each of its definitions that has keys or words.
pub(crate) fn page(schema: &Value) -> String {
    let mut page = String::from("\n## orchestra.yaml\n");
    table(&mut page, schema);
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        write!(page, "\n## {name}\n").unwrap();
        if let Some(text) = definition["description"].as_str() {
            write!(page, "\n{text}\n").unwrap();
        }
        table(&mut page, definition);
        words(&mut page, definition);
    }
    page
}

fn table(page: &mut String, definition: &Value) {
    if let Some(keys) = definition["properties"].as_object() {
        page.push_str("\n| Key | Value | Meaning |\n|---|---|---|\n");
        for (key, value) in keys {
            let text = super::cell(value["description"].as_str().unwrap_or_default());
            writeln!(page, "| `{key}` | {} | {text} |", form(value)).unwrap();
        }
    }
    if let Some(others) = definition
        .get("additionalProperties")
        .filter(|others| others.is_object())
    {
        write!(
            page,
            "\nAny other key is a name, with the value {}.\n",
            form(others)
        )
        .unwrap();
    }
}

fn words(page: &mut String, definition: &Value) {
    let choices = definition["oneOf"].as_array().or(definition["anyOf"].as_array());
    let Some(choices) = choices else {
        if let Some(words) = definition["enum"].as_array() {
            write!(page, "\nOne of {}.\n", list(words)).unwrap();
        } else if definition.get("properties").is_none() && definition.get("additionalProperties").is_none() {
            write!(page, "\nThe value is {}.\n", form(definition)).unwrap();
        }
        return;
    };
    page.push_str("\n| Value | Meaning |\n|---|---|\n");
    for choice in choices {
        let text = super::cell(choice["description"].as_str().unwrap_or_default());
        writeln!(page, "| {} | {text} |", form(choice)).unwrap();
    }
}

/// Returns the form of a value, such as `list of text`.
fn form(value: &Value) -> String {
    if let Some(target) = value["$ref"].as_str() {
        let name = target.rsplit('/').next().unwrap();
        return format!("[{name}](#{})", orchestra_book_tests::slug(name));
    }
    if let Some(word) = value.get("const") {
        return format!(
            "`{}`",
            word.as_str().map_or_else(|| word.to_string(), str::to_owned)
        );
    }
    if let Some(words) = value["enum"].as_array() {
        return list(words);
    }
    let several = value["anyOf"].as_array().or(value["oneOf"].as_array());
    if let Some(several) = several {
        let forms: Vec<String> = several
            .iter()
            .filter(|form| form["type"] != "null")
            .map(form)
            .collect();
        return forms.join(" or ");
    }
    let kinds: Vec<&str> = match &value["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds
            .iter()
            .filter_map(Value::as_str)
            .filter(|kind| *kind != "null")
            .collect(),
        _ => return "any value".to_owned(),
    };
    let kinds: Vec<String> = kinds
        .into_iter()
        .map(|kind| match kind {
            "string" => "text".to_owned(),
            "integer" => "whole number".to_owned(),
            "boolean" => "`true` or `false`".to_owned(),
            "array" => format!("list of {}", form(&value["items"])),
            "object" if value["additionalProperties"].is_object() => {
                format!("map of {}", form(&value["additionalProperties"]))
            }
            "object" => "map".to_owned(),
            other => other.to_owned(),
        })
        .collect();
    kinds.join(" or ")
}

fn list(words: &[Value]) -> String {
    let words: Vec<String> = words
        .iter()
        .filter_map(Value::as_str)
        .map(|word| format!("`{word}`"))
        .collect();
    words.join(", ")
}
