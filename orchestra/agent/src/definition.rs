//! Agents that a program defines with `#[orchestra::agent]`.

use orchestra_config::{Agent, Project, Resolution, ResolveOptions, Sources};
use orchestra_graph::{Source, load};
use serde_json::{Map, Value};

/// An agent that a program defines: a struct marked with `#[orchestra::agent]`, whose fields are the variables of its
/// task.
///
/// Nodes refer to it with `agent="NAME"` if its [definition](AgentDefinition::definition) was added to the backend.
/// [`prompt`](AgentDefinition::prompt) renders the prompt of a single value.
///
/// ```
/// use orchestra_agent::support::{Agent, Sources, Variables, located};
/// use orchestra_agent::{AgentDefinition, AgentPromptError};
///
/// /// What `#[agent(role = "planner")]` writes.
/// struct Planner;
/// impl AgentDefinition for Planner {
///     const NAME: &'static str = "planner";
///     const PIPELINE: &'static str = "digraph { start -> agent -> exit; agent [agent=planner, agent.role=planner] }";
///     const SOURCES: Sources = Sources::new("", &[]);
///
///     fn definition() -> Agent {
///         Agent { role: Some(located("planner")), ..Agent::default() }
///     }
///     fn variables(&self) -> Result<Variables, AgentPromptError> {
///         Ok(Variables::new())
///     }
/// }
///
/// assert!(!Planner.prompt()?.system.is_empty());
/// # Ok::<(), AgentPromptError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an agent",
    label = "not an agent",
    note = "mark the struct with `#[orchestra::agent(role = \"..\")]`"
)]
pub trait AgentDefinition {
    /// The name in pipelines.
    const NAME: &'static str;
    /// The pipeline with the single stage `agent` that is used to resolve the agent.
    const PIPELINE: &'static str;
    /// The configuration and the prompt layers at compile time.
    const SOURCES: Sources;

    /// Returns the definition of the agent in the terms of configurations.
    fn definition() -> Agent;

    /// Returns the variables of the task.
    ///
    /// # Errors
    /// Returns an error if a field cannot be serialized as JSON.
    fn variables(&self) -> Result<Map<String, Value>, AgentPromptError>;

    /// Renders the prompt of this value: the system prompt from its layers, and the task with the fields as variables.
    ///
    /// # Errors
    /// Returns an error if a field cannot be serialized as JSON, or if the task template cannot be rendered with the
    /// fields.
    fn prompt(&self) -> Result<AgentPrompt, AgentPromptError> {
        let resolution = resolution::<Self>();
        let Some(stage) = resolution.stage("agent") else {
            return Err(AgentPromptError {
                message: format!("the agent `{}` cannot be resolved", Self::NAME),
            });
        };
        let message = stage
            .message(&(&self.variables()?).into())
            .map_err(|error| AgentPromptError {
                message: error.to_string(),
            })?;
        Ok(AgentPrompt {
            system: stage.system.clone(),
            message,
        })
    }
}

/// Resolves an agent with its configuration and prompt layers. Uses the same resolver as every stage.
fn resolution<A: AgentDefinition + ?Sized>() -> Resolution {
    let files = A::SOURCES;
    let project = match files.configuration() {
        "" => Project::default(),
        path => Project::load(path, &files),
    };
    let options = ResolveOptions {
        reader: Some(&files),
        agents: [(A::NAME.to_owned(), A::definition())].into(),
        ..ResolveOptions::default()
    };
    let loaded = load(Source::new(A::NAME, A::PIPELINE), &Default::default());
    project.resolve_graph(&loaded.analysis(), &options)
}

/// The prompt of an agent.
///
/// ```
/// use orchestra_agent::{AgentPrompt, ModelRequest};
/// fn request(prompt: AgentPrompt) -> ModelRequest {
///     ModelRequest::new("anthropic", "claude-sonnet-4-5").system(prompt.system).user(prompt.message)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentPrompt {
    /// The system prompt: role, persona and personality, in this order.
    pub system: String,
    /// The task, with its variables replaced by the fields.
    pub message: String,
}

/// The error of a prompt that could not be rendered.
///
/// ```
/// use orchestra_agent::support::value;
/// use std::collections::BTreeMap;
/// let error = value(&BTreeMap::from([((1, 2), 3)])).unwrap_err();
/// assert!(error.to_string().starts_with("a field cannot be written as JSON: "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct AgentPromptError {
    /// The reason of the failure.
    pub message: String,
}

/// Converts a field to JSON.
pub(crate) fn value<T: serde::Serialize>(field: &T) -> Result<Value, AgentPromptError> {
    serde_json::to_value(field).map_err(|error| AgentPromptError {
        message: format!("a field cannot be written as JSON: {error}"),
    })
}
