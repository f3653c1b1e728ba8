//! Agents: the backends that run model stages, with their models, tools and conversations.
//!
//! # Glossary
//!
//! - **Model stage**: a node of a pipeline that calls a model.
//! - **Backend**: the component that runs a model stage: a single call, an agent with tools, an external program, or a
//!   simulation. [`Agents`] is the backend that selects among them as a project configures it.
//! - **Provider**: a service that offers models through an API. Its **wire format** is the format of its requests and
//!   responses.
//! - **Tool**: a function or command that a model can call. It is described to the model by a name and a JSON schema.
//! - **Conversation**: the messages of one model stage, as a state machine that is driven by events. A **turn** is one
//!   call of the model.
//! - **Report**: the tool call with which a model ends its stage and sets the outcome.
//! - **Fidelity**: the amount of detail with which the earlier part of a run is described to a model.
//! - **Thread**: a sequence of stages that continue the same conversation.
//! - **Compaction**: the shortening of a long conversation so that it fits the context window of the model.
//! - **Hook**: a shell command that runs before or after each tool call.
//!
//! # Modules, in reading order
//!
//! - `model`: requests to a model, messages and replies, independent of the provider, and the [`Model`] trait.
//! - `tool`: the [`Tool`] trait, the registry of tools, and the context and results of their calls.
//! - `answer_format`: the form of final answers, by their JSON schema.
//! - `conversation`: the state machine of a conversation.
//! - `report`: the tool with which a model reports its outcome.
//! - `judge`: the tool with which a model chooses the best branch at a fan-in.
//! - `compaction`: the shortening of long conversations.
//! - `driver`: the driver of a conversation, which calls the model and the tools, asks the person, and persists each
//!   event.
//! - `model_calls`: the calls of the models of a stage, with retries and fallbacks.
//! - `threads`: conversations that continue from stage to stage.
//! - `fidelity`: the description of the earlier part of a run.
//! - `files`: the description of the repositories and conflicts of a stage.
//! - `values`: the values that task templates can use.
//! - `page`: shortens texts to a number of tokens.
//! - `tokens`: counts the tokens of texts and requests.
//! - `tools`: the built-in tools, command tools, their selection, and the runner of tool calls.
//! - `hooks`: the shell commands around tool calls.
//! - `providers`: the [`Model`] for real providers, with a module for each wire format.
//! - `prices`: the prices of models, and the cost of calls.
//! - `cli_backend`: the backend that runs an external coding agent.
//! - `coding_agents`: coding agents whose events are known: presets, and any other that writes an event in each line.
//! - `settings`: the conversion of the configuration to the settings of the other modules.
//! - `agents`: the models, tools and settings of a project, which connect all of the above.
//! - `backend`: the backend that runs the model stages of a project.
//! - `definition`: agents that a program defines as structs.
//! - `support`: functions for the code that the macros generate.
//! - `fuzzing`: entry points for fuzz tests.

mod agents;
mod answer_format;
mod backend;
mod cli_backend;
mod coding_agents;
mod compaction;
mod conversation;
mod definition;
mod driver;
mod fidelity;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod hooks;
mod judge;
mod model;
mod model_calls;
mod page;
mod prices;
mod providers;
mod report;
mod settings;
#[doc(hidden)]
pub mod support;
mod threads;
mod tokens;
mod tool;
mod tools;
mod values;

pub use agents::{Agents, AgentsBuilder};
pub use answer_format::AnswerFormat;
pub use cli_backend::{CliBackend, CliCall, CliOutput, CliPointers, CliSettings};
pub use conversation::{
    Conversation, ConversationEnd, ConversationEvent, ConversationRules, ConversationStep, EndReason,
    FailedModel,
};
pub use definition::{AgentDefinition, AgentPrompt, AgentPromptError};
pub use fidelity::fidelity_budget;
pub use hooks::ToolHooks;
pub use model::{
    Arguments, Message, Model, ModelError, ModelErrorKind, ModelFuture, ModelReply, ModelRequest, OnText,
    StopReason, TokenUsage, ToolCall, ToolResult,
};
pub use orchestra_config::{PromptInput, ProviderKind, ReasoningEffort};
pub use prices::{LongContext, Price, PriceTable, Rates};
pub use providers::{DEFAULT_MAX_OUTPUT_TOKENS, KeySource, Models, ProviderSettings, http_client};
pub use report::Report;
/// The crate that generates the JSON schemas of tool arguments.
pub use schemars;
pub use secrecy::{ExposeSecret, SecretString};
pub use tokens::{count_tokens, input_token_bound};
pub use tool::{
    PrepareFuture, Tool, ToolContext, ToolError, ToolFuture, ToolLease, ToolNames, ToolOutput, ToolRegistry,
    ToolSet, ToolSpec,
};
pub use tools::{
    BuiltinTools, CommandTool, CommandToolError, SelectError, SelectedTools, ToolRunner, select,
};
