//! The choice of each value of a stage. The order of precedence is node, stylesheet, agent, graph, pipeline, project,
//! provider.
//! provider.

use std::collections::{BTreeMap, BTreeSet};

use orchestra_graph::{Diagnostic, NodeIndex, Source, Span};

use crate::candidate::{AgentLayer, Candidate, Location, of_attribute, of_configuration, of_word};
use crate::check::unknown_backend;
use crate::decode::suggestion;
use crate::layers::{LayerKind, LayerUse, Library, NoLayer, missing};
use crate::located::Located;
use crate::names::{BUILT_IN_TOOLS, tool_name};
use crate::reports::Reports;
use crate::resolve::Project;
use crate::resolved::{Chosen, Reason, ResolvedStage, UnknownTool};
use crate::rules;
use crate::settings::{Agent, BackendKind, Effort, InlinePrompts, Mode, PipelineSettings, Provider};
use crate::stage::Stages;
use crate::template::{TaskTemplate, Variables, check};

/// The usual aliases for models in configurations.
const TIERS: &[&str] = &["smart", "worker", "cheap"];

pub(crate) struct Resolver<'r> {
    pub(crate) project: &'r Project,
    pub(crate) defined: &'r BTreeMap<String, Agent>,
    /// The names of all known tools.
    pub(crate) tools: Vec<String>,
    pub(crate) stages: &'r dyn Stages,
    pub(crate) source: Source,
    pub(crate) library: &'r Library<'r>,
    pub(crate) reports: &'r mut Reports,
    pub(crate) unknown_tools: Vec<UnknownTool>,
    /// The files of the task templates that were checked.
    pub(crate) checked: BTreeSet<String>,
}

impl<'r> Resolver<'r> {
    /// Resolves all model stages.
    pub(crate) fn run(&mut self) -> Vec<ResolvedStage> {
        self.check_agents();
        let variables = self.variables();
        let nodes = self.stages.model_stages();
        let stages: Vec<ResolvedStage> = nodes
            .into_iter()
            .map(|node| self.stage(node, &variables))
            .collect();
        self.check_repositories();
        self.check_joins(&stages);
        stages
    }

    fn stage(&mut self, node: NodeIndex, variables: &Variables) -> ResolvedStage {
        let project = self.project;
        let configuration = &project.configuration;
        let stages = self.stages;
        let of_node = |name: &str| stages.of_node(node, name);
        let of_graph = |name: &str| stages.of_graph(name);
        let nobody = Agent::default();
        let agent = self.agent(node);
        let agent_layer = match &agent {
            Some((_, agent_layer)) => AgentLayer { ..*agent_layer },
            None => AgentLayer {
                agent: &nobody,
                location: Some(Location::Nowhere),
            },
        };
        let own = configuration.pipelines.get(stages.name()).map(|own| &own.value);

        let backend = self.backend(node, &agent_layer, own);
        let kind = configuration
            .backend_kind(&backend.value)
            .unwrap_or(BackendKind::Agent);
        let named_model = self.named_model(node, &agent_layer, own);
        let provider = self.provider(node, &agent_layer, own, kind, named_model.as_ref());
        let settings = provider
            .as_ref()
            .and_then(|provider| configuration.providers.named.get(&provider.value))
            .map(|settings| &settings.value);
        let (model, alias) = self.model(node, named_model, kind, provider.as_ref(), settings);
        let effort = of_word(of_node("reasoning_effort"), Effort::from_name)
            .or_else(|| agent_layer.candidate(&agent_layer.agent.reasoning_effort))
            .or_else(|| of_word(of_graph("reasoning_effort"), Effort::from_name))
            .or_else(|| {
                of_configuration(
                    own.and_then(|own| own.reasoning_effort.as_ref()),
                    Reason::Pipeline,
                )
            });
        let mode = of_word(of_node("agent.mode"), Mode::from_name)
            .or_else(|| agent_layer.candidate(&agent_layer.agent.mode))
            .or_else(|| of_configuration(own.and_then(|own| own.mode.as_ref()), Reason::Pipeline))
            .unwrap_or(Candidate {
                value: Mode::Autonomous,
                reason: Reason::Default,
                location: Location::Nowhere,
            });
        let max_tokens = agent_layer
            .candidate(&agent_layer.agent.max_tokens)
            .or_else(|| of_configuration(own.and_then(|own| own.max_tokens.as_ref()), Reason::Pipeline))
            .or_else(|| of_configuration(settings.and_then(|own| own.max_tokens.as_ref()), Reason::Provider));
        let definition = configuration.backends.get(&backend.value);
        let max_turns = agent_layer
            .candidate(&agent_layer.agent.max_turns)
            .or_else(|| of_configuration(own.and_then(|own| own.max_turns.as_ref()), Reason::Pipeline))
            .or_else(|| of_configuration(definition.and_then(|own| own.max_turns.as_ref()), Reason::Backend));
        let temperature = agent_layer.candidate(&agent_layer.agent.temperature);
        self.check_mode(node, &mode, &backend, kind);
        self.check_hooks(node, &backend, kind);
        let tools = self.tools(node, &agent_layer, &backend, kind);
        let (system, mut layers) = self.system(node, &agent_layer);
        let task = self.task(node, &agent_layer, variables, &mut layers);
        let inline = self.inline(node, task.is_some(), variables);
        self.check_fidelity(node, &backend, kind);
        ResolvedStage {
            node: stages.id(node).to_owned(),
            agent: agent.map(|(name, _)| self.chosen(name)),
            backend: self.chosen(backend),
            backend_kind: kind,
            provider: provider.map(|provider| self.chosen(provider)),
            model: model.map(|model| self.chosen(model)),
            model_alias: alias,
            reasoning_effort: effort.map(|effort| self.chosen(effort)),
            mode: self.chosen(mode),
            max_tokens: max_tokens.map(|tokens| self.chosen(tokens)),
            temperature: temperature.map(|temperature| self.chosen(temperature)),
            max_turns: max_turns.map(|turns| self.chosen(turns)),
            tools,
            system,
            layers,
            task,
            prompt: of_node("prompt").map_or_else(String::new, |attribute| attribute.text.into_owned()),
            label: stages.label(node).to_owned(),
            inline,
        }
    }

    /// Returns the prompt as a template if the graph or the project declares prompts as templates (rule F3).
    fn inline(&mut self, node: NodeIndex, has_task: bool, variables: &Variables) -> Option<TaskTemplate> {
        let stages = self.stages;
        let prompt = stages
            .of_node(node, "prompt")
            .filter(|attribute| attribute.is_filled());
        let stands_for_it = prompt.is_none() && !has_task;
        let attribute = prompt.or_else(|| stages.of_node(node, "label").filter(|_| stands_for_it))?;
        let configured = self.project.configuration.prompts.inline.as_ref();
        let is_template = match stages.of_graph("prompt_templates") {
            Some(attribute) => attribute.text == "true",
            None => configured.is_some_and(|inline| inline.value == InlinePrompts::Template),
        };
        if !is_template {
            if attribute.text.contains("{{") {
                let told = Diagnostic::from_rule(
                    &rules::LITERAL_TEMPLATE,
                    "the prompt is not a template, so `{{` stands as it is written",
                    attribute.span,
                );
                let told =
                    told.help("write `prompt_templates=true` on the graph to make all prompts templates");
                self.reports.add(&self.source, told.node(stages.id(node)));
            }
            return None;
        }
        let text = attribute.text.replace("$goal", "{{ goal }}");
        for diagnostic in check(&text, variables) {
            let part = text.get(diagnostic.range).unwrap_or_default();
            let told = Diagnostic::from_rule(diagnostic.rule, diagnostic.message, attribute.span);
            let told = told
                .help(diagnostic.help)
                .note(format!("in the prompt, at `{part}`"));
            self.reports.add(&self.source, told.node(stages.id(node)));
        }
        let mut template = TaskTemplate::new(stages.id(node), self.source.name(), text);
        let position = self.source.position(attribute.span.start);
        template
            .lines
            .iter_mut()
            .for_each(|line| *line = (position.line, position.column));
        Some(template)
    }

    /// Reports a stage that would have to continue a conversation in a program, which starts afresh each time (rule
    /// F5).
    fn check_fidelity(&mut self, node: NodeIndex, backend: &Candidate<String>, kind: BackendKind) {
        if kind != BackendKind::Cli {
            return;
        }
        let Some(span) = self.stages.full_fidelity(node) else {
            return;
        };
        let message = format!(
            "the backend `{}` cannot go on with a conversation, as the fidelity `full` of `{}` wants",
            backend.value,
            self.stages.id(node)
        );
        self.tell(node, Location::Pipeline(span), |span| {
            Diagnostic::from_rule(&rules::BACKEND_CAPABILITY, message, span)
                .note("a program begins anew at each stage")
                .help("write `fidelity=\"summary:high\"` on the node, or choose a backend of the kind `agent` or `direct`")
        });
    }

    fn chosen<T>(&self, candidate: Candidate<T>) -> Chosen<T> {
        let location = match candidate.location {
            Location::Pipeline(span) => shown(&self.source, span),
            Location::Configuration(span) => shown(&self.project.report.source, span),
            Location::Nowhere => String::new(),
        };
        Chosen {
            value: candidate.value,
            reason: candidate.reason,
            location,
        }
    }

    /// Reports a diagnostic at the location where it can be fixed.
    pub(crate) fn tell(
        &mut self,
        node: NodeIndex,
        location: Location,
        diagnostic: impl FnOnce(Span) -> Diagnostic,
    ) {
        match location {
            Location::Configuration(span) => {
                let source = self.project.report.source.clone();
                self.reports.add(&source, diagnostic(span));
            }
            Location::Pipeline(span) => {
                let diagnostic = diagnostic(span).node(self.stages.id(node));
                self.reports.add(&self.source, diagnostic);
            }
            Location::Nowhere => {
                let diagnostic = diagnostic(self.stages.node_span(node)).node(self.stages.id(node));
                self.reports.add(&self.source, diagnostic);
            }
        }
    }

    /// Returns the agent of a stage with its name. Reports an unknown agent.
    fn agent(&mut self, node: NodeIndex) -> Option<(Candidate<String>, AgentLayer<'r>)> {
        let name = of_attribute(self.stages.of_node(node, "agent"))?;
        let (configured, defined) = (&self.project.configuration.agents, self.defined);
        if let Some(agent) = configured.get(&name.value) {
            let agent = &agent.value;
            return Some((
                name,
                AgentLayer {
                    agent,
                    location: None,
                },
            ));
        }
        if let Some(agent) = defined.get(&name.value) {
            let location = Some(name.location);
            return Some((name, AgentLayer { agent, location }));
        }
        let known: Vec<&str> = configured
            .keys()
            .chain(defined.keys())
            .map(String::as_str)
            .collect();
        let help = if known.is_empty() {
            "define it in `agents` of the configuration".to_owned()
        } else {
            suggestion(&name.value, &known)
        };
        let message = format!("unknown agent `{}`", name.value);
        self.tell(node, name.location, |span| {
            Diagnostic::from_rule(&rules::UNKNOWN_AGENT, message, span).help(help)
        });
        None
    }

    fn backend(
        &mut self,
        node: NodeIndex,
        agent_layer: &AgentLayer<'_>,
        own: Option<&PipelineSettings>,
    ) -> Candidate<String> {
        let configuration = &self.project.configuration;
        let chosen = of_attribute(self.stages.of_node(node, "backend"))
            .or_else(|| agent_layer.candidate(&agent_layer.agent.backend))
            .or_else(|| of_attribute(self.stages.of_graph("backend")))
            .or_else(|| of_configuration(own.and_then(|own| own.backend.as_ref()), Reason::Pipeline))
            .or_else(|| of_configuration(configuration.backend.as_ref(), Reason::Project))
            .unwrap_or(Candidate {
                value: BackendKind::Agent.word().to_owned(),
                reason: Reason::Default,
                location: Location::Nowhere,
            });
        // A backend without a kind has been reported with the configuration.
        let defined = configuration.backends.contains_key(&chosen.value);
        if configuration.backend_kind(&chosen.value).is_none() && !defined {
            self.tell(node, chosen.location, |span| {
                unknown_backend(configuration, &chosen.value, span)
            });
        }
        chosen
    }

    /// Returns the model that is named for the stage, by its own name or by an alias of a provider.
    fn named_model(
        &self,
        node: NodeIndex,
        agent_layer: &AgentLayer<'_>,
        own: Option<&PipelineSettings>,
    ) -> Option<Candidate<String>> {
        of_attribute(self.stages.of_node(node, "llm_model"))
            .or_else(|| agent_layer.candidate(&agent_layer.agent.model))
            .or_else(|| of_attribute(self.stages.of_graph("llm_model")))
            .or_else(|| of_configuration(own.and_then(|own| own.model.as_ref()), Reason::Pipeline))
    }

    /// Returns the model and the alias that it was named by.
    fn model(
        &mut self,
        node: NodeIndex,
        named: Option<Candidate<String>>,
        kind: BackendKind,
        provider: Option<&Candidate<String>>,
        settings: Option<&Provider>,
    ) -> (Option<Candidate<String>>, Option<String>) {
        let smart = || {
            let smart = settings?.models.get_key_value("smart")?;
            Some(Candidate {
                value: smart.0.clone(),
                reason: Reason::Provider,
                location: Location::Configuration(smart.1.span),
            })
        };
        let chosen = named
            .or_else(|| {
                of_configuration(
                    settings.and_then(|own| own.default_model.as_ref()),
                    Reason::Provider,
                )
            })
            .or_else(smart);
        let Some(mut chosen) = chosen else {
            // An unknown provider has already been reported.
            let known = |name: &str| self.project.configuration.provider_kind(name).is_some();
            if let Some(provider) = provider.filter(|named| kind.needs_model() && known(&named.value)) {
                let message = format!(
                    "nothing says which model of `{}` does `{}`",
                    provider.value,
                    self.stages.id(node)
                );
                self.tell(node, Location::Nowhere, |span| {
                    Diagnostic::from_rule(&rules::UNRESOLVED_MODEL, message, span).help(
                        "give the provider `models: {smart: ..}` or a `default_model`, or set `llm_model`",
                    )
                });
            }
            return (None, None);
        };
        // Aliases can only be resolved with a provider.
        let Some(provider) = provider else {
            return (Some(chosen), None);
        };
        if let Some(model) = settings.and_then(|settings| settings.models.get(&chosen.value)) {
            let alias = std::mem::replace(&mut chosen.value, model.value.clone());
            return (Some(chosen), Some(alias));
        }
        let mut others = self.project.configuration.providers.named.values();
        let tier = TIERS.contains(&chosen.value.as_str());
        if kind.needs_model() && (tier || others.any(|other| other.models.contains_key(&chosen.value))) {
            let message = format!(
                "the provider `{}` has no model `{}`",
                provider.value, chosen.value
            );
            let known: Vec<&str> = settings
                .into_iter()
                .flat_map(|settings| settings.models.keys().map(String::as_str))
                .collect();
            let help = if known.is_empty() {
                format!("add `models: {{{}: ..}}` to the provider", chosen.value)
            } else {
                suggestion(&chosen.value, &known)
            };
            self.tell(node, chosen.location, |span| {
                Diagnostic::from_rule(&rules::UNRESOLVED_MODEL, message, span)
                    .note("it is a name that a configuration gives to a model, no model itself")
                    .help(help)
            });
        }
        (Some(chosen), None)
    }

    /// Returns the tools of a stage. The tools that the node, or else its agent, names are added to those of the
    /// backend, or to the agent's `only_tools`. An empty list leaves the stage without tools.
    fn tools(
        &mut self,
        node: NodeIndex,
        agent_layer: &AgentLayer<'_>,
        backend: &Candidate<String>,
        kind: BackendKind,
    ) -> Vec<String> {
        let listed = |list: &Option<Vec<Located<String>>>| {
            list.as_ref().map(|list| {
                let location = |name: &Located<String>| {
                    agent_layer.location.unwrap_or(Location::Configuration(name.span))
                };
                list.iter()
                    .map(|name| (tool_name(name), location(name)))
                    .collect::<Vec<_>>()
            })
        };
        let of_node = self.stages.of_node(node, "agent.tools").map(|attribute| {
            let location = Location::Pipeline(attribute.span);
            let names = attribute
                .text
                .split(',')
                .map(tool_name)
                .filter(|name| !name.is_empty());
            names.map(|name| (name, location)).collect::<Vec<_>>()
        });
        let from_node = of_node.is_some();
        let added = of_node.or_else(|| listed(&agent_layer.agent.tools));
        let only = listed(&agent_layer.agent.only_tools);
        let first = added
            .iter()
            .chain(&only)
            .flatten()
            .next()
            .map(|(_, location)| *location);
        if let (Some(location), false) = (first, kind.has_tools()) {
            let message = format!("the backend `{}` gives its model no tools", backend.value);
            let note = match kind {
                BackendKind::Cli => "a program that is an agent has tools of its own",
                _ => "a backend of the kind `direct` asks its model once",
            };
            self.tell(node, location, |span| {
                Diagnostic::from_rule(&rules::BACKEND_CAPABILITY, message, span)
                    .note(note)
                    .help("choose a backend of the kind `agent`, or name no tools")
            });
        }
        for (name, location) in added.iter().chain(&only).flatten() {
            // The tools in the configuration are checked by `check_agents`.
            let checked = matches!(location, Location::Configuration(_));
            if !checked && !self.tools.contains(name) {
                self.unknown_tool(node, name, *location);
            }
        }
        if !kind.has_tools() {
            return Vec::new();
        }
        let none = added.as_ref().is_some_and(Vec::is_empty) && (from_node || only.is_none());
        let mut tools: Vec<String> = match only {
            _ if none => Vec::new(),
            Some(only) => only.into_iter().map(|(name, _)| name).collect(),
            None => BUILT_IN_TOOLS.iter().map(|name| (*name).to_owned()).collect(),
        };
        tools.extend(added.into_iter().flatten().map(|(name, _)| name));
        tools.sort_unstable();
        tools.dedup();
        tools
    }

    fn unknown_tool(&mut self, node: NodeIndex, name: &str, location: Location) {
        let span = match location {
            Location::Pipeline(span) | Location::Configuration(span) => span,
            Location::Nowhere => self.stages.node_span(node),
        };
        let diagnostic = unknown_tool(name, &self.tools, span).node(self.stages.id(node));
        let source = self.source.clone();
        self.tell_unknown_tool(name, source, diagnostic);
    }

    fn tell_unknown_tool(&mut self, name: &str, source: Source, diagnostic: Diagnostic) {
        self.reports.add(&source, diagnostic.clone());
        let name = tool_name(name);
        let told = |known: &UnknownTool| known.name == name && known.diagnostic.span == diagnostic.span;
        if !self.unknown_tools.iter().any(told) {
            self.unknown_tools.push(UnknownTool {
                name,
                source,
                diagnostic,
            });
        }
    }

    /// Checks the tools of all agents of the configuration, even of those that no stage uses.
    fn check_agents(&mut self) {
        let source = self.project.report.source.clone();
        for agent in self.project.configuration.agents.values() {
            for name in agent.tools.iter().chain(&agent.only_tools).flatten() {
                if !self.tools.contains(&tool_name(name)) {
                    let diagnostic = unknown_tool(name, &self.tools, name.span);
                    self.tell_unknown_tool(name, source.clone(), diagnostic);
                }
            }
        }
    }

    /// Returns the layer that the node, or else its agent, names.
    fn layer_name(
        &self,
        node: NodeIndex,
        agent_layer: &AgentLayer<'_>,
        kind: LayerKind,
    ) -> Option<Candidate<String>> {
        let of_agent = match kind {
            LayerKind::Role => &agent_layer.agent.role,
            LayerKind::Persona => &agent_layer.agent.persona,
            LayerKind::Personality => &agent_layer.agent.personality,
            LayerKind::Task => &agent_layer.agent.task,
        };
        of_attribute(self.stages.of_node(node, &format!("agent.{kind}")))
            .or_else(|| agent_layer.candidate(of_agent))
    }

    /// Returns the system prompt: role, persona and personality, each with the layers it extends. No layer occurs
    /// twice.
    fn system(&mut self, node: NodeIndex, agent_layer: &AgentLayer<'_>) -> (String, Vec<LayerUse>) {
        let mut texts: Vec<String> = Vec::new();
        let mut layers: Vec<LayerUse> = Vec::new();
        for kind in [LayerKind::Role, LayerKind::Persona, LayerKind::Personality] {
            let Some(name) = self.layer_name(node, agent_layer, kind) else {
                continue;
            };
            match self.library.chain(kind, &name.value, self.reports) {
                Ok(chain) => {
                    for layer in chain {
                        let used = layer.used();
                        if !layers.contains(&used) {
                            texts.push(layer.text.trim().to_owned());
                            layers.push(used);
                        }
                    }
                }
                Err(NoLayer::Invalid) => {}
                Err(why) => self.tell(node, name.location, |span| missing(kind, &name.value, span, &why)),
            }
        }
        texts.retain(|text| !text.is_empty());
        (texts.join("\n\n"), layers)
    }

    fn task(
        &mut self,
        node: NodeIndex,
        agent_layer: &AgentLayer<'_>,
        variables: &Variables,
        layers: &mut Vec<LayerUse>,
    ) -> Option<TaskTemplate> {
        let name = self.layer_name(node, agent_layer, LayerKind::Task)?;
        let layer = match self.library.find(LayerKind::Task, &name.value, self.reports) {
            Ok(layer) => layer,
            Err(NoLayer::Invalid) => return None,
            Err(why) => {
                self.tell(node, name.location, |span| {
                    missing(LayerKind::Task, &name.value, span, &why)
                });
                return None;
            }
        };
        // Every stage of a pipeline has the same variables, so each task is checked once.
        let diagnostics = if self.checked.insert(layer.path.clone()) {
            check(&layer.text, variables)
        } else {
            Vec::new()
        };
        for diagnostic in diagnostics {
            let span = layer.span(diagnostic.range);
            let told = Diagnostic::from_rule(diagnostic.rule, diagnostic.message, span).help(diagnostic.help);
            let told = told.note(format!("the stage `{}` uses this task", self.stages.id(node)));
            self.reports.add(&layer.source, told);
        }
        layers.push(layer.used());
        Some(layer.template())
    }

    /// Returns the variables that the templates of this pipeline may use.
    fn variables(&self) -> Variables {
        let mut variables = Variables::built_in();
        for key in self.stages.graph_keys() {
            variables.add(&format!("graph.{key}"));
        }
        variables.add("graph.goal");
        let own = self.project.configuration.pipelines.get(self.stages.name());
        for input in own.iter().flat_map(|own| &own.inputs) {
            variables.add(input);
        }
        let inputs = self.stages.of_graph("inputs");
        for input in inputs.iter().flat_map(|attribute| attribute.text.split(',')) {
            variables.add(input);
        }
        for at in 0..self.stages.count() {
            let node = NodeIndex(u32::try_from(at).unwrap_or(u32::MAX));
            variables.add_node(self.stages.id(node));
            let keys = self.stages.of_node(node, "output_keys");
            for key in keys.iter().flat_map(|attribute| attribute.text.split(',')) {
                variables.add(key);
            }
        }
        variables
    }
}

/// Returns the diagnostic for an unknown tool.
fn unknown_tool(name: &str, known: &[String], span: Span) -> Diagnostic {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let diagnostic = Diagnostic::from_rule(&rules::UNKNOWN_TOOL, format!("unknown tool `{name}`"), span);
    let repositories: Vec<&str> = known
        .iter()
        .filter_map(|name| Some(name.split_once(':')?.0))
        .collect();
    match name.split_once(':') {
        Some((repository, _)) if !repositories.contains(&repository) => diagnostic
            .note(format!("the workspace has no repository `{repository}`"))
            .help(suggestion(name, &known)),
        _ => diagnostic.help(suggestion(name, &known)),
    }
}

fn shown(source: &Source, span: Span) -> String {
    let position = source.position(span.start);
    format!("{}:{}:{}", source.name(), position.line, position.column)
}
