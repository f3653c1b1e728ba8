//! The JSON schema of `orchestra.yaml`.

use serde_json::Value;

use crate::settings::Configuration;

/// Returns the JSON schema of the configuration, generated from the types that decode it. The file
/// `orchestra.schema.json` of this crate is a copy for editors.
///
/// ```
/// let schema = orchestra_config::schema();
/// assert_eq!(schema["properties"]["agents"]["type"], "object");
/// ```
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Configuration);
    schema.insert("title".to_owned(), "orchestra.yaml".into());
    let mut schema = schema.to_value();
    without_examples(&mut schema);
    schema
}

/// Removes the Rust examples from the descriptions.
fn without_examples(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(description)) = map.get_mut("description")
                && let Some(end) = description.find("\n\n```")
            {
                description.truncate(end);
            }
            map.values_mut().for_each(without_examples);
        }
        Value::Array(items) => items.iter_mut().for_each(without_examples),
        _ => {}
    }
}
