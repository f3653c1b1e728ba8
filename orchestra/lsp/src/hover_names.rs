//! Hover over the names inside of values: nodes, keys, agents, prompt layers, models, answers and files.

use std::fmt::Write;

use orchestra_config::{LayerKind, ResolveOptions, template_variables};
use orchestra_graph::{
    Choice, EdgeIndex, Known, Loaded, LoadedChild, NodeIndex, Span, Symbol, choice_named, graph_choices,
    kind, label_text, normalize_label, occurrences,
};

use crate::cursor::Opened;
use crate::files::Files;
use crate::hover_node::{chosen, node_doc};
use crate::layer_doc::layer_doc;
use crate::markdown::{agent, block, code, codes, model};
use crate::paths::absolute;
use crate::place::MAX_BYTES;
use crate::template_scope::TemplateScope;

/// A position in the value of an attribute.
pub(crate) struct NamePlace<'p> {
    pub(crate) opened: &'p Opened,
    pub(crate) files: &'p Files<'p>,
    /// The node that has the attribute.
    pub(crate) node: Option<NodeIndex>,
    pub(crate) offset: u32,
}

impl NamePlace<'_> {
    /// Returns the documentation of the name at the position, with its span.
    pub(crate) fn doc(&self) -> Option<(String, Span)> {
        let loaded = &self.opened.analysis.loaded;
        let mut found = occurrences(loaded).into_iter();
        let found = found.find(|found| found.span.start <= self.offset && self.offset <= found.span.end);
        match found {
            Some(found) => Some((self.symbol(&found.symbol)?, found.span)),
            None => self.variable(),
        }
    }

    fn symbol(&self, symbol: &Symbol) -> Option<String> {
        let opened = self.opened;
        let loaded = &opened.analysis.loaded;
        let configuration = &opened.analysis.configured.project.configuration;
        Some(match symbol {
            Symbol::Node(id) => node_doc(opened, loaded.graph.find(id)?),
            Symbol::Key(key) => {
                let key = format!("context.{key}");
                let names = loaded.condition_names(NodeIndex(u32::MAX)).keys.into_iter();
                let (_, doc) = names.into_iter().find(|(name, _)| *name == key)?;
                format!("**context value** {}\n\n{doc}", code(&key))
            }
            Symbol::Agent(name) => agent_doc(opened, name)?,
            Symbol::Tool(name) => {
                let description = configuration
                    .tools
                    .get(name.as_str())?
                    .value
                    .description
                    .as_ref()?;
                format!("**tool** {}\n\n{}", code(name), description.value)
            }
            Symbol::Role(name) => self.layer(LayerKind::Role, name)?,
            Symbol::Persona(name) => self.layer(LayerKind::Persona, name)?,
            Symbol::Personality(name) => self.layer(LayerKind::Personality, name)?,
            Symbol::Task(name) => self.layer(LayerKind::Task, name)?,
            Symbol::Model(name) => self.model(name),
            Symbol::Provider(name) => {
                let kind = configuration.provider_kind(name)?;
                format!("**provider** {} (kind {})", code(name), code(kind.word()))
            }
            Symbol::Backend(name) => {
                let kind = configuration.backend_kind(name)?;
                format!("**backend** {} (kind {})", code(name), code(kind.word()))
            }
            Symbol::Label {
                node: Some(id),
                label,
            } => answer_doc(opened, loaded.graph.find(id)?, label)?,
            Symbol::ChildFile(file) => {
                let mut children = loaded.children.iter();
                child_doc(children.find(|child| child.loaded.source.name() == file)?)
            }
            Symbol::PromptFile(file) => {
                let path = absolute(&opened.analysis.root, file);
                let bytes = self.files.read(&path, MAX_BYTES).ok()?;
                format!(
                    "**prompt file** {}\n\n{}",
                    code(file),
                    block(&String::from_utf8_lossy(&bytes))
                )
            }
            _ => return None,
        })
    }

    /// Returns the documentation of a variable in a prompt.
    fn variable(&self) -> Option<(String, Span)> {
        let analysis = &self.opened.analysis;
        let prompt = analysis
            .loaded
            .graph
            .node(self.node?)
            .attributes
            .get(Known::Prompt)?;
        let graph = analysis.loaded.analysis();
        let variables = template_variables(prompt.value.as_str()?);
        let (variable, span) = variables.into_iter().find_map(|variable| {
            let (first, last) = variable.parts.first().zip(variable.parts.last())?;
            let span = graph.inside(prompt.value_span, first.start..last.end);
            (span.start <= self.offset && self.offset <= span.end).then_some((variable, span))
        })?;
        let mut scope = TemplateScope::default();
        scope.add(analysis, self.node);
        Some((scope.describe(&variable)?, span))
    }

    fn layer(&self, kind: LayerKind, name: &str) -> Option<String> {
        let analysis = &self.opened.analysis;
        let options = ResolveOptions {
            user_folder: analysis.configured.user.prompts.clone(),
            ..ResolveOptions::default()
        };
        let project = &analysis.configured.project;
        let folders = project.prompt_folders(analysis.loaded.source.name(), &options);
        layer_doc(self.files, (&analysis.root, &folders), kind, name)
    }

    /// Returns what a model stands for, and who decided the model of the stage.
    fn model(&self, name: &str) -> String {
        let analysis = &self.opened.analysis;
        let mut text = model(name, &analysis.configured.project.configuration);
        let id = self.node.map(|node| &*analysis.loaded.graph.node(node).id);
        let stage = id.and_then(|id| analysis.resolution()?.stage(id));
        if let Some(stage) = stage {
            let provider = stage
                .provider
                .as_ref()
                .map(|provider| format!(" at {}", chosen(provider)));
            if let Some(model) = &stage.model {
                let _ = write!(
                    text,
                    "\n- {} runs on {}{}",
                    code(&stage.node),
                    chosen(model),
                    provider.unwrap_or_default()
                );
            }
        }
        text
    }
}

/// Returns the documentation of an agent of the project or of the user.
pub(crate) fn agent_doc(opened: &Opened, name: &str) -> Option<String> {
    let configured = &opened.analysis.configured;
    let configuration = &configured.project.configuration;
    let of_project = configuration.agents.get(name).map(|agent| &agent.value);
    let found = of_project.or_else(|| configured.user.files.agents.get(name))?;
    Some(agent(name, found, configuration))
}

/// Returns the choice of a human gate to which an edge belongs.
pub(crate) fn choice_of(loaded: &Loaded, at: EdgeIndex) -> Option<Choice> {
    let edge = loaded.graph.edge(at);
    let label = edge.attributes.filled(Known::Label);
    let label = label.unwrap_or(&loaded.graph.node(edge.to).id);
    let mut choices = graph_choices(&loaded.analysis(), edge.from).into_iter();
    choices.find(|choice| normalize_label(&choice.label) == normalize_label(label))
}

/// Returns the documentation of an answer at a human gate: its key, and where it leads.
pub(crate) fn answer_doc(opened: &Opened, gate: NodeIndex, answer: &str) -> Option<String> {
    let loaded = &opened.analysis.loaded;
    let graph = &loaded.graph;
    let choices = graph_choices(&loaded.analysis(), gate);
    let names = choices
        .iter()
        .map(|choice| [&*choice.key, &*choice.label, &*graph.node(choice.to).id]);
    let choice = choices.get(choice_named(names, answer)?)?;
    Some(format!(
        "**answer** {} with the key {}, leads to {}",
        code(label_text(&choice.label)),
        code(&choice.key),
        code(&graph.node(choice.to).id)
    ))
}

/// Returns the documentation of a child pipeline: its goal, what it needs, and where it ends.
fn child_doc(child: &LoadedChild) -> String {
    let loaded = &child.loaded;
    let (graph, analysis) = (&loaded.graph, loaded.analysis());
    let mut parts = vec![format!(
        "**pipeline** {} ({})",
        code(&graph.name),
        loaded.source.name()
    )];
    let text = |known: Known| graph.attributes.filled(known);
    parts.extend(text(Known::Goal).map(str::to_owned));
    parts.extend(text(Known::Inputs).map(|inputs| format!("Inputs: {}", code(inputs))));
    if loaded.report.has_errors() {
        parts.push("It has errors, so it cannot run.".to_owned());
        return parts.join("\n\n");
    }
    let last = graph
        .indexed_nodes()
        .filter(|(at, _)| analysis.outgoing(*at).is_empty());
    let first_match = text(Known::Routing) == Some("first_match");
    let (mut succeeding, mut failing) = (Vec::new(), Vec::new());
    for (at, node) in last {
        let succeeds = node.attributes.text(Known::End).map(|end| end == "success");
        match succeeds.unwrap_or_else(|| first_match || analysis.kind(at) == kind::EXIT) {
            true => succeeding.push(&*node.id),
            false => failing.push(&*node.id),
        }
    }
    for (what, ids) in [("Succeeds at", succeeding), ("Fails at", failing)] {
        if !ids.is_empty() {
            parts.push(format!("{what} {}.", codes(ids)));
        }
    }
    parts.join("\n\n")
}
