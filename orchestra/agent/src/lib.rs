//! Agents: the backends that run model stages, with the models, tools and conversations behind them.

mod model;
mod tool;

pub use model::{
    Arguments, Message, Model, ModelError, ModelErrorKind, ModelFuture, ModelReply, ModelRequest, OnText,
    ReasoningEffort, StopReason, TokenUsage, ToolCall, ToolResult,
};
pub use tool::{Tool, ToolContext, ToolError, ToolFuture, ToolOutput, ToolRegistry, ToolSet, ToolSpec};
