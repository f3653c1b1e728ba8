//! What the code of `#[orchestra::tool]` calls.

use std::fmt::Display;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::tool::{Tool, ToolContext, ToolError, ToolFuture, ToolOutput, ToolSpec};
pub use crate::tools::arguments::{Parameters, check, take};

/// A function that is a tool.
pub struct FunctionTool {
    /// What the model is told.
    pub spec: ToolSpec,
    /// The repository to which it belongs.
    pub repository: Option<&'static str>,
    /// Whether calls may run side by side.
    pub read_only: bool,
    /// The call itself; the arguments have the names that they should have.
    pub run: fn(Map<String, Value>, ToolContext) -> ToolFuture<'static>,
}

impl FunctionTool {
    /// The tool, for a registry.
    pub fn shared(self) -> Arc<dyn Tool> {
        Arc::new(self)
    }
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
            (self.run)(arguments, context).await
        })
    }
}

/// Text for a model of what a function returned: a text as it is, anything else as JSON.
///
/// # Errors
/// The value cannot be written as JSON.
pub fn output(value: &impl Serialize) -> Result<ToolOutput, ToolError> {
    let value = serde_json::to_value(value)
        .map_err(|fault| ToolError::new(format!("what the tool returned is no JSON: {fault}")))?;
    Ok(match value {
        Value::String(text) => text.into(),
        Value::Null => "done".into(),
        other => serde_json::to_string_pretty(&other)
            .unwrap_or_else(|_| other.to_string())
            .into(),
    })
}

/// The error of a function, for a model.
pub fn error(error: impl Display) -> ToolError {
    ToolError::new(error.to_string())
}
