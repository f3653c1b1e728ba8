//! The arguments of tools: their JSON schemas, and their validation with error messages for models.

use orchestra_graph::did_you_mean;
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::tool::ToolError;

/// Maximum length of a wrong value in an error message, in characters.
const MAX_SHOWN_CHARS: usize = 60;

/// A builder of the parameter schema of a tool, which `#[orchestra::tool]` uses.
///
/// ```
/// use orchestra_agent::support::Parameters;
/// let parameters = Parameters::default().add::<Option<u8>>("limit", "How many.").schema();
/// assert_eq!(parameters["properties"]["limit"]["description"], "How many.");
/// assert_eq!(parameters["required"], serde_json::json!([]));
/// ```
pub struct Parameters {
    generator: SchemaGenerator,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl Default for Parameters {
    fn default() -> Parameters {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            // Providers differ in their support of references, so avoid them.
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        Parameters {
            generator: settings.into_generator(),
            properties: Map::new(),
            required: Vec::new(),
        }
    }
}

impl Parameters {
    /// Adds a parameter. If its type accepts `null`, as an `Option` does, the parameter is optional.
    #[must_use]
    pub fn add<T: JsonSchema>(mut self, name: &str, description: &str) -> Parameters {
        let mut schema = self.generator.subschema_for::<T>().to_value();
        if let (Value::Object(fields), false) = (&mut schema, description.is_empty()) {
            fields.insert("description".to_owned(), description.into());
        }
        if !may_be_null(&schema) {
            self.required.push(name.into());
        }
        self.properties.insert(name.to_owned(), schema);
        self
    }

    /// Returns the schema: an object with these properties and no others.
    pub fn schema(mut self) -> Value {
        let mut schema = json!({
            "type": "object",
            "properties": self.properties,
            "required": self.required,
            "additionalProperties": false,
        });
        let definitions = self.generator.take_definitions(true);
        if let (Value::Object(fields), false) = (&mut schema, definitions.is_empty()) {
            fields.insert("$defs".to_owned(), definitions.into());
        }
        schema
    }
}

/// Returns the schema of arguments that are the fields of a struct.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Value::Object(fields) = &mut schema {
        // The tool has its own description, and the title is useless for a model.
        fields.remove("title");
        fields.remove("description");
    }
    schema
}

/// Validates arguments and deserializes them to a struct.
pub(crate) fn read<T: DeserializeOwned>(
    schema: &Value,
    arguments: Map<String, Value>,
) -> Result<T, ToolError> {
    check(schema, &arguments)?;
    serde_json::from_value(Value::Object(arguments)).map_err(|error| wrong(schema, &error.to_string()))
}

/// Takes one argument of a validated call.
pub(crate) fn take<T: DeserializeOwned>(
    arguments: &mut Map<String, Value>,
    name: &str,
) -> Result<T, ToolError> {
    let value = arguments.remove(name).unwrap_or_default();
    serde_json::from_value(value)
        .map_err(|error| ToolError::new(format!("wrong arguments: `{name}` cannot be used: {error}")))
}

/// Validates the arguments of a call against a schema: unknown names, missing names, and the basic types of values.
///
/// Nested values are not checked; their deserialization does that.
pub(crate) fn check(schema: &Value, arguments: &Map<String, Value>) -> Result<(), ToolError> {
    let none = Map::new();
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&none);
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    for (name, value) in arguments {
        let Some(property) = properties.get(name) else {
            if !closed {
                continue;
            }
            let near = did_you_mean(name, properties.keys().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            return Err(wrong(schema, &format!("unknown argument `{name}`{near}")));
        };
        if !fits(property, value) {
            let expected = types(property).join(" or ");
            return Err(wrong(
                schema,
                &format!("`{name}` expects {expected}, found {}", shown(value)),
            ));
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str);
    for name in required {
        if !arguments.contains_key(name) {
            return Err(wrong(schema, &format!("`{name}` is missing")));
        }
    }
    Ok(())
}

/// Describes the parameters of a schema: ``` `path` (string), optional `offset` (integer)```.
pub(crate) fn describe_parameters(schema: &Value) -> String {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut described = [Vec::new(), Vec::new()];
    for (name, property) in properties.into_iter().flatten() {
        let types: Vec<&str> = types(property)
            .into_iter()
            .filter(|word| *word != "null")
            .collect();
        let types = if types.is_empty() {
            String::new()
        } else {
            format!(" ({})", types.join(" or "))
        };
        let [first, optional] = &mut described;
        if required.contains(&name.as_str()) {
            first.push(format!("`{name}`{types}"))
        } else {
            optional.push(format!("optional `{name}`{types}"))
        }
    }
    let described = described.concat();
    if described.is_empty() {
        "no arguments".to_owned()
    } else {
        described.join(", ")
    }
}

fn wrong(schema: &Value, what: &str) -> ToolError {
    let end = if what.ends_with('?') { "" } else { "." };
    ToolError::new(format!(
        "wrong arguments: {what}{end} Expected: {}",
        describe_parameters(schema)
    ))
}

/// Returns the types in a schema's `type`, or an empty list if it has no simple type.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(word)) => vec![word],
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn fits(schema: &Value, value: &Value) -> bool {
    let types = types(schema);
    types.is_empty()
        || types.iter().any(|word| match *word {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "null" => value.is_null(),
            _ => true,
        })
}

fn may_be_null(schema: &Value) -> bool {
    let among = |name: &str| {
        let parts = schema.get(name).and_then(Value::as_array);
        parts.is_some_and(|parts| parts.iter().any(may_be_null))
    };
    types(schema).contains(&"null") || among("anyOf") || among("oneOf")
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((at, _)) => format!("`{}..`", text.get(..at).unwrap_or_default()),
        None => format!("`{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Sample {
        /// Where it lies.
        path: String,
        offset: Option<u32>,
    }

    fn message_of(arguments: Value) -> String {
        let Value::Object(fields) = arguments else {
            panic!("an object");
        };
        read::<Sample>(&schema_of::<Sample>(), fields)
            .unwrap_err()
            .message
    }

    #[test]
    fn wrong_arguments_are_reported_with_what_was_expected() {
        let end = " Expected: `path` (string), optional `offset` (integer)";
        for (arguments, start) in [
            (
                json!({"pth": "a"}),
                "unknown argument `pth`; did you mean `path`?",
            ),
            (json!({"path": "a", "x": 1}), "unknown argument `x`."),
            (json!({"offset": 1}), "`path` is missing."),
            (json!({"path": 7}), "`path` expects string, found `7`."),
            (
                json!({"path": "a", "offset": "3"}),
                "`offset` expects integer or null, found `\"3\"`.",
            ),
        ] {
            assert_eq!(message_of(arguments), format!("wrong arguments: {start}{end}"));
        }
        let far = message_of(json!({"path": "a", "offset": -3}));
        assert!(
            far.starts_with("wrong arguments: invalid value") && far.ends_with(end),
            "{far}"
        );
    }

    #[test]
    fn parameters_one_by_one_make_the_schema_of_a_struct() {
        let schema = Parameters::default()
            .add::<String>("path", "Where it lies.")
            .add::<Option<u32>>("offset", "")
            .schema();
        assert_eq!(schema, schema_of::<Sample>());
        assert_eq!(schema["required"], json!(["path"]));
    }
}
