//! Agents: the backends that run model stages, with the models, tools and conversations behind them.

mod model;
mod prices;
mod providers;
mod tokens;
mod tool;

pub use model::{
    Arguments, Message, Model, ModelError, ModelErrorKind, ModelFuture, ModelReply, ModelRequest, OnText,
    ReasoningEffort, StopReason, TokenUsage, ToolCall, ToolResult,
};
pub use prices::{LongContext, Price, PriceTable, Rates};
pub use providers::{DEFAULT_MAX_OUTPUT_TOKENS, KeySource, Models, ProviderKind, ProviderSettings};
pub use secrecy::{ExposeSecret, SecretString};
pub use tokens::{count_tokens, input_token_bound};
pub use tool::{Tool, ToolContext, ToolError, ToolFuture, ToolOutput, ToolRegistry, ToolSet, ToolSpec};
