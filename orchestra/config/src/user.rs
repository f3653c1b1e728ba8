//! The agents and tools of a user, for all of the user's projects.

use std::collections::BTreeMap;

use orchestra_graph::{Diagnostic, Report};

use crate::check::FILE_RULES;
use crate::command_tool::check_tool;
use crate::decode::{Decode, Diagnostics};
use crate::located::Located;
use crate::located::Names;
use crate::names::is_name;
use crate::project::Project;
use crate::settings::{Agent, CommandTool};
use crate::tree::{self, Node, Tree};

/// The agents and tools in a user's folder, such as `~/.orchestra/agents/critic.yaml` and
/// `~/.orchestra/tools/lint.yaml`. A project's own definition of the same name replaces them.
///
/// ```
/// use orchestra_config::{Project, UserFiles};
/// let mut files = UserFiles::default();
/// files.add_agent("critic", "agents/critic.yaml", b"agent: {role: adversarial-critic, tools: [lint]}");
/// files.add_tool("lint", "tools/lint.yaml", b"tool: {command: make lint, description: Finds mistakes.}");
/// assert!(files.reports.is_empty());
/// let mut project = Project::default();
/// files.add_tools_to(&mut project);
/// assert!(project.configuration.tools.contains_key("lint") && files.agents.contains_key("critic"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct UserFiles {
    /// The agents by name, for [`ResolveOptions::agents`](crate::ResolveOptions::agents).
    pub agents: BTreeMap<String, Agent>,
    /// The tools by name.
    pub tools: Names<CommandTool>,
    /// The diagnostics of the files. A file with errors defines nothing.
    pub reports: Vec<Report>,
}

impl UserFiles {
    /// Adds the agent of a file whose only key is `agent`.
    pub fn add_agent(&mut self, name: &str, path: &str, bytes: &[u8]) {
        if let Some(agent) = self.read(name, path, bytes, "agent", |_, _| {}) {
            self.agents.insert(name.to_owned(), agent.value);
        }
    }

    /// Adds the tool of a file whose only key is `tool`.
    pub fn add_tool(&mut self, name: &str, path: &str, bytes: &[u8]) {
        let check =
            |tool: &Located<CommandTool>, diagnostics: &mut Diagnostics| check_tool(name, tool, diagnostics);
        if let Some(tool) = self.read(name, path, bytes, "tool", check) {
            self.tools.insert(name.to_owned(), tool);
        }
    }

    /// Adds the tools to a project, except those that it defines itself.
    pub fn add_tools_to(&self, project: &mut Project) {
        for (name, tool) in &self.tools {
            let tools = &mut project.configuration.tools;
            tools.entry(name.clone()).or_insert_with(|| tool.clone());
        }
    }

    fn read<T: Decode>(
        &mut self,
        name: &str,
        path: &str,
        bytes: &[u8],
        kind: &str,
        check: impl FnOnce(&Located<T>, &mut Diagnostics),
    ) -> Option<Located<T>> {
        let (source, tree) = tree::read(path, bytes, FILE_RULES.syntax);
        let mut diagnostics = Diagnostics::new(source.clone(), FILE_RULES);
        let found = match tree {
            Ok(tree) => only(&tree, kind, &mut diagnostics).and_then(|body| {
                if !is_name(name) {
                    let message = format!("`{name}` cannot name a {kind}");
                    diagnostics.value(
                        message,
                        body.span,
                        "rename the file; use letters, digits, `-`, `_` and `.`",
                    );
                }
                let value = T::decode(body, &mut diagnostics)?;
                let found = Located {
                    value,
                    span: body.span,
                };
                check(&found, &mut diagnostics);
                Some(found)
            }),
            Err(diagnostic) => {
                diagnostics.list.push(diagnostic);
                None
            }
        };
        let has_errors = diagnostics.list.iter().any(Diagnostic::is_error);
        if !diagnostics.list.is_empty() {
            self.reports.push(Report::new(source, diagnostics.list));
        }
        if has_errors { None } else { found }
    }
}

/// Returns the value of the only key of a file.
fn only<'t>(tree: &'t Tree, kind: &str, diagnostics: &mut Diagnostics) -> Option<&'t Tree> {
    let mut found = None;
    for (key, value) in diagnostics.entries(tree, "a map with one key")? {
        if key.text == kind {
            found = Some(value)
        } else {
            diagnostics.unknown_key(key, &[kind])
        }
    }
    let body = found.filter(|body| !matches!(body.node, Node::Null));
    if body.is_none() && diagnostics.list.is_empty() {
        diagnostics.value(
            format!("there is no `{kind}:`"),
            tree.span,
            format!("write its settings below `{kind}:`"),
        );
    }
    body
}
