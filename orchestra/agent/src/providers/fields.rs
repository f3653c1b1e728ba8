//! The JSON fields that the wire formats share.

use serde_json::{Value, json};

use super::call_error::{CallError, excerpt};
use crate::model::{Arguments, ToolResult};

/// Returns arguments in the form that providers accept: an object, even if the model's arguments were malformed.
pub(super) fn arguments_out(arguments: &Arguments) -> Value {
    match arguments {
        Arguments::Object(fields) => Value::Object(fields.clone()),
        Arguments::Malformed { text, .. } => json!({"malformed_arguments": text}),
    }
}

/// Returns the text of a tool result, for formats that cannot mark a result as failed.
pub(super) fn tool_text(result: &ToolResult) -> String {
    if result.is_error {
        format!("The tool failed: {}", result.content)
    } else {
        result.content.clone()
    }
}

/// Returns a number field of an object, or 0 if it is missing.
pub(super) fn count_of(value: &Value, field: &str) -> u64 {
    value.get(field).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns a text field of an object, or an empty text if it is missing.
pub(super) fn text_of<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the name of the model in a field of an object, or `None` if there is none.
pub(super) fn model_of(value: &Value, field: &str) -> Option<String> {
    let model = text_of(value, field);
    (!model.is_empty()).then(|| model.to_owned())
}

/// Parses the JSON of an event.
pub(super) fn parsed(data: &str) -> Result<Value, CallError> {
    serde_json::from_str(data).map_err(|error| {
        let excerpt = excerpt(data.as_bytes());
        CallError::malformed(format!("an event of the stream is not JSON ({error}): {excerpt}"))
    })
}
