//! The project configuration of Orchestra: providers, agents, prompt layers and tools, resolved for each stage of a
//! pipeline.
//!
//! This crate performs no I/O: files are read through a reader that the caller passes in. The macro, the command line
//! and the agents all use this crate, so a configuration means the same to each of them.
//!
//! # Glossary
//!
//! - **Configuration**: the content of `orchestra.yaml`.
//! - **Project**: a configuration with its path.
//! - **Model stage**: a node of a pipeline that calls a model.
//! - **Provider**: a service that offers models through an API.
//! - **Alias**: a name that a configuration gives to a model, such as `smart`.
//! - **Backend**: the component that executes a model stage: a single call, an agent with tools, an external program,
//!   or a simulation.
//! - **Agent**: a named set of prompt layers, model settings and tools.
//! - **Prompt layer**: a YAML file with one part of a prompt: a role, persona, personality or task.
//! - **Task template**: a layer from which the message to the model is rendered.
//! - **Resolution**: the settings of all model stages of a pipeline, each with the reason why it was chosen.
//!
//! # Modules, in reading order
//!
//! - `timespan`: spans of time.
//! - `program_command`: the commands of their programs.
//! - `backend`: the settings of backends.
//! - `model_chain`: the models that an alias stands for.
//! - `mcp`: the settings of MCP servers.
//! - `webhook`: the settings of webhooks.
//! - `settings`: the settings of `orchestra.yaml` as types.
//! - `located`: values with their spans.
//! - `rules`: the rules that this crate checks, with their explanation pages.
//! - `tree`: YAML as a tree with spans.
//! - `suggestion`: hints on how to correct a name, with the change of exactly that name.
//! - `decode`: decoding of the tree into types.
//! - `check`: consistency checks of a configuration.
//! - `command_tool`: consistency checks of command tools.
//! - `webhook_check`: consistency checks of webhooks.
//! - `workspace`: consistency checks of the repositories in a configuration.
//! - `mcp_servers`: consistency checks of the MCP servers in a configuration.
//! - `variable_names`: checks of the names of environment variables.
//! - `mcp_lock`: the lock file of MCP servers.
//! - `mcp_lock_file`: reading the lock file of MCP servers.
//! - `names`: look-up of tools, backends and providers by name.
//! - `user`: the agents and tools in the folder of the user, `~/.orchestra`.
//! - `files`: reading, recording and embedding the files of a configuration.
//! - `layers`: finding and reading prompt layers.
//! - `built_in`: the prompt layers that ship with Orchestra.
//! - `template`: rendering of task templates.
//! - `variables`: the variables that templates may use.
//! - `values`: the values that a template is rendered with.
//! - `scan`: finding the names that a template uses.
//! - `reads`: finding the variables that a template needs.
//! - `growth`: limits on the length of texts within a template.
//! - `limits`: limits on the size and the nesting of a template.
//! - `template_check`: checks of the syntax and the names of a template.
//! - `project`: a configuration with its path.
//! - `mcp_check`: the check of the tools of MCP servers against the lock file.
//! - `resolve`: the entry points of resolution.
//! - `stage`: the resolver's view of a pipeline.
//! - `template_names`: the names that the templates of a pipeline may use.
//! - `candidate`: candidate values of a setting, each with its source.
//! - `choose`: the choice of each value of a stage.
//! - `provider`: the choice of the provider of a stage.
//! - `tools`: the choice of the tools of a stage.
//! - `prompts`: the prompts of a stage.
//! - `capability`: checks of a backend against the requirements of a stage.
//! - `repositories`: checks of the use of repositories in a pipeline.
//! - `resolved`: the result of resolution.
//! - `table`: the resolution as a table for people.
//! - `reports`: diagnostics, grouped by file.
//! - `words`: the words of templates and YAML files with their positions, for editors.
//! - `schema`: the JSON schema of `orchestra.yaml`, also from the types with the feature `schema`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
mod backend_check;
mod built_in;
mod candidate;
mod capability;
mod check;
mod choose;
mod command_tool;
mod decode;
mod files;
mod growth;
mod http_address;
mod layers;
mod limits;
mod located;
mod mcp;
mod mcp_check;
mod mcp_lock;
mod mcp_lock_file;
mod mcp_servers;
mod model_chain;
mod names;
mod program_command;
mod project;
mod prompts;
mod provider;
mod reads;
mod reports;
mod repositories;
mod resolve;
mod resolved;
mod rules;
mod scan;
mod schema;
mod settings;
mod stage;
mod suggestion;
mod table;
mod template;
mod template_check;
mod template_names;
mod timespan;
mod tools;
mod tree;
mod user;
mod values;
mod variable_names;
mod variables;
mod webhook;
mod webhook_check;
mod words;
mod workspace;

pub use backend::{
    Access, AgentSettings, Backend, BackendKind, OutputFormat, Permissions, Preset, PromptInput,
};
pub use files::{CONFIGURATION_FILE, FileUse, Sources, paths_above};
pub use http_address::is_loopback_host;
pub use layers::{LayerKind, LayerUse};
pub use located::{Located, Names};
pub use mcp::{McpScope, McpServer};
pub use mcp_lock::{LockedMcpTool, MCP_LOCK_FILE, McpLock, McpLockError};
pub use model_chain::{Fallback, ModelChain};
pub use names::{BUILT_IN_TOOLS, READ_ONLY_TOOLS, tool_name};
pub use orchestra_graph::DEFAULT_BRANCH_PREFIX;
pub use program_command::ProgramCommand;
pub use project::{Project, ResolveOptions};
pub use provider::is_o_series;
pub use resolved::{Chosen, FallbackModel, Reason, Resolution, ResolvedStage, UnknownTool};
pub use rules::{explain, rules};
pub use schema::SCHEMA;
#[cfg(feature = "schema")]
pub use schema::schema;
pub use settings::{
    Agent, CommandTool, Configuration, InlinePrompts, Mode, Parameter, ParameterType, PipelineSettings,
    Price, Prompts, Provider, ProviderKind, Providers, ReasoningEffort, Repository, Workspace,
};
pub use template::{TaskTemplate, TemplateError};
pub use template_check::{TEMPLATE_FILTERS, TEMPLATE_TESTS};
pub use template_names::TemplateNames;
pub use timespan::Timespan;
pub use user::UserFiles;
pub use values::{TemplateValue, TemplateValues};
pub use variables::{BUILT_IN_VARIABLES, ENGINE_KEYS, STAGE_FIELDS, variable_description};
pub use webhook::{PayloadValues, Webhook};
pub use words::{TemplateVariable, YamlWord, task_variables, template_variables, yaml_words};
