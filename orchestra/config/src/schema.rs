//! The JSON schema of `orchestra.yaml`.

#[cfg(feature = "schema")]
use serde_json::Value;

#[cfg(feature = "schema")]
use crate::settings::Configuration;

/// The JSON schema of `orchestra.yaml`, as the text of its file.
///
/// ```
/// let schema: serde_json::Value = serde_json::from_str(orchestra_config::SCHEMA)?;
/// assert_eq!(schema["title"], "orchestra.yaml");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub const SCHEMA: &str = include_str!("../orchestra.schema.json");

/// Returns the JSON schema of the configuration, generated from the types that decode it. The file
/// `orchestra.schema.json` of this crate is a copy for editors.
///
/// ```
/// let schema = orchestra_config::schema();
/// assert_eq!(schema["properties"]["agents"]["type"], "object");
/// ```
#[cfg(feature = "schema")]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Configuration);
    schema.insert("title".to_owned(), "orchestra.yaml".into());
    let mut schema = schema.to_value();
    without_examples(&mut schema);
    schema
}

/// Removes the Rust examples from the descriptions.
#[cfg(feature = "schema")]
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
