//! The agents and tools of a user, for all of their projects.

use std::collections::BTreeMap;

use orchestra_graph::{Diagnostic, Report};

use crate::check::{CODES, is_name, tool_is_sound};
use crate::decode::{Decode, Faults};
use crate::located::Located;
use crate::resolve::Project;
use crate::settings::{Agent, CommandTool, Names};
use crate::tree::{self, Node, Tree};

/// The agents and tools of a user's own folder, such as `~/.orchestra/agents/critic.yaml` and
/// `~/.orchestra/tools/lint.yaml`. What a project says under the same name stands in their place.
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
    /// The agents by their names, for [`ResolveOptions::agents`](crate::ResolveOptions::agents).
    pub agents: BTreeMap<String, Agent>,
    /// The tools by their names.
    pub tools: Names<CommandTool>,
    /// What is wrong with the files; one with errors gives nothing.
    pub reports: Vec<Report>,
}

impl UserFiles {
    /// Adds the agent of a file, which holds one key, `agent`.
    pub fn add_agent(&mut self, name: &str, path: &str, bytes: &[u8]) {
        if let Some(agent) = self.read(name, path, bytes, "agent", |_, _| {}) {
            self.agents.insert(name.to_owned(), agent.value);
        }
    }

    /// Adds the tool of a file, which holds one key, `tool`.
    pub fn add_tool(&mut self, name: &str, path: &str, bytes: &[u8]) {
        let check = |tool: &Located<CommandTool>, faults: &mut Faults| tool_is_sound(name, tool, faults);
        if let Some(tool) = self.read(name, path, bytes, "tool", check) {
            self.tools.insert(name.to_owned(), tool);
        }
    }

    /// Gives a project the tools that it does not have itself.
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
        check: impl FnOnce(&Located<T>, &mut Faults),
    ) -> Option<Located<T>> {
        let (source, tree) = tree::read(path, bytes, CODES.syntax);
        let mut faults = Faults::new(source.clone(), CODES);
        let found = match tree {
            Ok(tree) => only(&tree, kind, &mut faults).and_then(|body| {
                if !is_name(name) {
                    let message = format!("`{name}` cannot name a {kind}");
                    faults.value(
                        message,
                        body.span,
                        "rename the file; use letters, digits, `-`, `_` and `.`",
                    );
                }
                let value = T::decode(body, &mut faults)?;
                let found = Located {
                    value,
                    span: body.span,
                };
                check(&found, &mut faults);
                Some(found)
            }),
            Err(fault) => {
                faults.list.push(fault);
                None
            }
        };
        let has_errors = faults.list.iter().any(Diagnostic::is_error);
        if !faults.list.is_empty() {
            self.reports.push(Report::new(source, faults.list));
        }
        found.filter(|_| !has_errors)
    }
}

/// Returns what stands under the one key of a file.
fn only<'t>(tree: &'t Tree, kind: &str, faults: &mut Faults) -> Option<&'t Tree> {
    let mut found = None;
    for (key, value) in faults.entries(tree, "a map with one key")? {
        match key.text == kind {
            true => found = Some(value),
            false => faults.unknown_key(key, &[kind]),
        }
    }
    let body = found.filter(|body| !matches!(body.node, Node::Null));
    if body.is_none() && faults.list.is_empty() {
        faults.value(
            format!("there is no `{kind}:`"),
            tree.span,
            format!("write its settings below `{kind}:`"),
        );
    }
    body
}
