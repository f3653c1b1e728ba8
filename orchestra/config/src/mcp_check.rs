//! The check of the tools that a configuration names against the lock file of MCP servers.

use orchestra_graph::{ChildReader, Diagnostic, ReadError, Source, Span};

use crate::files::{FileUse, folder_of, join};
use crate::mcp_lock::{MCP_LOCK_FILE, McpLock, McpLockError};
use crate::project::Project;
use crate::reports::Reports;
use crate::rules;
use crate::suggestion::{in_yaml, one_of, suggestion};
use crate::tree::MAX_BYTES;

/// The lock file of the MCP servers of a project.
#[derive(Clone, Debug)]
pub(crate) struct ProjectLock {
    pub(crate) path: String,
    /// The file; `None` if it does not exist.
    pub(crate) file: Option<LockText>,
}

/// The text of a lock file, and its content.
#[derive(Clone, Debug)]
pub(crate) struct LockText {
    source: Source,
    pub(crate) lock: Result<McpLock, McpLockError>,
}

impl ProjectLock {
    /// Reads the lock file beside a configuration.
    pub(crate) fn read(configuration: &str, reader: &dyn ChildReader) -> ProjectLock {
        let path = join(folder_of(configuration), MCP_LOCK_FILE);
        let file = match reader.read(&path, MAX_BYTES) {
            Err(ReadError::Missing) => None,
            Err(ReadError::TooLong(length)) => Some(LockText::unreadable(
                &path,
                format!("it has {length} bytes, and may have {MAX_BYTES}"),
            )),
            Err(ReadError::Other(why)) => Some(LockText::unreadable(&path, why)),
            Ok(bytes) => Some(match String::from_utf8(bytes) {
                Ok(text) => LockText {
                    lock: McpLock::parse(&text),
                    source: Source::new(path.as_str(), text.as_str()),
                },
                Err(_) => LockText::unreadable(&path, "it is not UTF-8".to_owned()),
            }),
        };
        ProjectLock { path, file }
    }

    pub(crate) fn file_use(&self) -> FileUse {
        FileUse {
            path: self.path.clone(),
            found: self.file.is_some(),
        }
    }
}

impl LockText {
    fn unreadable(path: &str, message: String) -> LockText {
        LockText {
            source: Source::new(path, ""),
            lock: Err(McpLockError {
                line: 1,
                column: 1,
                message,
            }),
        }
    }
}

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

/// Returns the span of the character at which an error was found.
fn position(source: &Source, error: &McpLockError) -> Span {
    let text = source.text();
    let lines = text.split_inclusive('\n').take(error.line.saturating_sub(1));
    let line: usize = lines.map(str::len).sum();
    let mut at = (line + error.column.saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let length = text.get(at..).and_then(|rest| rest.chars().next());
    let end = at + length.map_or(0, char::len_utf8);
    let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Span::new(number(at), number(end))
}
