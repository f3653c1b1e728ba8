//! The check of the tools that a configuration names against the lock file of MCP servers.

use orchestra_graph::Diagnostic;

use crate::mcp_lock::{McpLock, McpLockError};
use crate::mcp_lock_file::{LockText, position};
use crate::project::Project;
use crate::reports::Reports;
use crate::rules;
use crate::suggestion::{in_yaml, one_of, suggestion};

impl Project {
    /// Returns the lock of the MCP servers. Returns `None` if there is no lock file, or if it is invalid, which the
    /// resolution of a pipeline reports.
    ///
    /// ```
    /// assert!(orchestra_config::Project::default().mcp_lock().is_none());
    /// ```
    pub fn mcp_lock(&self) -> Option<&McpLock> {
        self.mcp_lock_file().and_then(Result::ok)
    }

    /// Returns the lock of the MCP servers, or the error of its file. Returns `None` if there is no lock file.
    ///
    /// ```
    /// assert!(orchestra_config::Project::default().mcp_lock_file().is_none());
    /// ```
    pub fn mcp_lock_file(&self) -> Option<Result<&McpLock, &McpLockError>> {
        let file = self.mcp.as_ref()?.file.as_ref()?;
        Some(file.lock.as_ref())
    }

    /// Returns the path of the lock file of the MCP servers. Returns `None` for a configuration without servers.
    ///
    /// ```
    /// use orchestra_config::Project;
    /// let files = |path: &str, _: u64| match path {
    ///     "flows/orchestra.yaml" => Ok(b"mcp_servers: {files: {command: [files], tools: [read]}}".to_vec()),
    ///     _ => Err(orchestra_graph::ReadError::Missing),
    /// };
    /// let project = Project::load("flows/orchestra.yaml", &files);
    /// assert_eq!(project.mcp_lock_path(), Some("flows/orchestra.mcp.lock"));
    /// ```
    pub fn mcp_lock_path(&self) -> Option<&str> {
        self.mcp.as_ref().map(|lock| lock.path.as_str())
    }

    /// Reports tools that the lock file lacks.
    pub(crate) fn check_mcp(&self, reports: &mut Reports) {
        let Some(locked) = &self.mcp else { return };
        let configuration = &self.report.source;
        if let Some(LockText {
            source,
            lock: Err(error),
        }) = &locked.file
        {
            let message = format!("the lock file cannot be read: {}", error.message);
            let diagnostic =
                Diagnostic::from_rule(&rules::MCP_LOCK_INVALID, message, position(source, error));
            let help = "restore it from version control, or take it away and write it anew with `orchestra mcp lock`";
            reports.add(source, diagnostic.help(help));
            return;
        }
        let lock = self.mcp_lock();
        for (name, server) in &self.configuration.mcp_servers {
            let Some(tools) = lock.and_then(|lock| lock.server(name)) else {
                let message = format!("the tools of the server `{name}` are not locked");
                let diagnostic = Diagnostic::from_rule(&rules::MCP_NOT_LOCKED, message, server.span);
                let help = format!(
                    "run `orchestra mcp lock`, which starts the server, and review `{}`",
                    locked.path
                );
                reports.add(configuration, diagnostic.help(help));
                continue;
            };
            let known: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            if server.tools.is_empty() {
                let message = format!("the server `{name}` names no tools");
                let diagnostic = Diagnostic::from_rule(&rules::CONFIG_VALUE, message, server.span);
                let help = format!(
                    "add `tools: [..]` with those that models may call; {}",
                    one_of(&known)
                );
                reports.add(configuration, diagnostic.help(help));
            }
            for tool in &server.tools {
                if !known.contains(&tool.as_str()) {
                    let message = format!("the server `{name}` has no tool `{}`", tool.value);
                    let diagnostic = Diagnostic::from_rule(&rules::MCP_UNKNOWN_TOOL, message, tool.span);
                    let hint = suggestion(tool, &known);
                    reports.add(configuration, in_yaml(configuration, diagnostic, tool, hint));
                }
            }
        }
    }
}
