//! Agents that a program defines, by `#[orchestra::agent]`.

use orchestra_config::{Agent, Project, Resolution, ResolveOptions, Sources};
use orchestra_graph::{Analysis, Source, load};
use serde_json::{Map, Value};

/// An agent that a program defines: a struct marked with `#[orchestra::agent]`, whose fields are the variables of its
/// task.
///
/// Nodes name it by `agent="NAME"`, where the backend is told of its [definition](AgentDefinition::definition). The
/// prompt of one value is put together by [`prompt`](AgentDefinition::prompt).
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
    /// Its name in pipelines.
    const NAME: &'static str;
    /// The pipeline of one stage, `agent`, as which it is resolved.
    const PIPELINE: &'static str;
    /// The configuration and the layers of its prompt, as they were when the program was built.
    const SOURCES: Sources;

    /// What it is, in the terms of configurations.
    fn definition() -> Agent;

    /// The variables of its task.
    ///
    /// # Errors
    /// A field cannot be written as JSON.
    fn variables(&self) -> Result<Map<String, Value>, AgentPromptError>;

    /// The prompt for this value: the system prompt of its layers, and its task with the fields as variables.
    ///
    /// # Errors
    /// A field cannot be written as JSON, or the task does something that cannot be done with a value.
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

/// What an agent gets of configuration and layers; the resolver is that of every stage.
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
    project.resolve_graph(&Analysis::new(&loaded.graph, &loaded.source), &options)
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
    /// Role, persona and personality, in this order.
    pub system: String,
    /// The task, with the fields in place of its variables.
    pub message: String,
}

/// A prompt that could not be put together.
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
    /// Why.
    pub message: String,
}

/// The value of a field.
pub(crate) fn value<T: serde::Serialize>(field: &T) -> Result<Value, AgentPromptError> {
    serde_json::to_value(field).map_err(|fault| AgentPromptError {
        message: format!("a field cannot be written as JSON: {fault}"),
    })
}
