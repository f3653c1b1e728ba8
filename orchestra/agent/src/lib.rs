//! Agents: the backends that run model stages, with the models, tools and conversations behind them.

mod cli_backend;
mod definition;
mod hooks;
mod model;
#[doc(hidden)]
pub mod support;
mod tool;
mod tools;

pub use cli_backend::{CliBackend, CliCall, CliInput, CliOutput, CliPointers, CliSettings};
pub use definition::{AgentDefinition, AgentPrompt, AgentPromptError};
pub use hooks::ToolHooks;
pub use model::{
    Arguments, Message, Model, ModelError, ModelErrorKind, ModelFuture, ModelReply, ModelRequest, OnText,
    ReasoningEffort, StopReason, TokenUsage, ToolCall, ToolResult,
};
/// The crate by which the arguments of tools describe themselves.
pub use schemars;
pub use tool::{
    Tool, ToolContext, ToolError, ToolFuture, ToolNames, ToolOutput, ToolRegistry, ToolSet, ToolSpec,
};
pub use tools::{
    BuiltinTools, CommandTool, CommandToolError, SelectError, SelectedTools, ToolRunner, select,
};
