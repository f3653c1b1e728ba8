//! The resolved settings of each model stage of a pipeline, each with its reason.

use std::collections::HashMap;
use std::fmt;

use orchestra_graph::{Diagnostic, Report, Source};
use serde::{Deserialize, Serialize};

use crate::backend::BackendKind;
use crate::decode::words;
use crate::files::FileUse;
use crate::layers::LayerUse;
use crate::settings::{Mode, ReasoningEffort};
use crate::template::{TaskTemplate, TemplateError};
use crate::values::TemplateValues;

words! {
    /// Why a choice is as it is: who said so. The order is that of precedence.
    ///
    /// ```
    /// use orchestra_config::Reason;
    /// assert!(Reason::Node < Reason::Agent && Reason::Agent < Reason::Provider);
    /// ```
    pub enum Reason {
        /// An attribute of the node.
        Node = "node",
        /// A rule of the graph's stylesheet. A running pipeline does not distinguish it from the node.
        Stylesheet = "stylesheet",
        /// The agent that does the stage.
        Agent = "agent",
        /// An attribute of the graph.
        Graph = "graph",
        /// The pipeline's entry in the configuration.
        Pipeline = "pipeline",
        /// The model: one provider alone names it among its `models`.
        Models = "models",
        /// The model: its name begins as those of a vendor do.
        Family = "family",
        /// The configuration, for all pipelines.
        Project = "project",
        /// The provider of the model.
        Provider = "provider",
        /// The backend.
        Backend = "backend",
        /// Nobody; this is what holds then.
        Default = "default",
    }
}

/// A value with the reason and the location of the choice.
///
/// ```
/// use orchestra_config::{Chosen, Reason};
/// let chosen = Chosen { value: "smart", reason: Reason::Agent, location: "orchestra.yaml:7:12".to_owned() };
/// assert_eq!(chosen.to_string(), "smart [agent]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen<T> {
    /// The value.
    pub value: T,
    /// The source of the choice.
    pub reason: Reason,
    /// The location as `file:line:column`; empty if no file sets the value.
    pub location: String,
}

impl<T: fmt::Display> fmt::Display for Chosen<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.value, self.reason)
    }
}

/// A model that is asked if the models before it do not answer: the provider is overloaded or out of reach, rejects the
/// credentials, does not have the model, or declines to answer.
///
/// ```
/// use orchestra_config::FallbackModel;
/// let fallback = FallbackModel {
///     provider: "anthropic".to_owned(),
///     model: "claude-opus-4-6".to_owned(),
///     location: "orchestra.yaml:3:30".to_owned(),
/// };
/// assert_eq!(fallback.to_string(), "claude-opus-4-6 (anthropic)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackModel {
    /// The name of the provider.
    pub provider: String,
    /// The model as the provider knows it.
    pub model: String,
    /// The location as `file:line:column`.
    pub location: String,
}

impl fmt::Display for FallbackModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.model, self.provider)
    }
}

/// The resolved settings of a model stage.
///
/// ```
/// use orchestra_config::{Project, ResolveOptions};
/// use orchestra_graph::{Source, load};
/// let files = |path: &str, _: u64| match path {
///     "orchestra.yaml" => Ok(b"providers: {default: anthropic, anthropic: {models: {smart: claude-opus-4-6}}}".to_vec()),
///     _ => Err(orchestra_graph::ReadError::Missing),
/// };
/// let text = "digraph { start -> work -> exit; work [llm_model=smart, prompt=\"Write a poem.\"] }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let resolution = Project::load("orchestra.yaml", &files).resolve(&pipeline, &ResolveOptions::default());
/// let work = resolution.stage("work").expect("a model stage");
/// assert_eq!(work.model.as_ref().expect("resolved").value, "claude-opus-4-6");
/// assert_eq!(work.message(&Default::default())?, "Write a poem.");
/// # Ok::<(), orchestra_config::TemplateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResolvedStage {
    /// The ID of the node.
    pub node: String,
    /// The agent of the stage.
    pub agent: Option<Chosen<String>>,
    /// The name of the backend.
    pub backend: Chosen<String>,
    /// The kind of the backend.
    pub backend_kind: BackendKind,
    /// The name of the provider; `None` if nothing names one.
    pub provider: Option<Chosen<String>>,
    /// The model as the provider knows it; `None` if nothing names one.
    pub model: Option<Chosen<String>>,
    /// The alias that was replaced by the model; `None` if the model was named directly.
    pub model_alias: Option<String>,
    /// The models that are asked if the model does not answer, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<FallbackModel>,
    /// The time that the model may spend on reasoning; `None` leaves it to the provider.
    pub reasoning_effort: Option<Chosen<ReasoningEffort>>,
    /// The mode, which determines if a person talks with the model.
    pub mode: Chosen<Mode>,
    /// The maximum number of tokens of one answer. (`max_tokens` of a node is its budget, which the configuration does
    /// not set.)
    pub max_tokens: Option<Chosen<u64>>,
    /// The sampling temperature of the model.
    pub temperature: Option<Chosen<f64>>,
    /// The maximum number of model calls in the stage.
    pub max_turns: Option<Chosen<u64>>,
    /// The tools that the model may use, sorted.
    pub tools: Vec<String>,
    /// The system prompt: role, persona and personality. Empty if there is none.
    pub system: String,
    /// The layers of the prompt, in the order in which they were composed.
    pub layers: Vec<LayerUse>,
    /// The template of the message to the model.
    pub task: Option<TaskTemplate>,
    /// The `prompt` of the node; empty if it has none.
    pub prompt: String,
    /// The prompt, or the label that replaces it, as a template; `None` if it is taken literally.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<TaskTemplate>,
    /// The label of the node.
    pub label: String,
    /// `true` if the backend is a coding agent that cannot change files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

impl ResolvedStage {
    /// Returns whether the stage may change files: a program may, unless it is a coding agent that only reads, and so may
    /// a model that has a tool that is not read-only.
    ///
    /// ```
    /// use orchestra_config::{Project, ResolveOptions};
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { start -> ask -> work -> exit; ask [backend=direct]; work [backend=agent] }";
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let project = Project::default();
    /// let resolution = project.resolve(&pipeline, &ResolveOptions::default());
    /// let may_write = |node| resolution.stage(node).expect("a model stage").may_write(|tool| project.configuration.tool_is_read_only(tool));
    /// assert!(may_write("work") && !may_write("ask"));
    /// ```
    pub fn may_write(&self, is_read_only: impl Fn(&str) -> bool) -> bool {
        match self.backend_kind {
            BackendKind::Direct | BackendKind::Simulation => false,
            BackendKind::Cli | BackendKind::Acp => !self.read_only,
            BackendKind::Agent => !self.tools.iter().all(|tool| is_read_only(tool)),
        }
    }

    /// Returns the message to the model. Without a task, that is the node's prompt, else its label (Attractor 4.5).
    /// With a task, it is the rendered task, to which the prompt is the variable `prompt`; the prompt is appended to a
    /// task that does not use it.
    ///
    /// # Errors
    ///
    /// Fails if a template cannot be rendered with these values.
    pub fn message(&self, values: &TemplateValues) -> Result<String, TemplateError> {
        let mut values = values.clone();
        for (key, value) in [("node", &self.node), ("label", &self.label)] {
            if values.text(key).is_none() {
                values.set(key, value.as_str());
            }
        }
        let prompt = match &self.inline {
            Some(inline) => inline.render_with(&values)?,
            // The engine has already expanded the variables of the prompt.
            None => values.text("prompt").unwrap_or(&self.prompt).to_owned(),
        };
        let Some(task) = &self.task else {
            return Ok(if prompt.trim().is_empty() {
                match values.text("goal") {
                    Some(goal) => self.label.replace("$goal", goal),
                    None => self.label.clone(),
                }
            } else {
                prompt
            });
        };
        values.set("prompt", prompt.as_str());
        let text = task.render_with(&values)?;
        if prompt.trim().is_empty() || task.uses("prompt") {
            Ok(text)
        } else {
            Ok(format!("{}\n\n{prompt}", text.trim_end()))
        }
    }

    /// Returns the templates that make up the message: the task, and the prompt if it is a template.
    pub fn templates(&self) -> impl Iterator<Item = &TaskTemplate> {
        self.task.iter().chain(&self.inline)
    }
}

/// The resolved settings of the model stages of a pipeline, with all diagnostics.
///
/// ```
/// use orchestra_config::{Project, ResolveOptions};
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> work -> exit; work [agent=critic] }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let resolution = Project::default().resolve(&pipeline, &ResolveOptions::default());
/// assert!(resolution.has_errors());
/// assert!(resolution.reports[0].errors().any(|diagnostic| diagnostic.code == "unknown_agent"));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Resolution {
    /// The model stages, in the order of the file.
    pub stages: Vec<ResolvedStage>,
    /// The diagnostics of each file.
    pub reports: Vec<Report>,
    /// The files that were read or looked for, including the configuration.
    pub files: Vec<FileUse>,
    /// The tools that are defined nowhere, once per location. Their diagnostics are in the reports, as `unknown_tool`.
    pub unknown_tools: Vec<UnknownTool>,
}

/// A tool that neither Orchestra nor the configuration defines; a program may still provide it.
///
/// ```
/// use orchestra_config::{Project, ResolveOptions};
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> work -> exit; work [backend=simulation, agent.tools=query_database] }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let resolution = Project::default().resolve(&pipeline, &ResolveOptions::default());
/// assert_eq!(resolution.unknown_tools[0].name, "query-database");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UnknownTool {
    /// The name of the tool, as configurations write it.
    pub name: String,
    /// The file that names it.
    pub source: Source,
    /// The diagnostic that reports it.
    pub diagnostic: Diagnostic,
}

impl Resolution {
    /// Returns the settings of a node, or `None` if the node calls no model. This method searches all stages;
    /// [`by_node`](Self::by_node) is faster for many nodes.
    pub fn stage(&self, node: &str) -> Option<&ResolvedStage> {
        self.stages.iter().find(|stage| stage.node == node)
    }

    /// Returns the settings of each node that calls a model, by the ID of the node.
    pub fn by_node(&self) -> HashMap<&str, &ResolvedStage> {
        self.stages
            .iter()
            .map(|stage| (stage.node.as_str(), stage))
            .collect()
    }

    /// Returns whether an error prevents the pipeline from running.
    pub fn has_errors(&self) -> bool {
        self.reports.iter().any(Report::has_errors)
    }
}
