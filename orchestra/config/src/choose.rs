//! The choice of each value of a stage. The order of precedence is node, stylesheet, agent, graph, pipeline, project,
//! provider.

use std::collections::{BTreeMap, BTreeSet};

use orchestra_graph::{Diagnostic, MissingValues, NodeIndex, Source, Span};

use crate::backend::BackendKind;
use crate::candidate::{AgentLayer, Candidate, Location, from_attribute, from_configuration, from_word};
use crate::check::unknown_backend;
use crate::layers::Library;
use crate::located::Located;
use crate::model_chain::Fallback;
use crate::project::Project;
use crate::reports::Reports;
use crate::resolved::{Chosen, FallbackModel, Reason, ResolvedStage, UnknownTool};
use crate::rules;
use crate::settings::{Agent, Mode, PipelineSettings, Provider, ReasoningEffort};
use crate::stage::Stages;
use crate::suggestion::{Hint, in_value, in_yaml, name_in_value, suggestion};
use crate::template_names::variables;
use crate::variables::Variables;

/// The usual aliases for models in configurations.
const TIERS: &[&str] = &["smart", "worker", "cheap"];

/// The resolver of the stages of one pipeline: the project that it reads, and the results that it collects.
pub(crate) struct Resolver<'r> {
    pub(crate) project: &'r Project,
    pub(crate) defined: &'r BTreeMap<String, Agent>,
    /// The names of all known tools.
    pub(crate) tools: Vec<String>,
    pub(crate) stages: &'r dyn Stages,
    /// The declared values that may be missing; `None` at run time, when they have been checked.
    pub(crate) missing: Option<MissingValues<'r>>,
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
        let variables = variables(self.project, self.stages);
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
        let fallbacks = self.fallbacks(alias.as_deref(), provider.as_ref(), settings);
        let effort = from_word(of_node("reasoning_effort"), ReasoningEffort::from_name)
            .or_else(|| agent_layer.candidate(&agent_layer.agent.reasoning_effort))
            .or_else(|| from_word(of_graph("reasoning_effort"), ReasoningEffort::from_name))
            .or_else(|| {
                from_configuration(
                    own.and_then(|own| own.reasoning_effort.as_ref()),
                    Reason::Pipeline,
                )
            });
        let mode = from_word(of_node("agent.mode"), Mode::from_name)
            .or_else(|| agent_layer.candidate(&agent_layer.agent.mode))
            .or_else(|| from_configuration(own.and_then(|own| own.mode.as_ref()), Reason::Pipeline))
            .unwrap_or(Candidate {
                value: Mode::Autonomous,
                reason: Reason::Default,
                location: Location::Nowhere,
            });
        let max_tokens = agent_layer
            .candidate(&agent_layer.agent.max_tokens)
            .or_else(|| from_configuration(own.and_then(|own| own.max_tokens.as_ref()), Reason::Pipeline))
            .or_else(|| {
                from_configuration(settings.and_then(|own| own.max_tokens.as_ref()), Reason::Provider)
            });
        let definition = configuration.backends.get(&backend.value);
        let max_turns = agent_layer
            .candidate(&agent_layer.agent.max_turns)
            .or_else(|| from_configuration(own.and_then(|own| own.max_turns.as_ref()), Reason::Pipeline))
            .or_else(|| {
                from_configuration(definition.and_then(|own| own.max_turns.as_ref()), Reason::Backend)
            });
        self.check_program_model(node, &backend, provider.as_ref(), model.as_ref());
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
            fallbacks,
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
            read_only: definition.is_some_and(|own| own.value.is_read_only()),
            inline,
        }
    }

    fn chosen<T>(&self, candidate: Candidate<T>) -> Chosen<T> {
        let location = match candidate.location {
            Location::Pipeline(span) | Location::Agent(span) => shown(&self.source, span),
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
    pub(crate) fn report(
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
            Location::Pipeline(span) | Location::Agent(span) => {
                let diagnostic = diagnostic(span).node(self.stages.id(node));
                self.reports.add(&self.source, diagnostic);
            }
            Location::Nowhere => {
                let diagnostic = diagnostic(self.stages.node_span(node)).node(self.stages.id(node));
                self.reports.add(&self.source, diagnostic);
            }
        }
    }

    /// Reports a diagnostic about a name at exactly the name, with a hint on how to correct it.
    pub(crate) fn report_name(
        &mut self,
        node: NodeIndex,
        location: Location,
        name: &str,
        diagnostic: impl FnOnce(Span) -> (Diagnostic, Hint),
    ) {
        let (pipeline, configuration) = (self.source.clone(), self.project.report.source.clone());
        let has_spans = self.stages.has_spans();
        self.report(node, location, |span| {
            let (diagnostic, hint) = diagnostic(span);
            match location {
                Location::Configuration(_) => in_yaml(&configuration, diagnostic, name, hint),
                Location::Pipeline(_) if has_spans => {
                    let range = name_in_value(&pipeline, span, name);
                    in_value(&pipeline, diagnostic, range, hint)
                }
                _ => in_value(&pipeline, diagnostic, None, hint),
            }
        });
    }

    /// Returns the agent of a stage with its name. Reports an unknown agent.
    fn agent(&mut self, node: NodeIndex) -> Option<(Candidate<String>, AgentLayer<'r>)> {
        let name = from_attribute(self.stages.of_node(node, "agent"))?;
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
            let location = match name.location {
                Location::Pipeline(span) => Location::Agent(span),
                other => other,
            };
            let location = Some(location);
            return Some((name, AgentLayer { agent, location }));
        }
        let known: Vec<&str> = configured
            .keys()
            .chain(defined.keys())
            .map(String::as_str)
            .collect();
        let hint = if known.is_empty() {
            "define it in `agents` of the configuration".into()
        } else {
            suggestion(&name.value, &known)
        };
        let message = format!("unknown agent `{}`", name.value);
        self.report_name(node, name.location, &name.value, |span| {
            (Diagnostic::from_rule(&rules::UNKNOWN_AGENT, message, span), hint)
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
        let chosen = from_attribute(self.stages.of_node(node, "backend"))
            .or_else(|| agent_layer.candidate(&agent_layer.agent.backend))
            .or_else(|| from_attribute(self.stages.of_graph("backend")))
            .or_else(|| from_configuration(own.and_then(|own| own.backend.as_ref()), Reason::Pipeline))
            .or_else(|| from_configuration(configuration.backend.as_ref(), Reason::Project))
            .unwrap_or(Candidate {
                value: BackendKind::Agent.word().to_owned(),
                reason: Reason::Default,
                location: Location::Nowhere,
            });
        // A backend without a kind has been reported with the configuration.
        let defined = configuration.backends.contains_key(&chosen.value);
        if configuration.backend_kind(&chosen.value).is_none() && !defined {
            self.report_name(node, chosen.location, &chosen.value, |span| {
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
        from_attribute(self.stages.of_node(node, "llm_model"))
            .or_else(|| agent_layer.candidate(&agent_layer.agent.model))
            .or_else(|| from_attribute(self.stages.of_graph("llm_model")))
            .or_else(|| from_configuration(own.and_then(|own| own.model.as_ref()), Reason::Pipeline))
    }

    /// Returns the models that are asked if that of the alias does not answer.
    fn fallbacks(
        &self,
        alias: Option<&str>,
        provider: Option<&Candidate<String>>,
        settings: Option<&Provider>,
    ) -> Vec<FallbackModel> {
        let (Some(alias), Some(own)) = (alias, provider) else {
            return Vec::new();
        };
        let chain = settings.and_then(|settings| settings.models.get(alias));
        let fallbacks = chain.into_iter().flat_map(|chain| &chain.fallbacks);
        let named = &self.project.configuration.providers.named;
        let resolve = |fallback: &Located<Fallback>| {
            let model = fallback.model.as_ref()?;
            let other = fallback.provider.as_ref();
            let settings = other.and_then(|other| named.get(other.as_str()));
            let meant = settings.and_then(|settings| settings.value.models.get(model.as_str()));
            Some(FallbackModel {
                provider: other.map_or(&own.value, |other| &other.value).clone(),
                model: meant.map_or(&model.value, |meant| &meant.model).clone(),
                location: shown(&self.project.report.source, fallback.span),
            })
        };
        fallbacks.filter_map(resolve).collect()
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
                from_configuration(
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
                    "no model of `{}` is named for `{}`",
                    provider.value,
                    self.stages.id(node)
                );
                self.report(node, Location::Nowhere, |span| {
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
            let alias = std::mem::replace(&mut chosen.value, model.model.clone());
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
            let hint = if known.is_empty() {
                format!("add `models: {{{}: ..}}` to the provider", chosen.value).into()
            } else {
                suggestion(&chosen.value, &known)
            };
            self.report_name(node, chosen.location, &chosen.value, |span| {
                let diagnostic = Diagnostic::from_rule(&rules::UNRESOLVED_MODEL, message, span)
                    .note("it is a name that a configuration maps to a model, not the name of a model");
                (diagnostic, hint)
            });
        }
        (Some(chosen), None)
    }
}

fn shown(source: &Source, span: Span) -> String {
    let position = source.position(span.start);
    format!("{}:{}:{}", source.name(), position.line, position.column)
}
