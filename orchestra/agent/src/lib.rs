//! Agents: the backends that run model stages, with the models, tools and conversations behind them.

mod agents;
mod cli_backend;
mod compaction;
mod conversation;
mod definition;
mod fidelity;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod hooks;
mod judge;
mod model;
mod page;
mod prices;
mod providers;
mod report;
mod settings;
#[doc(hidden)]
pub mod support;
mod talk;
mod threads;
mod tokens;
mod tool;
mod tools;
mod values;

pub use agents::{Agents, AgentsBuilder};
pub use cli_backend::{CliBackend, CliCall, CliInput, CliOutput, CliPointers, CliSettings};
pub use conversation::{Conversation, ConversationRules, End, Ended, Happened, Next};
pub use definition::{AgentDefinition, AgentPrompt, AgentPromptError};
pub use fidelity::fidelity_budget;
pub use hooks::ToolHooks;
pub use model::{
    Arguments, Message, Model, ModelError, ModelErrorKind, ModelFuture, ModelReply, ModelRequest, OnText,
    ReasoningEffort, StopReason, TokenUsage, ToolCall, ToolResult,
};
pub use prices::{LongContext, Price, PriceTable, Rates};
pub use providers::{DEFAULT_MAX_OUTPUT_TOKENS, KeySource, Models, ProviderKind, ProviderSettings};
pub use report::Report;
/// The crate by which the arguments of tools describe themselves.
pub use schemars;
pub use secrecy::{ExposeSecret, SecretString};
pub use tokens::{count_tokens, input_token_bound};
pub use tool::{
    Tool, ToolContext, ToolError, ToolFuture, ToolNames, ToolOutput, ToolRegistry, ToolSet, ToolSpec,
};
pub use tools::{
    BuiltinTools, CommandTool, CommandToolError, SelectError, SelectedTools, ToolRunner, select,
};
