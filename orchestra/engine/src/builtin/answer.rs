//! Answers that are bound to a JSON schema (`output_schema`, rule T8).

use orchestra_core::{Outcome, Status};
use orchestra_graph::{AnswerSchema, SchemaError, Stage};
use serde_json::{Map, Value};

use super::output;

/// The code of a stage whose answer does not fit its schema.
const OUTPUT_SCHEMA: &str = "output_schema";

/// Returns the object that an answer consists of: the whole text, or its last fenced JSON block.
///
/// # Errors
/// Returns a message of one line that describes what was found instead.
///
/// ```
/// use orchestra_engine::answer_object;
/// assert_eq!(answer_object(r#"{"score": 7}"#)?["score"], 7);
/// assert_eq!(answer_object("I looked.\n```json\n{\"score\": 7}\n```\n")?["score"], 7);
/// assert_eq!(answer_object("").unwrap_err(), "the response is empty");
/// # Ok::<(), String>(())
/// ```
pub fn answer_object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text.trim()) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => output::last_object(text),
    }
}

/// Returns the prompt of a stage, with a request for the values that the response provides: an answer that fits the
/// schema of the stage, else its output data.
pub(super) fn prompt(node: Stage<'_>) -> String {
    // A stage with an invalid schema fails before it asks.
    match AnswerSchema::from_stage(node) {
        Ok(Some(schema)) => format!("{}{}", node.prompt(), request(node, &schema)),
        _ => output::prompt(node),
    }
}

fn request(node: Stage<'_>, schema: &AnswerSchema) -> String {
    let written = node.text("output_schema").unwrap_or_default().trim();
    let text = if written.starts_with('{') {
        // The order in which the author writes the properties is that in which the model should answer.
        written.to_owned()
    } else {
        format!("{:#}", schema.document())
    };
    format!(
        "\n\n## Expected answer\n\nAnswer with one JSON object that fits this JSON schema, and with nothing \
         else:\n```json\n{text}\n```\n"
    )
}

/// Returns the failure of a stage whose schema cannot be used.
pub(super) fn unusable(error: &SchemaError) -> Outcome {
    Outcome::fail_terminal(format!("{OUTPUT_SCHEMA}: {error}")).with_code(OUTPUT_SCHEMA)
}

/// Returns the failure of a stage without an answer in the form of the schema. It is retryable.
pub(super) fn missing(found: &str) -> Outcome {
    let reason =
        format!("{OUTPUT_SCHEMA}: expected a JSON object that fits the schema of the stage, but {found}");
    Outcome::fail(reason).with_code(OUTPUT_SCHEMA)
}

/// Returns the outcome if its values fit the schema or if it is a failure, else the failure that replaces it.
pub(super) fn validated(schema: &AnswerSchema, outcome: Outcome) -> Outcome {
    if matches!(outcome.status, Status::Fail | Status::Retry) {
        return outcome;
    }
    let updates = outcome.context_updates.clone();
    match schema.validate(&Value::Object(updates.into_iter().collect())) {
        Ok(()) => outcome,
        Err(violations) => misfit(&violations),
    }
}

/// Returns the failure of a stage whose answer does not fit the schema. It is retryable.
pub(super) fn misfit(violations: &str) -> Outcome {
    let reason = format!("{OUTPUT_SCHEMA}: the answer does not fit the schema of the stage: {violations}");
    Outcome::fail(reason).with_code(OUTPUT_SCHEMA)
}
