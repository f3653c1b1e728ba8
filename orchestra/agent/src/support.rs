//! What the code of `#[orchestra::tool]` and `#[orchestra::agent]` calls.

use std::fmt::Display;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::tool::{Tool, ToolContext, ToolError, ToolFuture, ToolOutput, ToolSpec};
use crate::tools::arguments::{check, take};

pub use orchestra_config::{Agent, Sources};

pub use crate::definition::{AgentDefinition, AgentPromptError};
pub use crate::tool::{ToolNames, ToolRegistry, ToolSet};
pub use crate::tools::arguments::Parameters;

/// What can be done with an argument of a type.
///
/// ```
/// use orchestra_agent::support::{Parameters, argument};
/// let parameters = (argument::<String>().add)(Parameters::default(), "path", "");
/// assert_eq!(parameters.schema()["required"], serde_json::json!(["path"]));
/// ```
pub struct Argument<T> {
    /// Describes it.
    pub add: fn(Parameters, &str, &str) -> Parameters,
    /// Takes it from those of a call.
    pub take: fn(&mut Map<String, Value>, &str) -> Result<T, ToolError>,
}

/// A type that can be an argument.
pub const fn argument<T: DeserializeOwned + JsonSchema + Send + 'static>() -> Argument<T> {
    Argument {
        add: Parameters::add::<T>,
        take: take::<T>,
    }
}

type Run = fn(Map<String, Value>, ToolContext) -> ToolFuture<'static>;

/// Puts a function into a registry.
pub fn register(
    registry: &mut ToolRegistry,
    name: &str,
    description: &str,
    parameters: Parameters,
    repository: Option<&'static str>,
    read_only: bool,
    run: Run,
) {
    registry.add(Arc::new(FunctionTool {
        spec: ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: parameters.schema(),
        },
        repository,
        read_only,
        run,
    }));
}

/// A function that is a tool.
struct FunctionTool {
    spec: ToolSpec,
    repository: Option<&'static str>,
    read_only: bool,
    run: Run,
}

impl Tool for FunctionTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn repository(&self) -> Option<&str> {
        self.repository
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn call<'a>(&'a self, arguments: Map<String, Value>, context: ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            check(&self.spec.parameters, &arguments)?;
            // A function may belong to a repository of which no workspace knows.
            let own = self
                .repository
                .and_then(|name| context.in_repository(name, None).ok());
            (self.run)(arguments, own.unwrap_or(context)).await
        })
    }
}

/// Text for a model of what a function returned: a text as it is, nothing as a word, anything else as JSON.
///
/// # Errors
/// The value cannot be written as JSON.
pub fn output(value: &impl Serialize) -> Result<ToolOutput, ToolError> {
    let fault = |fault| {
        ToolError::new(format!(
            "what the tool returned cannot be written as JSON: {fault}"
        ))
    };
    Ok(match serde_json::to_value(value).map_err(fault)? {
        Value::String(text) => text.into(),
        Value::Null => "done".into(),
        other => serde_json::to_string_pretty(&other).map_err(fault)?.into(),
    })
}

/// The error of a function, for a model.
pub fn error(error: impl Display) -> ToolError {
    ToolError::new(error.to_string())
}

/// The variables of a task.
pub type Variables = Map<String, Value>;

/// A value that no file holds.
pub fn located(text: &str) -> orchestra_config::Located<String> {
    text.to_owned().into()
}

/// The value of a field.
///
/// # Errors
/// It cannot be written as JSON.
pub fn value<T: Serialize>(field: &T) -> Result<Value, AgentPromptError> {
    crate::definition::value(field)
}
