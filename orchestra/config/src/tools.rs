//! The choice of the tools of a stage.

use std::ops::Range;

use orchestra_graph::{Diagnostic, NodeIndex, Source, Span, value_text};

use crate::backend::BackendKind;
use crate::candidate::{AgentLayer, Candidate, Location};
use crate::choose::Resolver;
use crate::located::Located;
use crate::names::{BUILT_IN_TOOLS, tool_name};
use crate::resolved::UnknownTool;
use crate::rules;
use crate::suggestion::{Hint, in_value, in_yaml, suggestion};

/// A tool in a list.
struct Listed {
    /// The name, as tools are compared.
    name: String,
    location: Location,
    /// The name as it is written.
    written: String,
    /// The range of the name in the text of the attribute; `None` for a list of an agent.
    range: Option<Range<usize>>,
}

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
                let listed = |name: &Located<String>| Listed {
                    name: tool_name(name),
                    location: location(name),
                    written: name.value.clone(),
                    range: None,
                };
                list.iter().map(listed).collect::<Vec<_>>()
            })
        };
        let of_node = self.stages.of_node(node, "agent.tools").map(|attribute| {
            let location = Location::Pipeline(attribute.span);
            let ranges = comma_separated(&attribute.text).into_iter();
            let listed = ranges.map(|range| {
                let written = attribute.text.get(range.clone()).unwrap_or_default();
                Listed {
                    name: tool_name(written),
                    location,
                    written: written.to_owned(),
                    range: Some(range),
                }
            });
            listed.collect::<Vec<_>>()
        });
        let from_node = of_node.is_some();
        let added = of_node.or_else(|| listed(&agent_layer.agent.tools));
        let only = listed(&agent_layer.agent.only_tools);
        let first = added
            .iter()
            .chain(&only)
            .flatten()
            .next()
            .map(|listed| listed.location);
        if let (Some(location), false) = (first, kind.has_tools()) {
            let message = format!("the backend `{}` gives its model no tools", backend.value);
            let note = match kind {
                BackendKind::Cli | BackendKind::Acp => "a program that is an agent has tools of its own",
                _ => "a backend of the kind `direct` asks its model once",
            };
            self.report(node, location, |span| {
                Diagnostic::from_rule(&rules::BACKEND_CAPABILITY, message, span)
                    .note(note)
                    .help("choose a backend of the kind `agent`, or name no tools")
            });
        }
        for listed in added.iter().chain(&only).flatten() {
            // The tools in the configuration are checked by `check_agents`.
            let checked = matches!(listed.location, Location::Configuration(_));
            if !checked && !self.tools.contains(&listed.name) {
                self.unknown_tool(node, listed);
            }
        }
        if !kind.has_tools() {
            return Vec::new();
        }
        let none = added.as_ref().is_some_and(Vec::is_empty) && (from_node || only.is_none());
        let mut tools: Vec<String> = match only {
            _ if none => Vec::new(),
            Some(only) => only.into_iter().map(|listed| listed.name).collect(),
            None => BUILT_IN_TOOLS.iter().map(|name| (*name).to_owned()).collect(),
        };
        tools.extend(added.into_iter().flatten().map(|listed| listed.name));
        tools.sort_unstable();
        tools.dedup();
        tools
    }

    fn unknown_tool(&mut self, node: NodeIndex, listed: &Listed) {
        let source = self.source.clone();
        let span = match listed.location {
            Location::Pipeline(span) | Location::Agent(span) | Location::Configuration(span) => span,
            Location::Nowhere => self.stages.node_span(node),
        };
        let (diagnostic, hint) = self.unknown_tool_diagnostic(&listed.name, span);
        let is_written = |range: &Range<usize>| {
            let text = value_text(&source, span);
            self.stages.has_spans() && text.get(range.clone()) == Some(&*listed.written)
        };
        let range = listed.range.clone().filter(is_written);
        let diagnostic = in_value(&source, diagnostic, range, hint);
        let diagnostic = diagnostic.node(self.stages.id(node));
        self.report_unknown_tool(&listed.name, source, diagnostic);
    }

    /// Returns the diagnostic for an unknown tool, with a hint. A tool of an MCP server is suggested as the server writes
    /// it.
    fn unknown_tool_diagnostic(&self, name: &str, span: Span) -> (Diagnostic, Hint) {
        let (diagnostic, hint) = unknown_tool(name, &self.tools, span);
        let meant = hint.meant.as_deref();
        match meant.and_then(|meant| self.project.configuration.mcp_tool(meant)) {
            Some((server, _, tool)) => (diagnostic, Hint::meant(format!("{server}:{tool}"))),
            None => (diagnostic, hint),
        }
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
                    let (diagnostic, hint) = self.unknown_tool_diagnostic(name, name.span);
                    let diagnostic = in_yaml(&source, diagnostic, name, hint);
                    self.report_unknown_tool(name, source.clone(), diagnostic);
                }
            }
        }
    }
}

/// Returns the ranges of the names in a list that is separated by commas.
fn comma_separated(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    for part in text.split(',') {
        let begin = start + (part.len() - part.trim_start().len());
        start += part.len() + 1;
        if !part.trim().is_empty() {
            ranges.push(begin..begin + part.trim().len());
        }
    }
    ranges
}

/// Returns the diagnostic for an unknown tool, with a hint.
fn unknown_tool(name: &str, known: &[String], span: Span) -> (Diagnostic, Hint) {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let diagnostic = Diagnostic::from_rule(&rules::UNKNOWN_TOOL, format!("unknown tool `{name}`"), span);
    let repositories: Vec<&str> = known
        .iter()
        .filter_map(|name| Some(name.split_once(':')?.0))
        .collect();
    let hint = suggestion(&tool_name(name), &known);
    match name.split_once(':') {
        Some((repository, _)) if !repositories.contains(&repository) => {
            let note = format!("the configuration has neither a repository nor an MCP server `{repository}`");
            (diagnostic.note(note), hint)
        }
        _ => (diagnostic, hint),
    }
}
