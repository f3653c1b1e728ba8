//! The JSON schemas of the answers of model stages (`output_schema`, rule T8).
//!
//! A schema is checked when its pipeline is loaded, by `supported`, so that an answer can be validated without errors of
//! the schema itself, by `validate`. `fields` derives the context values that the answer sets.

mod error;
mod fields;
mod keywords;
mod supported;
mod validate;

use serde_json::{Map, Value, json};

pub use error::SchemaError;

use crate::contract::{Field, declared_outputs};
use crate::table::Stage;

/// Maximum length of a schema, in bytes. It is a part of every request.
pub(crate) const MAX_BYTES: usize = 128 * 1024;

/// The JSON schema to which the answer of a model stage is bound: that of its `output_schema`.
///
/// The top level of an answer is an object, whose properties become context values. The supported keywords are those of
/// JSON Schema 2020-12 that constrain single values (`type`, `enum`, `const`, lengths, ranges, `pattern`), objects
/// (`properties`, `required`, `additionalProperties`, `minProperties`, `maxProperties`) and arrays (`items`,
/// `prefixItems`, `minItems`, `maxItems`, `uniqueItems`), combine schemas (`anyOf`, `oneOf`, `allOf`, `not`), and refer
/// to other parts of the same schema (`$ref`, `$defs`, `definitions`). Annotations such as `description` and `format` are
/// accepted. All others are errors, so that a constraint is never silently ignored.
///
/// ```
/// use orchestra_graph::AnswerSchema;
/// use serde_json::json;
/// let schema = AnswerSchema::parse(r#"{
///     "type": "object",
///     "properties": {"score": {"type": "integer", "minimum": 0}, "notes": {"type": "string"}},
///     "required": ["score"]
/// }"#)?;
/// assert!(schema.validate(&json!({"score": 7})).is_ok());
/// let error = schema.validate(&json!({"score": -1, "notes": 3})).unwrap_err();
/// assert_eq!(error, "`/notes` must be a text, but is the number 3; `/score` must be at least 0, but is -1");
/// assert_eq!(schema.fields()[0].to_string(), "notes: text?");
/// # Ok::<(), orchestra_graph::SchemaError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerSchema {
    document: Value,
}

impl AnswerSchema {
    /// Parses and checks a schema.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON, is not a valid schema, or uses a keyword that is not supported.
    pub fn parse(text: &str) -> Result<AnswerSchema, SchemaError> {
        if text.len() > MAX_BYTES {
            return Err(SchemaError::new(
                "",
                format!("the schema has {} bytes; the limit is {MAX_BYTES}", text.len()),
                "describe less; the schema is sent to the model with each request",
            ));
        }
        let document: Value = serde_json::from_str(text).map_err(|error| {
            SchemaError::new(
                "",
                format!("invalid JSON: {error}"),
                "write the schema as one JSON object",
            )
        })?;
        supported::check(&document)?;
        Ok(AnswerSchema { document })
    }

    /// Creates the schema of the values that a stage declares (`outputs`).
    ///
    /// ```
    /// use orchestra_graph::{AnswerSchema, Field, ValueType};
    /// let score = Field { key: "score".to_owned(), value_type: ValueType::Integer, optional: false };
    /// let schema = AnswerSchema::from_fields(&[score]);
    /// assert_eq!(schema.document()["required"], serde_json::json!(["score"]));
    /// ```
    pub fn from_fields(fields: &[Field]) -> AnswerSchema {
        let properties: Map<String, Value> = fields
            .iter()
            .map(|field| (field.key.clone(), field.value_type.json_schema()))
            .collect();
        let required = fields.iter().filter(|field| !field.optional);
        let required: Vec<&str> = required.map(|field| field.key.as_str()).collect();
        AnswerSchema {
            document: json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            }),
        }
    }

    /// Returns the schema to which the answer of a stage is bound. Returns `None` if the stage has no `output_schema`.
    ///
    /// # Errors
    /// Returns an error if the schema is invalid. A pipeline that was loaded with access to its files has none.
    ///
    /// ```
    /// use orchestra_graph::{AnswerSchema, Source, load};
    /// let text = r#"digraph { start -> rate -> exit; rate [prompt="Rate it.", outputs="score: int", output_schema=outputs] }"#;
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let rate = pipeline.stage(pipeline.find("rate").expect("declared"));
    /// let schema = AnswerSchema::from_stage(rate)?.expect("it has one");
    /// assert!(schema.validate(&serde_json::json!({"score": "high"})).is_err());
    /// # Ok::<(), orchestra_graph::SchemaError>(())
    /// ```
    pub fn from_stage(stage: Stage<'_>) -> Result<Option<AnswerSchema>, SchemaError> {
        let text = stage.text("output_schema").unwrap_or_default().trim();
        match text {
            "" => Ok(None),
            OF_OUTPUTS => Ok(Some(AnswerSchema::from_fields(&declared_outputs(stage)))),
            inline if inline.starts_with('{') => AnswerSchema::parse(inline).map(Some),
            file => Err(SchemaError::new(
                "",
                format!("the schema file `{file}` was not read"),
                "load the pipeline with access to its files, or write the schema into the pipeline",
            )),
        }
    }

    /// Returns the schema as JSON.
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// Validates an answer.
    ///
    /// # Errors
    /// Returns a message that names the violations with JSON pointers to the values, for a model and for people.
    pub fn validate(&self, answer: &Value) -> Result<(), String> {
        validate::validate(&self.document, answer)
    }

    /// Returns the names of the properties of an answer, sorted.
    pub fn properties(&self) -> impl Iterator<Item = &str> {
        let properties = self.document.get("properties").and_then(Value::as_object);
        properties
            .into_iter()
            .flat_map(|properties| properties.keys().map(String::as_str))
    }

    /// Returns the context values that an answer sets, with the closest types that `outputs` can declare.
    pub fn fields(&self) -> Vec<Field> {
        fields::fields(&self.document)
    }
}

/// The value of `output_schema` that derives the schema from the `outputs` of the node.
pub(crate) const OF_OUTPUTS: &str = "outputs";
