//! The project configuration of Orchestra: providers, agents, prompt layers, tools, and what each stage of a pipeline
//! gets of them.
//!
//! Everything here is pure: files come through a reader that is passed in. The macro, the command line and the agents
//! all call this crate, so a configuration means the same to each of them.

mod check;
mod decode;
mod located;
mod settings;
mod tree;

pub use located::Located;
pub use settings::{
    Agent, BUILT_IN_TOOLS, Backend, BackendKind, CommandTool, Configuration, Effort, Mode, Names,
    OutputFormat, Parameter, ParameterType, PipelineSettings, Price, PromptInput, Provider, ProviderKind,
    Providers, Repository, Timespan, Workspace, tool_name,
};
