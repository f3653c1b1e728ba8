//! The project configuration of Orchestra: providers, agents, prompt layers, tools, and what each stage of a pipeline
//! gets of them.
//!
//! Everything here is pure: files come through a reader that is passed in. The macro, the command line and the agents
//! all call this crate, so a configuration means the same to each of them.

mod built_in;
mod candidate;
mod capability;
mod check;
mod choose;
mod decode;
mod explain;
mod files;
mod growth;
mod layers;
mod located;
mod names;
mod provider;
mod reports;
mod repositories;
mod resolve;
mod resolved;
mod scan;
#[cfg(feature = "schema")]
mod schema;
mod settings;
mod stage;
mod table;
mod template;
mod tree;
mod user;
mod values;
mod workspace;

pub use explain::{explain, rules};
pub use files::{FileUse, Sources};
pub use layers::{LayerKind, LayerUse};
pub use located::Located;
pub use names::{BUILT_IN_TOOLS, READ_ONLY_TOOLS, tool_name};
pub use provider::is_o_series;
pub use resolve::{Project, ResolveOptions};
pub use resolved::{Chosen, Reason, Resolution, ResolvedStage, UnknownTool};
#[cfg(feature = "schema")]
pub use schema::schema;
pub use settings::{
    Agent, Backend, BackendKind, CommandTool, Configuration, Effort, InlinePrompts, Mode, Names,
    OutputFormat, Parameter, ParameterType, PipelineSettings, Price, PromptInput, Prompts, Provider,
    ProviderKind, Providers, Repository, Timespan, Workspace,
};
pub use template::{BUILT_IN_VARIABLES, ENGINE_KEYS, STAGE_FIELDS, TaskTemplate, TemplateError};
pub use user::UserFiles;
pub use values::{TemplateValue, TemplateValues};
pub use workspace::DEFAULT_BRANCH_PREFIX;
