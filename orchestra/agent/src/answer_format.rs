//! The form of the final answer of a model stage: a JSON schema, or the declared outputs of the stage (rule T8).

use std::collections::BTreeMap;

use orchestra_engine::{CodergenAnswer, CodergenReply, StageContext, StageFile, answer_object};
use orchestra_graph::{AnswerSchema, Contract, NodeIndex, Stage, declared_outputs};
use serde_json::{Map, Value};

/// The form of the final answer of a stage: an object that fits the `output_schema` of the stage, or a text with one JSON
/// block that contains its `outputs`.
///
/// ```
/// use orchestra_agent::AnswerFormat;
/// use orchestra_graph::{Contract, Source, load};
/// let text = r#"digraph { start -> rate -> exit; rate [prompt="Rate it.", outputs="score: int", output_schema=outputs] }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let rate = pipeline.find("rate").expect("declared");
/// let format = AnswerFormat::from_stage(pipeline.stage(rate)).expect("it has one");
/// let contract = Contract::from_pipeline(&pipeline);
/// assert!(format.is_bound() && format.check(r#"{"score": 7}"#, &contract, rate).is_ok());
/// let problem = format.check(r#"{"score": "high"}"#, &contract, rate).unwrap_err();
/// assert_eq!(problem, "`/score` must be a whole number, but is the text \"high\"");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerFormat {
    schema: AnswerSchema,
    is_bound: bool,
}

impl AnswerFormat {
    /// Returns the form of the answer of a stage. Returns `None` if it may be any text. The engine fails a stage whose
    /// schema is invalid.
    pub fn from_stage(stage: Stage<'_>) -> Option<AnswerFormat> {
        if let Some(schema) = AnswerSchema::from_stage(stage).ok()? {
            return Some(AnswerFormat {
                schema,
                is_bound: true,
            });
        }
        let outputs = declared_outputs(stage);
        (!outputs.is_empty()).then(|| AnswerFormat {
            schema: AnswerSchema::from_fields(&outputs),
            is_bound: false,
        })
    }

    /// Returns `true` if the answer consists of nothing but the object.
    pub fn is_bound(&self) -> bool {
        self.is_bound
    }

    /// Returns the JSON schema of the object.
    pub fn document(&self) -> &Value {
        self.schema.document()
    }

    /// Checks the text of an answer, by the schema and by the contract of the pipeline.
    ///
    /// # Errors
    /// Returns a message that names the violations.
    pub fn check(&self, text: &str, contract: &Contract, node: NodeIndex) -> Result<(), String> {
        let fields = match answer_object(text) {
            Ok(fields) => fields,
            Err(_) if !self.is_required() => return Ok(()),
            Err(found) => return Err(found),
        };
        let values: BTreeMap<String, Value> = fields.into_iter().collect();
        self.check_values(&values)?;
        let known = self.schema.properties();
        let known = known.filter_map(|key| Some((key.to_owned(), values.get(key)?.clone())));
        contract.check_outcome(node, "success", &known.collect())
    }

    /// Checks the values that a model reports, by the schema.
    ///
    /// # Errors
    /// Returns a message that names the violations.
    pub(crate) fn check_values(&self, values: &BTreeMap<String, Value>) -> Result<(), String> {
        if !self.is_bound {
            return Ok(());
        }
        let fields: Map<String, Value> = values.clone().into_iter().collect();
        self.schema.validate(&Value::Object(fields))
    }

    /// Returns `false` if an answer without an object is valid too.
    fn is_required(&self) -> bool {
        let required = self.document().get("required").and_then(Value::as_array);
        self.is_bound || required.is_some_and(|required| !required.is_empty())
    }

    /// Returns the message that requests a corrected answer.
    pub(crate) fn correction(&self, problem: &str) -> String {
        let form = if self.is_bound {
            "one JSON object that fits the schema, and with nothing else"
        } else {
            "the complete text, and with the JSON code block at its end"
        };
        format!("Your answer cannot be used: {problem}.\n\nAnswer again, with {form}.")
    }

    /// Returns the request for a final answer in a conversation with a person.
    pub(crate) fn request_to_conversation(&self) -> String {
        format!(
            "\n\n## Expected answer\n\nWhenever you present a result, end with one JSON code block (```json ... ```) \
             that fits this JSON schema:\n```json\n{:#}\n```\n",
            self.document()
        )
    }

    /// Returns the prompt with which a program is asked to correct its answer. Returns `None` if the answer has the
    /// required form, or if the program wrote a status file, which the engine checks.
    pub(crate) fn correction_of(&self, stage: &StageContext, reply: &CodergenReply) -> Option<String> {
        let CodergenAnswer::Text(text) = &reply.answer else {
            return None;
        };
        let folder = stage.stage_dir().ok()?;
        if folder.join(StageFile::Status.name()).exists() {
            return None;
        }
        let contract = Contract::from_pipeline(stage.pipeline());
        let problem = self.check(text, &contract, stage.node().index()).err()?;
        let form = if self.is_bound {
            "Write one JSON object that fits this JSON schema, and nothing else"
        } else {
            "Write the answer again, and end it with one JSON code block (```json ... ```) that fits this JSON schema"
        };
        Some(format!(
            "You have done a task, and your answer to it cannot be used: {problem}.\n\n{form}; change no files:\n\
             ```json\n{:#}\n```\n\nYour answer was:\n\n{text}\n",
            self.document()
        ))
    }

    /// Returns the schema for a place inside of another document, to which its references are adapted.
    pub(crate) fn nested(&self, pointer: &str) -> Value {
        let mut schema = self.document().clone();
        if let Some(fields) = schema.as_object_mut() {
            fields.remove("$schema");
        }
        adapt(&mut schema, pointer);
        schema
    }
}

/// Lets the references of a schema lead to a part of another document.
fn adapt(schema: &mut Value, pointer: &str) {
    match schema {
        Value::Object(fields) => {
            for (keyword, value) in fields {
                match value {
                    Value::String(reference) if keyword == "$ref" && reference.starts_with('#') => {
                        reference.insert_str(1, pointer);
                    }
                    // These contain values, not schemas.
                    Value::Array(_) if matches!(keyword.as_str(), "enum" | "examples") => {}
                    value => adapt(value, pointer),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| adapt(item, pointer)),
        _ => {}
    }
}
