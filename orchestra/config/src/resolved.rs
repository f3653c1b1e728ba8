//! What each model stage of a pipeline gets, and why.

use std::collections::HashMap;
use std::fmt;

use orchestra_graph::{Diagnostic, Report, Source};
use serde::{Deserialize, Serialize};

use crate::decode::words;
use crate::files::FileUse;
use crate::layers::LayerUse;
use crate::settings::{BackendKind, Effort, Mode};
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
        /// A rule of the graph's stylesheet. A table that runs does not tell it from the node.
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

/// A value with who chose it, and where.
///
/// ```
/// use orchestra_config::{Chosen, Reason};
/// let chosen = Chosen { value: "smart", reason: Reason::Agent, place: "orchestra.yaml:7:12".to_owned() };
/// assert_eq!(chosen.to_string(), "smart [agent]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen<T> {
    /// The value.
    pub value: T,
    /// Who chose it.
    pub reason: Reason,
    /// Where, as `file:line:column`; empty where no file says so.
    pub place: String,
}

impl<T: fmt::Display> fmt::Display for Chosen<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.value, self.reason)
    }
}

/// What a model stage gets of the configuration.
///
/// ```
/// use orchestra_config::{Project, ResolveOptions};
/// use orchestra_graph::{Source, load};
/// let files = |path: &str, _: u64| match path {
///     "orchestra.yaml" => Ok(b"providers: {default: anthropic, anthropic: {models: {smart: claude-opus-4-6}}}".to_vec()),
///     _ => Err(orchestra_graph::ReadFault::Missing),
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
    /// The node.
    pub node: String,
    /// The agent that does it.
    pub agent: Option<Chosen<String>>,
    /// The name of the backend.
    pub backend: Chosen<String>,
    /// What the backend is.
    pub backend_kind: BackendKind,
    /// The name of the provider; `None` where nothing names one.
    pub provider: Option<Chosen<String>>,
    /// The model as the provider knows it; `None` where nothing names one.
    pub model: Option<Chosen<String>>,
    /// The word that stood for the model, where that is another one.
    pub model_alias: Option<String>,
    /// How long the model may think; `None` leaves it to the provider.
    pub reasoning_effort: Option<Chosen<Effort>>,
    /// Whether a person talks with the model.
    pub mode: Chosen<Mode>,
    /// The most tokens of one answer. (`max_tokens` of a node is its budget, and no matter of the configuration.)
    pub max_tokens: Option<Chosen<u64>>,
    /// How freely the model chooses its words.
    pub temperature: Option<Chosen<f64>>,
    /// How often the model may be asked in the stage.
    pub max_turns: Option<Chosen<u64>>,
    /// The tools that the model may use, in order.
    pub tools: Vec<String>,
    /// The system prompt: role, persona and personality. Empty where there is none.
    pub system: String,
    /// The layers of the prompt, in the order in which they were put together.
    pub layers: Vec<LayerUse>,
    /// The template of the message to the model.
    pub task: Option<TaskTemplate>,
    /// The `prompt` of the node; empty where it has none.
    pub prompt: String,
    /// The prompt, or the label that stands for it, as a template; `None` where it is taken as it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<TaskTemplate>,
    /// The label of the node.
    pub label: String,
}

impl ResolvedStage {
    /// Whether the stage may change files: a program may, and a model that has a tool which is not read-only.
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
            BackendKind::Cli => true,
            BackendKind::Agent => !self.tools.iter().all(|tool| is_read_only(tool)),
        }
    }

    /// The message to the model. Without a task that is the node's prompt, else its label (Attractor 4.5). With one it
    /// is the rendered task, where the prompt is the variable `prompt`; a task that does not use it gets it appended.
    ///
    /// # Errors
    /// The template cannot be rendered with these values.
    pub fn message(&self, values: &TemplateValues) -> Result<String, TemplateError> {
        let mut values = values.clone();
        for (key, value) in [("node", &self.node), ("label", &self.label)] {
            if values.text(key).is_none() {
                values.set(key, value.as_str());
            }
        }
        let prompt = match &self.inline {
            Some(inline) => inline.render_with(&values)?,
            // The engine has expanded what the prompt holds.
            None => values.text("prompt").unwrap_or(&self.prompt).to_owned(),
        };
        let Some(task) = &self.task else {
            return Ok(match prompt.trim().is_empty() {
                true => match values.text("goal") {
                    Some(goal) => self.label.replace("$goal", goal),
                    None => self.label.clone(),
                },
                false => prompt,
            });
        };
        values.set("prompt", prompt.as_str());
        let text = task.render_with(&values)?;
        match prompt.trim().is_empty() || task.uses("prompt") {
            true => Ok(text),
            false => Ok(format!("{}\n\n{prompt}", text.trim_end())),
        }
    }

    /// Returns the templates that make the message: the task, and the prompt where it is one.
    pub fn templates(&self) -> impl Iterator<Item = &TaskTemplate> {
        self.task.iter().chain(&self.inline)
    }
}

/// What the model stages of a pipeline get, and what is wrong with that.
///
/// ```
/// use orchestra_config::{Project, ResolveOptions};
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> work -> exit; work [agent=critic] }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let resolution = Project::default().resolve(&pipeline, &ResolveOptions::default());
/// assert!(resolution.has_errors());
/// assert!(resolution.reports[0].errors().any(|fault| fault.code == "unknown_agent"));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Resolution {
    /// The model stages, in the order of the file.
    pub stages: Vec<ResolvedStage>,
    /// The faults of each file.
    pub reports: Vec<Report>,
    /// The files that were read or looked for, the configuration among them.
    pub files: Vec<FileUse>,
    /// The tools that nobody has, each place once. Their faults stand in the reports, as `unknown_tool`.
    pub unknown_tools: Vec<UnknownTool>,
}

/// A tool that neither Orchestra nor the configuration has; a program may still bring it.
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
    /// Its name, as configurations write it.
    pub name: String,
    /// The file that names it.
    pub source: Source,
    /// What is told of it there.
    pub fault: Diagnostic,
}

impl Resolution {
    /// What a node gets; `None` for one that asks no model. It searches all stages; [`by_node`](Self::by_node) is for those
    /// who ask for many.
    pub fn stage(&self, node: &str) -> Option<&ResolvedStage> {
        self.stages.iter().find(|stage| stage.node == node)
    }

    /// What each node gets that asks a model, by its id.
    pub fn by_node(&self) -> HashMap<&str, &ResolvedStage> {
        self.stages
            .iter()
            .map(|stage| (stage.node.as_str(), stage))
            .collect()
    }

    /// Whether anything keeps the pipeline from running.
    pub fn has_errors(&self) -> bool {
        self.reports.iter().any(Report::has_errors)
    }
}
