//! The schema of an answer in the form that a provider supports. The answer is validated in any case, so a form may
//! accept more than the schema; it never excludes what the schema requires. Without a supported form nothing is sent,
//! because a rejected request costs more than an answer that must be corrected.

use orchestra_config::ProviderKind;
use serde_json::{Map, Value};

use super::capability::{
    answers_by_schema_at_anthropic, answers_by_schema_at_gemini, answers_by_schema_at_openai,
};
use super::request::WireRequest;

/// The name of the schema in OpenAI's formats.
pub(super) const ANSWER_NAME: &str = "answer";

/// The keywords that all providers support.
const COMMON: &[&str] = &[
    "$ref",
    "$defs",
    "definitions",
    "type",
    "enum",
    "const",
    "anyOf",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "title",
    "description",
];

/// The constraints that OpenAI supports in strict mode.
const OPENAI: &[&str] = &[
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
];

/// The constraints that Gemini supports.
const GEMINI: &[&str] = &["minimum", "maximum", "minItems", "maxItems", "prefixItems"];

/// Returns the schema for OpenAI's formats, and whether the model is bound to it strictly.
pub(super) fn openai_schema(wire: &WireRequest<'_>) -> Option<(Value, bool)> {
    let schema = wire.request.answer_schema.as_ref()?;
    let model = wire.request.model.to_ascii_lowercase();
    let is_supported = match wire.kind {
        ProviderKind::OpenAi => answers_by_schema_at_openai(&model),
        // Servers that convert the schema to a grammar.
        ProviderKind::Ollama => true,
        ProviderKind::OpenRouter => {
            let (vendor, model) = model.split_once('/')?;
            let model = model.split(':').next().unwrap_or_default();
            match vendor {
                "openai" => answers_by_schema_at_openai(model),
                "anthropic" => answers_by_schema_at_anthropic(model),
                "google" => answers_by_schema_at_gemini(model),
                _ => false,
            }
        }
        _ => false,
    };
    if !is_supported {
        return None;
    }
    if needs(schema, &["allOf", "not", "prefixItems"]) {
        return (wire.kind != ProviderKind::OpenRouter).then(|| (schema.clone(), false));
    }
    let simple = simplified(schema, OPENAI);
    if is_strict(&simple) {
        Some((simple, true))
    } else {
        Some((schema.clone(), false))
    }
}

/// Returns the schema for Anthropic's format, in which each object names all of its properties.
pub(super) fn anthropic_schema(wire: &WireRequest<'_>) -> Option<Value> {
    let schema = wire.request.answer_schema.as_ref()?;
    if !answers_by_schema_at_anthropic(&wire.request.model)
        || needs(schema, &["allOf", "not", "prefixItems"])
        || is_recursive(schema)
    {
        return None;
    }
    let mut simple = simplified(schema, &[]);
    close(&mut simple).then_some(simple)
}

/// Returns the schema for Gemini's format.
pub(super) fn gemini_schema(wire: &WireRequest<'_>) -> Option<Value> {
    let schema = wire.request.answer_schema.as_ref()?;
    if !answers_by_schema_at_gemini(&wire.request.model) || needs(schema, &["allOf", "not"]) {
        return None;
    }
    let mut simple = simplified(schema, GEMINI);
    each_schema(&mut simple, &mut |fields| {
        // Gemini knows only lists of values.
        if let Some(value) = fields.remove("const") {
            fields.insert("enum".to_owned(), Value::Array(vec![value]));
        }
        true
    });
    Some(simple)
}

/// Calls a function for each schema in a document, the inner ones first, until it returns `false`.
fn each_schema(schema: &mut Value, visit: &mut dyn FnMut(&mut Map<String, Value>) -> bool) -> bool {
    let Value::Object(fields) = schema else {
        return true;
    };
    for (keyword, value) in fields.iter_mut() {
        let goes_on = match (keyword.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(schemas)) => {
                schemas.values_mut().all(|schema| each_schema(schema, visit))
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter_mut().all(|schema| each_schema(schema, visit))
            }
            ("items" | "additionalProperties" | "not", schema) => each_schema(schema, visit),
            _ => true,
        };
        if !goes_on {
            return false;
        }
    }
    visit(fields)
}

/// Returns whether a schema uses one of some keywords, without which it would have another meaning.
fn needs(schema: &Value, keywords: &[&str]) -> bool {
    let mut schema = schema.clone();
    !each_schema(&mut schema, &mut |fields| {
        !keywords.iter().any(|keyword| fields.contains_key(*keyword))
    })
}

/// Returns a schema with only the common keywords and some others. `oneOf` becomes `anyOf`, which accepts more.
fn simplified(schema: &Value, others: &[&str]) -> Value {
    let mut schema = schema.clone();
    each_schema(&mut schema, &mut |fields| {
        if let Some(alternatives) = fields.remove("oneOf") {
            fields.entry("anyOf").or_insert(alternatives);
        }
        fields.retain(|keyword, _| {
            let keyword = keyword.as_str();
            COMMON.contains(&keyword) || others.contains(&keyword)
        });
        true
    });
    schema
}

/// Returns whether a schema describes objects.
fn is_object(fields: &Map<String, Value>) -> bool {
    let is_object = |name: &Value| name == "object";
    let by_type = match fields.get("type") {
        Some(Value::Array(names)) => names.iter().any(is_object),
        Some(name) => is_object(name),
        None => false,
    };
    by_type || fields.contains_key("properties")
}

/// Returns whether a schema can be used in OpenAI's strict mode: each object requires exactly its properties.
fn is_strict(schema: &Value) -> bool {
    let mut schema = schema.clone();
    each_schema(&mut schema, &mut |fields| {
        if !is_object(fields) {
            return is_typed(fields);
        }
        let names = fields.get("required").and_then(Value::as_array);
        let required =
            |key: &String| names.is_some_and(|names| names.iter().any(|name| name == key.as_str()));
        let properties = fields.get("properties").and_then(Value::as_object);
        fields.get("additionalProperties") == Some(&Value::Bool(false))
            && properties.is_some_and(|properties| properties.keys().all(required))
    })
}

/// Returns whether a schema says what it accepts.
fn is_typed(fields: &Map<String, Value>) -> bool {
    ["type", "enum", "const", "anyOf", "$ref"]
        .iter()
        .any(|keyword| fields.contains_key(*keyword))
}

/// Excludes other properties from each object, which the schema may allow but does not describe. Returns `false` if an
/// object consists of such properties.
fn close(schema: &mut Value) -> bool {
    each_schema(schema, &mut |fields| {
        if !is_object(fields) {
            return is_typed(fields);
        }
        let has_properties = fields
            .get("properties")
            .and_then(Value::as_object)
            .is_some_and(|properties| !properties.is_empty());
        let is_open =
            matches!(fields.get("additionalProperties"), Some(value) if *value != Value::Bool(false));
        if has_properties && !is_open {
            fields.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        has_properties && !is_open
    })
}

/// Returns whether a schema refers to itself.
fn is_recursive(document: &Value) -> bool {
    fn visit<'s>(
        schema: &'s Value,
        document: &'s Value,
        open: &mut Vec<&'s str>,
        done: &mut Vec<&'s str>,
    ) -> bool {
        match schema {
            Value::Object(fields) => fields.iter().any(|(keyword, value)| match value {
                Value::String(reference) if keyword == "$ref" => {
                    if open.contains(&reference.as_str()) {
                        return true;
                    }
                    if done.contains(&reference.as_str()) {
                        return false;
                    }
                    let target = reference.strip_prefix('#').and_then(|at| document.pointer(at));
                    open.push(reference);
                    let is_recursive = target.is_some_and(|target| visit(target, document, open, done));
                    open.pop();
                    done.push(reference);
                    is_recursive
                }
                value => visit(value, document, open, done),
            }),
            Value::Array(items) => items.iter().any(|item| visit(item, document, open, done)),
            _ => false,
        }
    }
    visit(document, document, &mut vec!["#"], &mut Vec::new())
}
