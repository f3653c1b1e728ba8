//! Checks of the use of repositories in a pipeline.

use std::collections::{BTreeMap, BTreeSet};

use orchestra_graph::{Diagnostic, NodeIndex, kind};

use crate::backend::BackendKind;
use crate::candidate::Location;
use crate::choose::Resolver;
use crate::resolved::ResolvedStage;
use crate::rules;

use crate::stage::AttributeValue;
use crate::suggestion::suggestion;

impl Resolver<'_> {
    /// Reports unknown repositories that nodes name.
    pub(crate) fn check_repositories(&mut self) {
        let repositories = &self.project.configuration.workspace.repos;
        let known: Vec<&str> = repositories.keys().map(String::as_str).collect();
        for node in self.nodes() {
            // A run uses the name exactly as written.
            let Some(name) = self
                .stages
                .of_node(node, "repo")
                .filter(AttributeValue::is_filled)
            else {
                continue;
            };
            if repositories.contains_key(&*name.text) {
                continue;
            }
            let hint = if known.is_empty() {
                "define it in `workspace.repos` of the configuration".into()
            } else {
                suggestion(&name.text, &known)
            };
            let message = format!("unknown repository `{}`", name.text);
            self.report_name(node, Location::Pipeline(name.span), &name.text, |span| {
                let diagnostic = Diagnostic::from_rule(&rules::UNKNOWN_REPOSITORY, message, span);
                (diagnostic, hint)
            });
        }
    }

    /// Reports nodes at which branches meet that may have changed files, but where nothing can merge them. Files are
    /// merged after the outcome of a node, and a node that runs nothing has no outcome.
    pub(crate) fn check_joins(&mut self, stages: &[ResolvedStage]) {
        if self.project.configuration.workspace.repos.is_empty() {
            return;
        }
        let resolved: BTreeMap<NodeIndex, &ResolvedStage> =
            self.stages.model_stages().into_iter().zip(stages).collect();
        let writers: BTreeSet<NodeIndex> = self
            .nodes()
            .filter(|node| self.may_write(*node, resolved.get(node).copied()))
            .collect();
        let mut reported = BTreeSet::new();
        for (fan_out, join) in self.stages.joins() {
            let what = match self.stages.kind(join) {
                kind::EXIT => "the exit",
                kind::CONDITIONAL => "a routing node",
                kind::WAIT_HUMAN => "a human gate",
                kind::PARALLEL => "another fan-out",
                _ => continue,
            };
            if reported.contains(&join) {
                continue;
            }
            let Some(writer) = self.writer(fan_out, join, &writers) else {
                continue;
            };
            reported.insert(join);
            let message = format!(
                "the branches of `{}` meet at `{}`, where nothing can merge their files",
                self.stages.id(fan_out),
                self.stages.id(join)
            );
            let note = format!(
                "`{}` is {what} and runs nothing, and `{}` may change files",
                self.stages.id(join),
                self.stages.id(writer)
            );
            self.report(join, Location::Nowhere, |span| {
                Diagnostic::from_rule(&rules::WORKSPACE_JOIN, message, span)
                    .note(note)
                    .help("put a fan-in (`shape=tripleoctagon`) before it")
            });
        }
    }

    fn nodes(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        let count = u32::try_from(self.stages.count()).unwrap_or(u32::MAX);
        (0..count).map(NodeIndex)
    }

    /// Returns a stage between a fan-out and its join that may change files.
    fn writer(
        &self,
        fan_out: NodeIndex,
        join: NodeIndex,
        writers: &BTreeSet<NodeIndex>,
    ) -> Option<NodeIndex> {
        let mut open = self.stages.next(fan_out);
        open.reverse();
        let mut seen = BTreeSet::from([fan_out, join]);
        while let Some(node) = open.pop() {
            if !seen.insert(node) {
                continue;
            }
            if writers.contains(&node) {
                return Some(node);
            }
            open.extend(self.stages.next(node).into_iter().rev());
        }
        None
    }

    fn may_write(&self, node: NodeIndex, resolved: Option<&ResolvedStage>) -> bool {
        match self.stages.kind(node) {
            kind::CODERGEN | kind::FAN_IN => resolved.is_some_and(|stage| {
                let configuration = &self.project.configuration;
                let calls = stage.backend_kind == BackendKind::Agent && !stage.tools.is_empty();
                calls && self.has_hooks(node) || stage.may_write(|tool| configuration.tool_is_read_only(tool))
            }),
            kind::START | kind::EXIT | kind::CONDITIONAL | kind::WAIT_HUMAN | kind::PARALLEL => false,
            // A command, a child pipeline or a handler of the program may change anything.
            _ => true,
        }
    }

    /// Returns whether hooks run around the tool calls of the stage.
    fn has_hooks(&self, node: NodeIndex) -> bool {
        ["tool_hooks.pre", "tool_hooks.post"].into_iter().any(|name| {
            let attribute = self
                .stages
                .of_node(node, name)
                .or_else(|| self.stages.of_graph(name));
            attribute.as_ref().is_some_and(AttributeValue::is_filled)
        })
    }
}
