//! The choice of the tools of a stage.

use orchestra_graph::{Diagnostic, NodeIndex, Source, Span};

use crate::candidate::{AgentLayer, Candidate, Location};
use crate::choose::Resolver;
use crate::decode::suggestion;
use crate::located::Located;
use crate::names::{BUILT_IN_TOOLS, tool_name};
use crate::resolved::UnknownTool;
use crate::rules;
use crate::settings::BackendKind;

impl Resolver<'_> {
    /// Returns the tools of a stage. The tools that the node, or else its agent, names are added to those of the
    /// backend, or to the agent's `only_tools`. An empty list leaves the stage without tools.
    pub(crate) fn tools(
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
            self.report(node, location, |span| {
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
        self.report_unknown_tool(name, source, diagnostic);
    }

    fn report_unknown_tool(&mut self, name: &str, source: Source, diagnostic: Diagnostic) {
        self.reports.add(&source, diagnostic.clone());
        let name = tool_name(name);
        let same = |known: &UnknownTool| known.name == name && known.diagnostic.span == diagnostic.span;
        if !self.unknown_tools.iter().any(same) {
            self.unknown_tools.push(UnknownTool {
                name,
                source,
                diagnostic,
            });
        }
    }

    /// Checks the tools of all agents of the configuration, even of those that no stage uses.
    pub(crate) fn check_agents(&mut self) {
        let source = self.project.report.source.clone();
        for agent in self.project.configuration.agents.values() {
            for name in agent.tools.iter().chain(&agent.only_tools).flatten() {
                if !self.tools.contains(&tool_name(name)) {
                    let diagnostic = unknown_tool(name, &self.tools, name.span);
                    self.report_unknown_tool(name, source.clone(), diagnostic);
                }
            }
        }
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
